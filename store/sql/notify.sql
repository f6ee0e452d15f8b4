-- Writes that send their pointer to readers in the same round trip, after the commit: a transaction that has notified
-- commits while no other one in the cluster that has does, so it must not have written anything. See callAndNotify().

-- A batch of pointers to readers, as bus/bus.ts packs it.
CREATE OR REPLACE FUNCTION notify_readers(p_pointers jsonb) RETURNS void LANGUAGE sql AS $$
  SELECT pg_notify('perdure', p_pointers::text)
$$;

CREATE OR REPLACE PROCEDURE accept_message_and_notify(
  p_session text, p_user text, p_message text, p_answer text, p_parts jsonb, p_metadata jsonb, p_model text,
  p_max_queue integer, p_attributes jsonb, INOUT value jsonb DEFAULT NULL
) LANGUAGE plpgsql AS $$
BEGIN
  value := accept_message(p_session, p_user, p_message, p_answer, p_parts, p_metadata, p_model, p_max_queue, p_attributes);
  COMMIT;
  IF value ->> 'state' = 'queued' THEN
    PERFORM notify_readers(jsonb_build_array(
      jsonb_build_object('session', p_session, 'run', value -> 'run_seq', 'kind', 'accepted'),
      jsonb_build_object('session', p_session, 'kind', 'status')));
  END IF;
END $$;

CREATE OR REPLACE PROCEDURE append_streams_and_notify(
  p_sessions text[], p_runs integer[], p_fences text[], p_metadata jsonb[], p_parts jsonb[],
  p_batches integer[], p_part_ids text[], p_starts integer[], p_texts text[], INOUT value text[] DEFAULT NULL
) LANGUAGE plpgsql AS $$
BEGIN
  value := append_streams(
    p_sessions, p_runs, p_fences, p_metadata, p_parts, p_batches, p_part_ids, p_starts, p_texts);
  COMMIT;
  PERFORM notify_readers(jsonb_agg(jsonb_build_object('session', session_id, 'run', seq, 'kind', 'stream')))
     FROM ROWS FROM (unnest(p_sessions), unnest(p_runs), unnest(value)) AS batch(session_id, seq, state)
    WHERE state IS NOT NULL
   HAVING count(*) > 0;
END $$;

CREATE OR REPLACE PROCEDURE settle_step_and_notify(
  p_session text, p_run integer, p_fence integer[], p_metadata jsonb, p_parts jsonb, p_next_index integer,
  p_step jsonb, p_outcome jsonb, INOUT value jsonb DEFAULT NULL
) LANGUAGE plpgsql AS $$
BEGIN
  value := settle_step(p_session, p_run, p_fence, p_metadata, p_parts, p_next_index, p_step, p_outcome);
  COMMIT;
  PERFORM notify_readers(CASE WHEN value ->> 'state' <> 'running' THEN jsonb_build_array(
      jsonb_build_object('session', p_session, 'run', p_run, 'kind', 'stream', 'over', true),
      jsonb_build_object('session', p_session, 'kind', 'status'))
    ELSE jsonb_build_array(jsonb_build_object('session', p_session, 'run', p_run, 'kind', 'stream')) END);
END $$;
