-- Taking messages back that are still queued. What such a message has replaced is shown again. Of a run that is
-- queued, or was taken out of the queue, chat_runs.replaced has what that needs; null: it has replaced nothing.
--
--   by       the id of the message, or of the answer of a message that is answered again: rows that it has hidden name it
--   rewinds  the stack of rewinds before it (rewind.sql)
--   message  the message in whose place it stands, if any
--   after    the position after which it has hidden everything, if it has, with hide_after's `shown`
--   restore  { n, before }: the request for files that it has made, if any, and the one that this has replaced
--   since    the run in whose place this one was queued, if an edit has exchanged it
--   model    the session's model before it, if it has changed that

-- The next submission after a rewind: its message replaces the one that was gone back to. The result of a task replaces nothing.
CREATE OR REPLACE FUNCTION replace_rewound(p_session text, p_run integer, p_message text, p_rewinds jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM tasks WHERE parent_id = p_session AND message_id = p_message) THEN
    PERFORM hide_message(p_session, p_rewinds #>> '{-1,message_id}', 'edit', p_message);
  END IF;
  UPDATE chat_runs
     SET replaced = jsonb_build_object('by', p_message, 'rewinds', p_rewinds, 'message', p_rewinds #> '{-1,message_id}')
                    || CASE WHEN replaced ? 'model' THEN jsonb_build_object('model', replaced -> 'model') ELSE '{}' END
   WHERE session_id = p_session AND seq = p_run;
END $$;

-- Whether a run was queued together with its message, and not to answer an existing message again. The second test is for runs of
-- an earlier version, which have no `replaced`.
CREATE OR REPLACE FUNCTION is_of_new_message(p_run chat_runs) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN p_run.replaced ->> 'by' IS DISTINCT FROM p_run.answer_id AND NOT EXISTS (
    SELECT FROM chat_runs WHERE session_id = p_run.session_id AND message_id = p_run.message_id AND seq < p_run.seq);
END $$;

-- Ends a queued run and returns the id of its message; null: it is not queued any more. The message can be searched like those of
-- other turns that are over. `p_stays`: a message that is new, and what it has replaced, stay as they are.
CREATE OR REPLACE FUNCTION cancel_queued_run(p_session text, p_run integer, p_stays boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
BEGIN
  UPDATE chat_runs
     SET state = 'cancelled', finished_at = clock_timestamp(), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND state = 'queued'
  RETURNING * INTO v_run;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF NOT p_stays OR NOT is_of_new_message(v_run) THEN PERFORM take_back(v_run); END IF;
  PERFORM queue_turn(p_session, v_run.message_id);
  RETURN v_run.message_id;
END $$;

-- The numbers of the queued runs.
CREATE OR REPLACE FUNCTION queued_runs(p_session text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(seq ORDER BY seq), '[]') FROM chat_runs WHERE session_id = p_session AND state = 'queued'
$$;

-- Ends all queued runs and returns the ids of the messages that were queued with them, in order: not of those that were to be
-- answered again, and none of runs by hand. Of `p_target`, to which the session goes back, the message stays. The last run ends
-- first, so that none takes over what another one has replaced; that of `p_target` does.
CREATE OR REPLACE FUNCTION drop_queue(p_session text, p_target text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_dropped jsonb;
  v_run chat_runs;
BEGIN
  SELECT coalesce(jsonb_agg(message_id ORDER BY seq), '[]') INTO v_dropped
    FROM chat_runs r WHERE session_id = p_session AND state = 'queued' AND kind = 'turn' AND is_of_new_message(r);
  FOR v_run IN
    SELECT * FROM chat_runs WHERE session_id = p_session AND state = 'queued' ORDER BY message_id = p_target, seq DESC
  LOOP
    PERFORM cancel_queued_run(p_session, v_run.seq, v_run.message_id IS NOT DISTINCT FROM p_target);
  END LOOP;
  RETURN v_dropped;
END $$;

-- After a run with the model `p_from` that is not carried forward any more: the session has `p_to` again, and so have the messages that
-- are queued after it, up to one that names a model. If that is taken back, the session has `p_to`, too.
CREATE OR REPLACE FUNCTION give_back_model(p_session text, p_run integer, p_from text, p_to text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_chosen integer;
BEGIN
  SELECT min(r.seq) INTO v_chosen
    FROM chat_runs r JOIN chat_messages m ON m.session_id = r.session_id AND m.id = r.message_id
   WHERE r.session_id = p_session AND r.state = 'queued' AND r.seq > p_run
     AND (r.replaced ? 'model' OR m.metadata ? 'model' AND carried_model(r.model, NULL) IS NOT NULL);
  UPDATE chat_runs SET model = p_to, updated_at = clock_timestamp()
   WHERE session_id = p_session AND state = 'queued' AND seq > p_run AND model IS NOT DISTINCT FROM p_from
     AND (v_chosen IS NULL OR seq < v_chosen);
  UPDATE chat_runs SET replaced = coalesce(replaced, '{}') || jsonb_build_object('model', p_to)
   WHERE session_id = p_session AND seq = v_chosen;
  UPDATE chat_sessions SET model = p_to, updated_at = clock_timestamp()
   WHERE session_id = p_session AND model IS NOT DISTINCT FROM p_from AND v_chosen IS NULL;
END $$;

-- Of a run that was taken out of the queue and had changed the session's model.
CREATE OR REPLACE FUNCTION take_back_model(p_run chat_runs) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_run.replaced ? 'model' THEN
    PERFORM give_back_model(p_run.session_id, p_run.seq, p_run.model, p_run.replaced ->> 'model');
  END IF;
END $$;

-- Hides the message of a run that was taken out of the queue, unless it was to be answered again, and shows what it had replaced,
-- unless a run that was queued before it has begun since: then the conversation has gone on without that. After a rewind, the
-- next queued message takes over what it had replaced. Files stay as they were if no worker has begun to restore those that it had
-- asked for. Returns the number of messages that are shown again.
CREATE OR REPLACE FUNCTION take_back(p_run chat_runs) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_session text := p_run.session_id;
  v_was jsonb := nullif(p_run.replaced - 'model', '{}');
  v_rewinds jsonb := nullif(v_was -> 'rewinds', 'null');
  v_shown integer := 0;
  v_next chat_runs;
BEGIN
  IF is_of_new_message(p_run) THEN
    PERFORM hide_message(v_session, p_run.message_id, 'cancelled', p_run.message_id);
  END IF;
  PERFORM take_back_model(p_run);
  IF v_was IS NULL OR EXISTS (
       SELECT FROM chat_runs
        WHERE session_id = v_session AND seq > (v_was ->> 'since')::integer AND seq < p_run.seq
          AND state NOT IN ('queued', 'cancelled')) THEN
    RETURN 0;
  END IF;
  UPDATE chat_messages SET hidden_at = NULL, updated_at = clock_timestamp(), metadata = metadata - 'hidden_by'
   WHERE session_id = v_session AND id = v_was ->> 'message'
     AND metadata -> 'hidden_by' = jsonb_build_object('cause', 'edit', 'id', v_was -> 'by');
  GET DIAGNOSTICS v_shown = ROW_COUNT;
  IF v_was ? 'after' THEN
    v_shown := v_shown + show_after(v_session, (v_was ->> 'after')::bigint, v_was ->> 'by', v_was -> 'shown');
  END IF;
  IF v_rewinds IS NOT NULL THEN
    -- Rather a message than the result of a task, which replaces nothing.
    SELECT * INTO v_next FROM chat_runs r
     WHERE session_id = v_session AND state = 'queued' AND kind = 'turn'
     ORDER BY EXISTS (SELECT FROM tasks WHERE parent_id = v_session AND message_id = r.message_id), seq LIMIT 1;
    IF v_next.seq IS NOT NULL THEN
      PERFORM replace_rewound(v_session, v_next.seq, v_next.message_id, v_rewinds);
      v_rewinds := NULL;
    END IF;
  END IF;
  UPDATE chat_sessions
     SET rewinds = v_rewinds, updated_at = clock_timestamp(),
         restore = CASE WHEN restore ->> 'n' = v_was #>> '{restore,n}'
                         AND restore ->> 'claimed_for' IS DISTINCT FROM restore ->> 'n'
                        THEN nullif(v_was #> '{restore,before}', 'null') || jsonb_build_object(
                               'claimed_at', restore -> 'claimed_at', 'claimed_for', restore -> 'claimed_for')
                        ELSE restore END
   WHERE session_id = v_session;
  RETURN v_shown;
END $$;
