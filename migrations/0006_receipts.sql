-- An outcome's event names the event that holds the words of its reason: whoever brings one logs it before, under the
-- command's own id.
CREATE OR REPLACE FUNCTION record_outcome(
  p_session text, p_kind text, p_actor text, p_command_id text, p_data jsonb, p_outcome jsonb
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_outcome jsonb;
  v_reason bigint;
BEGIN
  SELECT p_outcome || jsonb_build_object(
           'phase', s.phase,
           'project_id', s.project_id,
           'event_seq', (SELECT coalesce(max(seq), 0) + 1 FROM session_events WHERE session_id = p_session))
    INTO v_outcome FROM sessions s WHERE s.session_id = p_session;
  SELECT seq INTO v_reason FROM session_events
   WHERE session_id = p_session AND command_id = p_command_id || '/reason';
  PERFORM append_event(p_session, p_kind, p_actor,
    p_data || jsonb_build_object('outcome', v_outcome)
           || CASE WHEN v_reason IS NULL THEN '{}' ELSE jsonb_build_object('reason_seq', v_reason) END, p_command_id);
  RETURN v_outcome;
END $$;

-- As before, and a receipt of a session that has been opened again since says so: "closed": false.
CREATE OR REPLACE FUNCTION close_session(p_session text, p_abort boolean, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_run integer;
  v_dropped jsonb;
BEGIN
  IF v_receipt IS NOT NULL THEN
    RETURN v_receipt || CASE
      WHEN EXISTS (SELECT FROM chat_sessions WHERE session_id = p_session AND closed_at IS NULL)
       AND (v_receipt ->> 'ok')::boolean THEN '{"closed": false}' ELSE '{}' END::jsonb;
  END IF;
  IF NOT p_abort AND EXISTS (
       SELECT FROM chat_runs WHERE session_id = p_session AND state IN ('queued', 'running', 'waiting')) THEN
    RETURN record_refusal(p_session, 'close', p_actor, p_command_id, '{"code": "RunInFlight"}');
  END IF;
  SELECT coalesce(jsonb_agg(cancel_queued_run(p_session, seq) ORDER BY seq), '[]') INTO v_dropped
    FROM chat_runs WHERE session_id = p_session AND state = 'queued';
  v_run := request_abort(p_session);
  UPDATE chat_sessions SET closed_at = clock_timestamp(), updated_at = clock_timestamp() WHERE session_id = p_session;
  RETURN record_outcome(p_session, 'closed', p_actor, p_command_id, '{}',
    jsonb_build_object('ok', true, 'aborted', v_run IS NOT NULL, 'run_seq', v_run, 'dropped', v_dropped));
END $$;
