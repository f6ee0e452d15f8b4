-- Commands of users and operators. domain/command-table.ts lists them; each has a function
--
--   cmd_<name>(p_session text, p_args jsonb, p_actor text, p_command_id text) RETURNS jsonb
--
-- which is one transaction and one round trip: it locks the session, looks up the recorded outcome of its command id
-- (repeats get the same answer), checks, writes, and records the outcome as an event.
--
-- An outcome is a jsonb object: { "ok": true, ... } or { "ok": false, "code": <error code>, ... }, plus the session's
-- phase, project and newest event number after the command. "closed" is added where the session is closed and the command
-- would not have closed it, or is open after a close: the workflow ends behind a session that is closed.

-- The recorded outcome of a command id, or null.
CREATE OR REPLACE FUNCTION receipt(p_session text, p_command_id text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT data -> 'outcome' FROM session_events WHERE session_id = p_session AND command_id = p_command_id
$$;

-- Records a command's outcome and adds to it what the session is now. The event names the event that holds the reason's
-- text, where one was logged before under "<command id>/reason".
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
  -- A command that is carried out opens a closed session again; a refused one does not.
  IF (p_outcome ->> 'ok')::boolean AND p_kind <> 'closed' THEN
    UPDATE chat_sessions SET closed_at = NULL, updated_at = clock_timestamp()
     WHERE session_id = p_session AND closed_at IS NOT NULL;
  END IF;
  RETURN v_outcome;
END $$;

CREATE OR REPLACE FUNCTION record_refusal(p_session text, p_command text, p_actor text, p_command_id text, p_refusal jsonb)
RETURNS jsonb LANGUAGE sql AS $$
  SELECT record_outcome(p_session, 'refused', p_actor, p_command_id, jsonb_build_object('command', p_command),
                        p_refusal || '{"ok": false}')
         || CASE WHEN closed_at IS NULL THEN '{}' ELSE '{"closed": true}' END::jsonb
    FROM chat_sessions WHERE session_id = p_session
$$;

CREATE OR REPLACE FUNCTION invalid_transition(p_session text, p_event text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('code', 'InvalidTransition', 'phase', phase, 'event', p_event)
    FROM sessions WHERE session_id = p_session
$$;

-- Locks the session and answers with the recorded outcome where there is one. Null: the command is new. A repeat reopens
-- nothing, or a close that is sent twice would undo itself.
CREATE OR REPLACE FUNCTION begin_command(p_session text, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_receipt jsonb;
  v_closes boolean;
BEGIN
  IF v_chat.session_id IS NULL THEN
    RETURN '{"ok": false, "code": "SessionNotFound"}';
  END IF;
  v_receipt := receipt(p_session, p_command_id);
  IF v_receipt IS NULL THEN RETURN NULL; END IF;
  SELECT kind = 'closed' INTO v_closes FROM session_events WHERE session_id = p_session AND command_id = p_command_id;
  IF v_closes <> (v_chat.closed_at IS NOT NULL) THEN
    RETURN v_receipt || jsonb_build_object('closed', NOT v_closes);
  END IF;
  RETURN v_receipt;
END $$;

-- Moves the phase and leaves a run alone.
CREATE OR REPLACE FUNCTION raise_event(p_session text, p_event text, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_from text;
  v_to text;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  SELECT phase INTO v_from FROM sessions WHERE session_id = p_session;
  v_to := write_phase(p_session, p_event);
  IF v_to IS NULL THEN
    RETURN record_refusal(p_session, p_event, p_actor, p_command_id, invalid_transition(p_session, p_event));
  END IF;
  RETURN record_outcome(p_session, 'transition', p_actor, p_command_id,
                        jsonb_build_object('event', p_event, 'from', v_from, 'to', v_to), '{"ok": true}');
END $$;

CREATE OR REPLACE FUNCTION cmd_publish(p_session text, p_args jsonb, p_actor text, p_command_id text) RETURNS jsonb
LANGUAGE sql AS $$ SELECT raise_event(p_session, 'publish', p_actor, p_command_id) $$;

CREATE OR REPLACE FUNCTION cmd_revert(p_session text, p_args jsonb, p_actor text, p_command_id text) RETURNS jsonb
LANGUAGE sql AS $$ SELECT raise_event(p_session, 'revert', p_actor, p_command_id) $$;

-- p_args: { project_id }
CREATE OR REPLACE FUNCTION cmd_open_existing(p_session text, p_args jsonb, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_project text := p_args ->> 'project_id';
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_refusal jsonb;
  v_from text;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  v_refusal := lock_project(p_session, v_project, 'open_existing');
  IF v_refusal IS NOT NULL THEN
    RETURN record_refusal(p_session, 'open_existing', p_actor, p_command_id, v_refusal);
  END IF;
  SELECT phase INTO v_from FROM sessions WHERE session_id = p_session;
  RETURN record_outcome(p_session, 'transition', p_actor, p_command_id,
    jsonb_build_object('event', 'open_existing', 'from', v_from, 'to', write_phase(p_session, 'open_existing'),
                       'project_id', v_project), '{"ok": true}');
END $$;

-- The phase's own cancel where it knows one, and an abort of the run in flight; InvalidTransition with neither. The cancel
-- token is the id that the sender gave the command, written on every accepted cancel.
CREATE OR REPLACE FUNCTION cmd_cancel(p_session text, p_args jsonb, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_from text;
  v_to text;
  v_run integer;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  SELECT phase INTO v_from FROM sessions WHERE session_id = p_session;
  v_to := write_phase(p_session, 'cancel');
  v_run := request_abort(p_session);
  IF v_to IS NULL AND v_run IS NULL THEN
    RETURN record_refusal(p_session, 'cancel', p_actor, p_command_id, invalid_transition(p_session, 'cancel'));
  END IF;
  PERFORM write_cancel_token(p_session, substr(p_command_id, strpos(p_command_id, ':') + 1));
  RETURN record_outcome(p_session, CASE WHEN v_to IS NULL THEN 'abort' ELSE 'transition' END, p_actor, p_command_id,
    jsonb_strip_nulls(jsonb_build_object('event', 'cancel', 'from', v_from, 'to', v_to, 'run_seq', v_run)),
    jsonb_build_object('ok', true, 'cancelled', v_to IS NOT NULL, 'aborted', v_run IS NOT NULL, 'run_seq', v_run));
END $$;

CREATE OR REPLACE FUNCTION cmd_abort(p_session text, p_args jsonb, p_actor text, p_command_id text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_run integer;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  v_run := request_abort(p_session);
  RETURN record_outcome(p_session, 'abort', p_actor, p_command_id,
    jsonb_strip_nulls(jsonb_build_object('run_seq', v_run)),
    jsonb_build_object('ok', true, 'aborted', v_run IS NOT NULL, 'run_seq', v_run));
END $$;

-- p_args: { message_id }
CREATE OR REPLACE FUNCTION cmd_cancel_queued(p_session text, p_args jsonb, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_message text := p_args ->> 'message_id';
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_run chat_runs;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  SELECT * INTO v_run FROM chat_runs
   WHERE session_id = p_session AND message_id = v_message ORDER BY seq DESC LIMIT 1 FOR UPDATE;
  IF v_run.seq IS NULL THEN
    RETURN record_refusal(p_session, 'cancel_queued', p_actor, p_command_id, '{"code": "MessageNotFound"}');
  ELSIF v_run.state NOT IN ('queued', 'cancelled') THEN
    RETURN record_refusal(p_session, 'cancel_queued', p_actor, p_command_id,
                          jsonb_build_object('code', 'NotQueued', 'state', v_run.state));
  END IF;
  PERFORM cancel_queued_run(p_session, v_run.seq);
  RETURN record_outcome(p_session, 'cancel_queued', p_actor, p_command_id,
    jsonb_build_object('message_id', v_message), jsonb_build_object('ok', true, 'run_seq', v_run.seq));
END $$;

-- p_args: { abort }. With a run in flight or messages queued it is RunInFlight, unless `abort` is true: then the run is
-- asked to stop, and the queued messages are dropped and named.
CREATE OR REPLACE FUNCTION cmd_close(p_session text, p_args jsonb, p_actor text, p_command_id text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_run integer;
  v_dropped jsonb;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  IF p_args ->> 'abort' IS DISTINCT FROM 'true' AND EXISTS (
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

-- Stores the text of a command's reason; the command carries this event's number, so that Temporal never sees the text.
-- With a command id of its own ("<command id>/reason") it is stored once.
CREATE OR REPLACE FUNCTION log_reason(p_session text, p_actor text, p_reason text, p_command_id text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_seq bigint;
BEGIN
  -- Erased meanwhile: the command itself answers that.
  IF (lock_session(p_session)).session_id IS NULL THEN RETURN 0; END IF;
  SELECT seq INTO v_seq FROM session_events WHERE session_id = p_session AND command_id = p_command_id;
  RETURN coalesce(
    v_seq, append_event(p_session, 'reason', p_actor, jsonb_build_object('text', p_reason), p_command_id));
END $$;

-- p_args: { name, code }. Records a signal that the workflow refused: it is malformed, or not supported yet.
CREATE OR REPLACE FUNCTION cmd_refuse(p_session text, p_args jsonb, p_actor text, p_command_id text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  RETURN record_refusal(p_session, p_args ->> 'name', p_actor, p_command_id,
                        jsonb_build_object('code', p_args ->> 'code'));
END $$;
