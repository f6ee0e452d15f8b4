-- What users and operators ask of a session. Every function here is one transaction and one round trip. Each takes the
-- session's lock first, then looks for the receipt of its command id, judges, writes, and keeps the outcome as an
-- event, so that the same command sent again gets the same answer.
--
-- An outcome is a jsonb object: { "ok": true, ... } or { "ok": false, "code": <error code>, ... }, and carries the
-- session's phase, project and newest event number as they are after the command.

-- The lock of a session: under it positions, run numbers and event numbers are taken. Null: no such session.
CREATE FUNCTION lock_session(p_session text) RETURNS chat_sessions LANGUAGE sql AS $$
  SELECT * FROM chat_sessions WHERE session_id = p_session FOR NO KEY UPDATE
$$;

CREATE FUNCTION append_event(p_session text, p_kind text, p_actor text, p_data jsonb, p_command_id text)
RETURNS bigint LANGUAGE sql AS $$
  INSERT INTO session_events (session_id, seq, kind, actor, data, command_id)
  SELECT p_session, coalesce(max(seq), 0) + 1, p_kind, p_actor, p_data, p_command_id
    FROM session_events WHERE session_id = p_session
  RETURNING seq
$$;

-- The recorded outcome of a command id, or null.
CREATE FUNCTION receipt(p_session text, p_command_id text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT data -> 'outcome' FROM session_events WHERE session_id = p_session AND command_id = p_command_id
$$;

-- Records a command's outcome and completes it with what the session is now.
CREATE FUNCTION record_outcome(p_session text, p_kind text, p_actor text, p_command_id text, p_data jsonb, p_outcome jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_outcome jsonb;
BEGIN
  SELECT p_outcome || jsonb_build_object(
           'phase', s.phase,
           'project_id', s.project_id,
           'event_seq', (SELECT coalesce(max(seq), 0) + 1 FROM session_events WHERE session_id = p_session))
    INTO v_outcome FROM sessions s WHERE s.session_id = p_session;
  PERFORM append_event(p_session, p_kind, p_actor, p_data || jsonb_build_object('outcome', v_outcome), p_command_id);
  RETURN v_outcome;
END $$;

CREATE FUNCTION record_refusal(p_session text, p_command text, p_actor text, p_command_id text, p_refusal jsonb)
RETURNS jsonb LANGUAGE sql AS $$
  SELECT record_outcome(p_session, 'refused', p_actor, p_command_id, jsonb_build_object('command', p_command),
                        p_refusal || '{"ok": false}')
$$;

CREATE FUNCTION invalid_transition(p_session text, p_event text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('code', 'InvalidTransition', 'phase', phase, 'event', p_event)
    FROM sessions WHERE session_id = p_session
$$;

-- Locks the session and answers with the receipt where there is one. Null: go on, with a session that is open again
-- where it was closed. A receipt reopens nothing, or a close that is sent twice would undo itself.
CREATE FUNCTION begin_command(p_session text, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_receipt jsonb;
BEGIN
  IF v_chat.session_id IS NULL THEN
    RETURN '{"ok": false, "code": "SessionNotFound"}';
  END IF;
  v_receipt := receipt(p_session, p_command_id);
  IF v_receipt IS NULL AND v_chat.closed_at IS NOT NULL THEN
    UPDATE chat_sessions SET closed_at = NULL, updated_at = clock_timestamp() WHERE session_id = p_session;
  END IF;
  RETURN v_receipt;
END $$;

-- The run that stop buttons mean: the one at work, else the first that is about to be.
CREATE FUNCTION head_run(p_session text) RETURNS integer LANGUAGE sql STABLE AS $$
  SELECT r.seq
    FROM chat_runs r JOIN chat_sessions c USING (session_id)
   WHERE r.session_id = p_session
     AND r.state IN ('queued', 'running', 'waiting')
     AND (r.state <> 'queued' OR c.paused_at IS NULL)
   ORDER BY r.state = 'queued', r.seq
   LIMIT 1
$$;

-- Asks the run at the head to stop. Null where none is in flight.
CREATE FUNCTION request_abort(p_session text) RETURNS integer LANGUAGE sql AS $$
  UPDATE chat_runs
     SET abort_requested_at = coalesce(abort_requested_at, clock_timestamp()), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = head_run(p_session)
  RETURNING seq
$$;

-- A project belongs to whom opened it first. False: it is somebody else's.
CREATE FUNCTION own_project(p_project text, p_user text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO projects (project_id, user_id) VALUES (p_project, p_user) ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM projects WHERE project_id = p_project AND user_id = p_user);
END $$;

-- Judges and locks a project: InvalidTransition first, then ProjectAlreadyLocked, then ownership. Null: it is locked.
CREATE FUNCTION lock_project(p_session text, p_project text, p_event text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_state sessions;
BEGIN
  SELECT * INTO v_state FROM sessions WHERE session_id = p_session;
  IF NOT EXISTS (SELECT FROM phase_transitions WHERE phase = v_state.phase AND event = p_event) THEN
    RETURN invalid_transition(p_session, p_event);
  ELSIF v_state.project_id IS NOT NULL AND v_state.project_id <> p_project THEN
    RETURN jsonb_build_object('code', 'ProjectAlreadyLocked', 'locked_project_id', v_state.project_id);
  ELSIF NOT own_project(p_project, v_state.user_id) THEN
    RETURN '{"code": "ProjectNotFound"}';
  ELSIF NOT write_project_id(p_session, p_project) THEN
    RETURN '{"code": "ProjectAlreadyLocked"}';
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION open_session(
  p_session text, p_user text, p_agent text, p_workspace_root text, p_model text, p_metadata jsonb, p_project text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_refusal jsonb;
BEGIN
  INSERT INTO sessions (session_id, user_id, phase) VALUES (p_session, p_user, 'chatting');
  INSERT INTO chat_sessions (session_id, agent, workspace_root, model, metadata)
  VALUES (p_session, p_agent, p_workspace_root, p_model, p_metadata);
  PERFORM append_event(p_session, 'opened', 'user', jsonb_build_object('agent', p_agent), NULL);
  IF p_project IS NOT NULL THEN
    v_refusal := lock_project(p_session, p_project, 'open_existing');
    IF v_refusal IS NOT NULL THEN
      RAISE EXCEPTION 'refused' USING ERRCODE = 'PD002', DETAIL = v_refusal ->> 'code';
    END IF;
    PERFORM write_phase(p_session, 'open_existing');
    PERFORM append_event(p_session, 'transition', 'user', jsonb_build_object(
      'event', 'open_existing', 'from', 'chatting', 'to', 'chatting', 'project_id', p_project), NULL);
  END IF;
  RETURN '{"ok": true}';
END $$;

-- The session behind an alias of this user, opened now where there is none. Two first uses at once make one session.
CREATE FUNCTION open_alias(
  p_alias text, p_session text, p_user text, p_agent text, p_workspace_root text, p_model text, p_metadata jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_session text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(p_user || '/' || p_alias, 0));
  SELECT session_id INTO v_session FROM session_aliases WHERE user_id = p_user AND alias = p_alias;
  IF v_session IS NULL THEN
    PERFORM open_session(p_session, p_user, p_agent, p_workspace_root, p_model, p_metadata, NULL);
    INSERT INTO session_aliases (user_id, alias, session_id) VALUES (p_user, p_alias, p_session);
    v_session := p_session;
  END IF;
  RETURN v_session;
END $$;

-- Accepts a user message: everything that can refuse it is judged here and nowhere later. `p_parts` is an array of
-- { id, type, data }. Outcomes: { accepted, run_seq, state, position, model, agent, phase, project_id } with accepted
-- false for a repeat and `state` that of its run, or a refusal SessionNotFound, MessageConflict, TooMany. `position`
-- counts the open runs ahead of it.
CREATE FUNCTION accept_message(
  p_session text, p_user text, p_message text, p_answer text, p_parts jsonb, p_metadata jsonb, p_model text,
  p_max_queue integer
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_session sessions;
  v_run chat_runs;
  v_facts jsonb;
  v_seq integer;
  v_ahead integer;
  v_taken boolean;
BEGIN
  SELECT * INTO v_session FROM sessions WHERE session_id = p_session AND user_id = p_user;
  IF NOT FOUND THEN
    RETURN '{"ok": false, "code": "SessionNotFound"}';
  END IF;
  v_facts := jsonb_build_object('ok', true, 'agent', v_chat.agent, 'phase', v_session.phase,
                                'project_id', v_session.project_id);
  IF EXISTS (SELECT FROM chat_messages WHERE session_id = p_session AND id = p_message) THEN
    SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND message_id = p_message ORDER BY seq DESC LIMIT 1;
    IF v_run.seq IS NULL OR
       (SELECT coalesce(jsonb_agg(data ORDER BY index), '[]') FROM chat_parts
         WHERE session_id = p_session AND message_id = p_message)
       <> (SELECT coalesce(jsonb_agg(part -> 'data' ORDER BY n), '[]')
             FROM jsonb_array_elements(p_parts) WITH ORDINALITY AS given(part, n)) THEN
      RETURN '{"ok": false, "code": "MessageConflict"}';
    END IF;
    RETURN v_facts || jsonb_build_object('accepted', false, 'run_seq', v_run.seq, 'state', v_run.state,
                                         'model', v_run.model, 'position', (
      SELECT count(*) FROM chat_runs WHERE session_id = p_session AND seq < v_run.seq
         AND v_run.state = 'queued' AND state IN ('queued', 'running', 'waiting')));
  END IF;
  -- The id that an answer is about to have is taken as well.
  SELECT count(*), bool_or(answer_id = p_message) INTO v_ahead, v_taken
    FROM chat_runs WHERE session_id = p_session AND state IN ('queued', 'running', 'waiting');
  IF v_taken THEN
    RETURN '{"ok": false, "code": "MessageConflict"}';
  ELSIF v_ahead >= p_max_queue THEN
    RETURN '{"ok": false, "code": "TooMany"}';
  END IF;
  SELECT coalesce(max(seq), 0) + 1 INTO v_seq FROM chat_runs WHERE session_id = p_session;
  INSERT INTO chat_messages (id, session_id, position, role, metadata)
  SELECT p_message, p_session, (coalesce(max(position), 0) / 1000 + 1) * 1000, 'user', p_metadata
    FROM chat_messages WHERE session_id = p_session;
  INSERT INTO chat_parts (id, message_id, session_id, index, type, data)
  SELECT part ->> 'id', p_message, p_session, n - 1, part ->> 'type', part -> 'data'
    FROM jsonb_array_elements(p_parts) WITH ORDINALITY AS given(part, n);
  INSERT INTO chat_runs (session_id, seq, message_id, answer_id, model)
  VALUES (p_session, v_seq, p_message, p_answer, coalesce(p_model, v_chat.model));
  IF v_chat.paused_at IS NOT NULL OR v_chat.closed_at IS NOT NULL
     OR coalesce(p_model, v_chat.model) IS DISTINCT FROM v_chat.model THEN
    UPDATE chat_sessions
       SET paused_at = NULL, closed_at = NULL, model = coalesce(p_model, model), updated_at = clock_timestamp()
     WHERE session_id = p_session;
  END IF;
  RETURN v_facts || jsonb_build_object('accepted', true, 'run_seq', v_seq, 'state', 'queued', 'position', v_ahead,
                                       'model', coalesce(p_model, v_chat.model));
END $$;

-- publish and revert: they move the phase and leave a run alone.
CREATE FUNCTION raise_event(p_session text, p_event text, p_actor text, p_command_id text)
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

CREATE FUNCTION open_existing(p_session text, p_project text, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_refusal jsonb;
  v_from text;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  v_refusal := lock_project(p_session, p_project, 'open_existing');
  IF v_refusal IS NOT NULL THEN
    RETURN record_refusal(p_session, 'open_existing', p_actor, p_command_id, v_refusal);
  END IF;
  SELECT phase INTO v_from FROM sessions WHERE session_id = p_session;
  RETURN record_outcome(p_session, 'transition', p_actor, p_command_id,
    jsonb_build_object('event', 'open_existing', 'from', v_from, 'to', write_phase(p_session, 'open_existing'),
                       'project_id', p_project), '{"ok": true}');
END $$;

-- Cancel: the phase's own event where it knows one, and an abort of the run in flight; InvalidTransition with neither.
CREATE FUNCTION cancel_session(p_session text, p_actor text, p_command_id text, p_token text)
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
  IF v_to IS NOT NULL THEN
    PERFORM write_cancel_token(p_session, p_token);
  END IF;
  RETURN record_outcome(p_session, CASE WHEN v_to IS NULL THEN 'abort' ELSE 'transition' END, p_actor, p_command_id,
    jsonb_strip_nulls(jsonb_build_object('event', 'cancel', 'from', v_from, 'to', v_to, 'run_seq', v_run)),
    jsonb_build_object('ok', true, 'cancelled', v_to IS NOT NULL, 'aborted', v_run IS NOT NULL, 'run_seq', v_run));
END $$;

CREATE FUNCTION abort_run(p_session text, p_actor text, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- Hides a queued run's message and ends the run.
CREATE FUNCTION cancel_queued_run(p_session text, p_run integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_message text;
BEGIN
  UPDATE chat_runs
     SET state = 'cancelled', finished_at = clock_timestamp(), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND state = 'queued'
  RETURNING message_id INTO v_message;
  UPDATE chat_messages
     SET hidden_at = clock_timestamp(), updated_at = clock_timestamp(),
         metadata = metadata || jsonb_build_object('hidden_by', jsonb_build_object('cause', 'cancelled', 'id', v_message))
   WHERE session_id = p_session AND id = v_message AND hidden_at IS NULL;
  RETURN v_message;
END $$;

CREATE FUNCTION cancel_queued(p_session text, p_message text, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_run chat_runs;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  SELECT * INTO v_run FROM chat_runs
   WHERE session_id = p_session AND message_id = p_message ORDER BY seq DESC LIMIT 1 FOR UPDATE;
  IF v_run.seq IS NULL THEN
    RETURN record_refusal(p_session, 'cancel_queued', p_actor, p_command_id, '{"code": "MessageNotFound"}');
  ELSIF v_run.state NOT IN ('queued', 'cancelled') THEN
    RETURN record_refusal(p_session, 'cancel_queued', p_actor, p_command_id,
                          jsonb_build_object('code', 'NotQueued', 'state', v_run.state));
  END IF;
  PERFORM cancel_queued_run(p_session, v_run.seq);
  RETURN record_outcome(p_session, 'cancel_queued', p_actor, p_command_id,
    jsonb_build_object('message_id', p_message), jsonb_build_object('ok', true, 'run_seq', v_run.seq));
END $$;

-- Closes a session. With a run in flight or messages queued it is RunInFlight, unless `p_abort`: then the run is asked
-- to stop and the queued messages are dropped and named.
CREATE FUNCTION close_session(p_session text, p_abort boolean, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
  v_run integer;
  v_dropped jsonb;
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
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

-- Keeps the words of a command's reason out of Temporal: the command carries this event's number instead. With an id of
-- its own it is kept once.
CREATE FUNCTION log_reason(p_session text, p_actor text, p_reason text, p_command_id text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_seq bigint;
BEGIN
  PERFORM lock_session(p_session);
  SELECT seq INTO v_seq FROM session_events WHERE session_id = p_session AND command_id = p_command_id;
  RETURN coalesce(
    v_seq, append_event(p_session, 'reason', p_actor, jsonb_build_object('text', p_reason), p_command_id));
END $$;

-- A command that the workflow refused before it reached a row (a signal for work that is not there yet).
CREATE FUNCTION refuse_command(p_session text, p_command text, p_code text, p_actor text, p_command_id text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_receipt jsonb := begin_command(p_session, p_command_id);
BEGIN
  IF v_receipt IS NOT NULL THEN RETURN v_receipt; END IF;
  RETURN record_refusal(p_session, p_command, p_actor, p_command_id, jsonb_build_object('code', p_code));
END $$;
