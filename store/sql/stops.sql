-- What the commands abort and cancel stop (commands.sql): never more than they meant when they were accepted.

-- The newest run that answers a message, or what has replaced it. Null: none does.
CREATE OR REPLACE FUNCTION answering_run(p_session text, p_message text) RETURNS integer LANGUAGE sql STABLE AS $$
  SELECT (newest_run(p_session, coalesce((newest_version(p_session, p_message)).id, p_message))).seq
$$;

-- What a command to stop that is accepted now means, however late it is carried out: { run_seq, in_flight, event_seq }.
-- `run_seq` is the run that answers the message, null if none does yet; without a message it is the run in flight, or if none
-- is (`in_flight` false), the last one that is over. `event_seq` is the newest event.
CREATE OR REPLACE FUNCTION stop_meant(p_session text, p_message text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_head integer := head_run(p_session);
  v_run integer := v_head;
BEGIN
  IF p_message IS NOT NULL THEN
    v_run := answering_run(p_session, p_message);
  ELSIF v_head IS NULL THEN
    v_run := coalesce(
      -- An error has paused the queue.
      (SELECT min(seq) - 1 FROM chat_runs WHERE session_id = p_session AND state = 'queued'),
      (SELECT max(seq) FROM chat_runs WHERE session_id = p_session), 0);
  END IF;
  RETURN jsonb_build_object('run_seq', v_run, 'in_flight', v_head IS NOT NULL,
    'event_seq', (SELECT coalesce(max(seq), 0) FROM session_events WHERE session_id = p_session));
END $$;

-- Aborts the run in flight and ends the session's children, for the arguments { message_id?, meant? } of a command to stop, where
-- `meant` is from stop_meant() when the command was accepted. With a message, only if its run is open; one in the queue ends at once,
-- alone. Without, the run is no later than `meant`, and the children were called by none that is. `run_seq` is null if no run was to be
-- aborted; `is_current`: nothing has begun in the session since that is not meant.
CREATE OR REPLACE FUNCTION stop_run(
  p_session text, p_args jsonb, OUT run_seq integer, OUT children jsonb, OUT is_current boolean, OUT refusal jsonb
) LANGUAGE plpgsql AS $$
DECLARE
  v_message text := p_args ->> 'message_id';
  v_last integer := (p_args #>> '{meant,run_seq}')::integer;
  v_head integer := head_run(p_session);
BEGIN
  children := '[]';
  IF v_message IS NOT NULL THEN
    v_last := coalesce(v_last, answering_run(p_session, v_message));
    is_current := coalesce(v_last = v_head, false);
    IF v_last IS NULL THEN
      refusal := not_a_question(newest_version(p_session, v_message));
    ELSIF NOT is_current AND EXISTS (
        SELECT FROM chat_runs WHERE session_id = p_session AND seq = v_last AND state = 'queued') THEN
      PERFORM settle_run(p_session, v_last, NULL, 'aborted', NULL, NULL, NULL);
      run_seq := v_last;
    END IF;
    IF NOT is_current THEN RETURN; END IF;
  END IF;
  run_seq := request_abort(p_session, v_last);
  children := abort_children(p_session, v_last);
  is_current := run_seq IS NOT NULL OR v_head IS NULL AND NOT EXISTS (
    SELECT FROM session_events
     WHERE session_id = p_session AND seq > (p_args #>> '{meant,event_seq}')::bigint AND kind = 'transition');
END $$;

-- Why no run can answer a message; null: it is one of the user.
CREATE OR REPLACE FUNCTION not_a_question(p_message chat_messages) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_message.id IS NULL THEN '{"code": "MessageNotFound", "field": "message_id"}'::jsonb
              WHEN p_message.role <> 'user' THEN '{"code": "NotUserMessage", "field": "message_id"}' END
$$;

-- What the event of a command to stop says: the run that it has aborted, and what was meant, by the message or the last run.
CREATE OR REPLACE FUNCTION stop_data(p_args jsonb, p_run integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'run_seq', p_run, 'message_id', p_args -> 'message_id', 'last_run', p_args #> '{meant,run_seq}'))
$$;
