-- Commands of users and operators, listed in domain/command-table.ts. apply_command() carries one out in one transaction
-- and one round trip. The command's own function
--
--   cmd_<name>(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
--
-- only checks and writes, under the session lock. It returns a refusal, { "code": <error code>, ... }, or what to record:
-- { "kind": <kind of the event>, "data": <the event's data>, "outcome": <the members of the outcome> }.

-- Carries out a command once per command id; a repeat gets the recorded outcome. p_digest is of the arguments that the caller gave,
-- without content: a repeat with another one is KeyReused; null is not compared. Returns { "ok", ... } with the session's
-- phase, project and newest event number after the command. "closed" is added if the session is closed and the command did
-- not close it, or is open although it did: a workflow ends when its session is closed. "above" is added if the command was
-- about a child: the sessions above it, whose status may have changed with its own.
CREATE OR REPLACE FUNCTION apply_command(
  p_session text, p_command text, p_args jsonb, p_actor text, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
  v_outcome jsonb;
  v_result jsonb;
BEGIN
  IF p_command = 'answer' THEN PERFORM lock_asking(p_session, p_args ->> 'tool_call_id'); END IF;
  v_outcome := begin_command(p_session, p_command_id, p_digest);
  IF v_outcome IS NOT NULL THEN RETURN v_outcome; END IF;
  EXECUTE format('SELECT %I($1, $2, $3)', 'cmd_' || p_command) INTO v_result USING p_session, p_args, p_command_id;
  RETURN record_command(p_session, p_command, v_result, p_actor, p_command_id, p_digest) || (
    SELECT CASE WHEN count(*) = 0 THEN '{}' ELSE jsonb_build_object('above', jsonb_agg(session_id)) END
      FROM sessions_above(coalesce(v_result #>> '{outcome,child,session_id}', p_session)));
END $$;

-- Locks the session and returns the recorded outcome of a command id, or KeyReused; null: the command is new. A repeat does not
-- reopen a session, or else a close that is sent twice would undo itself.
CREATE OR REPLACE FUNCTION begin_command(p_session text, p_command_id text, p_digest bytea DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_closed boolean := v_chat.closed_at IS NOT NULL;
  v_closes boolean;
  v_outcome jsonb;
BEGIN
  IF v_chat.session_id IS NULL THEN
    RETURN '{"ok": false, "code": "SessionNotFound"}';
  END IF;
  SELECT recorded_outcome(data, args_digest, p_digest), kind = 'closed' INTO v_outcome, v_closes
    FROM session_events WHERE session_id = p_session AND command_id = p_command_id;
  IF v_outcome ->> 'code' = 'KeyReused' THEN v_closes := false; END IF;
  RETURN v_outcome || CASE WHEN v_closes <> v_closed THEN jsonb_build_object('closed', v_closed) ELSE '{}' END;
END $$;

-- Records what a command's function returned, and returns the outcome. The event refers to the event that holds the text
-- of the reason, if one was logged before under "<command id>/reason".
CREATE OR REPLACE FUNCTION record_command(
  p_session text, p_command text, p_result jsonb, p_actor text, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_ok boolean := NOT p_result ? 'code';
  v_mark jsonb := session_mark(p_session);
  v_outcome jsonb := outcome_of(p_result) || v_mark
    || jsonb_build_object('event_seq', (v_mark ->> 'event_seq')::bigint + 1);
  v_reason bigint;
BEGIN
  SELECT seq INTO v_reason FROM session_events
   WHERE session_id = p_session AND command_id = p_command_id || '/reason';
  PERFORM append_event(p_session, coalesce(p_result ->> 'kind', 'refused'), p_actor,
    coalesce(p_result -> 'data', jsonb_build_object('command', p_command))
      || jsonb_strip_nulls(jsonb_build_object('reason_seq', v_reason)) || jsonb_build_object('outcome', v_outcome),
    p_command_id, p_digest);
  -- A command that is carried out reopens a closed session; a refused one does not.
  IF v_ok AND p_result ->> 'kind' <> 'closed' THEN
    UPDATE chat_sessions SET closed_at = NULL, updated_at = clock_timestamp()
     WHERE session_id = p_session AND closed_at IS NOT NULL;
  ELSIF NOT v_ok AND EXISTS (SELECT FROM chat_sessions WHERE session_id = p_session AND closed_at IS NOT NULL) THEN
    RETURN v_outcome || '{"closed": true}';
  END IF;
  RETURN v_outcome;
END $$;

CREATE OR REPLACE FUNCTION invalid_transition(p_session text, p_event text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('code', 'InvalidTransition', 'phase', phase, 'event', p_event)
    FROM sessions WHERE session_id = p_session
$$;

-- Changes the phase and leaves runs alone. `p_data` is added to the event's data.
CREATE OR REPLACE FUNCTION raise_event(p_session text, p_event text, p_data jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_from text := (SELECT phase FROM sessions WHERE session_id = p_session);
  v_to text := write_phase(p_session, p_event);
BEGIN
  IF v_to IS NULL THEN RETURN invalid_transition(p_session, p_event); END IF;
  RETURN jsonb_build_object('kind', 'transition', 'outcome', '{}'::jsonb,
    'data', jsonb_build_object('event', p_event, 'from', v_from, 'to', v_to) || p_data);
END $$;

CREATE OR REPLACE FUNCTION cmd_publish(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE sql AS $$ SELECT raise_event(p_session, 'publish') $$;

CREATE OR REPLACE FUNCTION cmd_revert(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE sql AS $$ SELECT raise_event(p_session, 'revert') $$;

-- p_args: { project_id }
CREATE OR REPLACE FUNCTION cmd_open_existing(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE sql AS $$
  SELECT coalesce(lock_project(p_session, p_args ->> 'project_id', 'open_existing'),
                  raise_event(p_session, 'open_existing', jsonb_build_object('project_id', p_args ->> 'project_id')))
$$;

-- p_args: { message_id?, meant? }, as of stop_run(). Raises the event `cancel` if the phase has one, and aborts the run in flight;
-- InvalidTransition if there is neither. If the session has gone on since, to another run or phase, the phase stays. The cancel
-- token is the sender's own id of the command, written on every accepted cancel.
CREATE OR REPLACE FUNCTION cmd_cancel(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_from text := (SELECT phase FROM sessions WHERE session_id = p_session);
  v_to text;
  v_stopped record := stop_run(p_session, p_args);
BEGIN
  IF v_stopped.refusal IS NOT NULL THEN RETURN v_stopped.refusal; END IF;
  IF v_stopped.is_current THEN v_to := write_phase(p_session, 'cancel'); END IF;
  -- A run that is over was meant, or a phase that has been left: nothing is to be done.
  IF v_to IS NULL AND v_stopped.run_seq IS NULL AND v_stopped.children = '[]'
     AND NOT p_args ? 'message_id' AND p_args #>> '{meant,in_flight}' IS DISTINCT FROM 'true'
     AND (v_stopped.is_current OR NOT EXISTS (SELECT FROM phase_transitions WHERE phase = v_from AND event = 'cancel')) THEN
    RETURN invalid_transition(p_session, 'cancel');
  END IF;
  PERFORM write_cancel_token(p_session, substr(p_command_id, strpos(p_command_id, ':') + 1));
  RETURN jsonb_build_object('kind', CASE WHEN v_to IS NULL THEN 'abort' ELSE 'transition' END,
    'data', jsonb_strip_nulls(jsonb_build_object('event', 'cancel', 'from', v_from, 'to', v_to))
      || stop_data(p_args, v_stopped.run_seq),
    'outcome', jsonb_build_object('cancelled', v_to IS NOT NULL, 'aborted', v_stopped.run_seq IS NOT NULL,
                                  'run_seq', v_stopped.run_seq, 'children', v_stopped.children));
END $$;

-- p_args: { message_id?, meant? }, as of stop_run()
CREATE OR REPLACE FUNCTION cmd_abort(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_stopped record := stop_run(p_session, p_args);
BEGIN
  IF v_stopped.refusal IS NOT NULL THEN RETURN v_stopped.refusal; END IF;
  RETURN jsonb_build_object('kind', 'abort', 'data', stop_data(p_args, v_stopped.run_seq),
    'outcome', jsonb_build_object('aborted', v_stopped.run_seq IS NOT NULL, 'run_seq', v_stopped.run_seq,
                                  'children', v_stopped.children));
END $$;

-- p_args: { message_id }
CREATE OR REPLACE FUNCTION cmd_cancel_queued(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_message text := coalesce((newest_version(p_session, p_args ->> 'message_id')).id, p_args ->> 'message_id');
  v_run chat_runs;
BEGIN
  SELECT * INTO v_run FROM chat_runs
   WHERE session_id = p_session AND message_id = v_message ORDER BY seq DESC LIMIT 1 FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"code": "MessageNotFound"}'; END IF;
  IF v_run.state NOT IN ('queued', 'cancelled') THEN
    RETURN jsonb_build_object('code', 'NotQueued', 'state', v_run.state);
  END IF;
  PERFORM cancel_queued_run(p_session, v_run.seq);
  RETURN jsonb_build_object('kind', 'cancel_queued', 'data', jsonb_build_object('message_id', v_message),
    'outcome', jsonb_build_object('run_seq', v_run.seq));
END $$;

-- p_args: { abort }. RunInFlight if there are open runs or children, unless `abort` is true: then the run in flight is asked to stop,
-- and what is queued is cancelled, and its messages are listed.
CREATE OR REPLACE FUNCTION cmd_close(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run integer;
  v_dequeued jsonb;
  v_dropped jsonb;
  v_children jsonb;
BEGIN
  IF p_args ->> 'abort' IS DISTINCT FROM 'true' AND (has_open_run(p_session) OR has_open_tasks(p_session)) THEN
    RETURN '{"code": "RunInFlight"}';
  END IF;
  v_dequeued := queued_runs(p_session);
  v_dropped := drop_queue(p_session);
  v_run := request_abort(p_session);
  v_children := abort_children(p_session);
  UPDATE chat_sessions SET closed_at = clock_timestamp(), updated_at = clock_timestamp() WHERE session_id = p_session;
  PERFORM end_work_of(ARRAY[p_session], 'The chat session was closed');
  RETURN jsonb_build_object('kind', 'closed', 'data', '{}'::jsonb,
    'outcome', jsonb_build_object('aborted', v_run IS NOT NULL, 'run_seq', v_run, 'dropped', v_dropped,
                                  'dequeued', v_dequeued, 'children', v_children));
END $$;

-- p_args: { archived }
CREATE OR REPLACE FUNCTION cmd_archive(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_archived boolean := (p_args ->> 'archived')::boolean;
BEGIN
  UPDATE chat_sessions
     SET archived_at = CASE WHEN v_archived THEN coalesce(archived_at, clock_timestamp()) END, updated_at = clock_timestamp()
   WHERE session_id = p_session;
  RETURN jsonb_build_object('kind', 'archive', 'data', jsonb_build_object('archived', v_archived),
    'outcome', jsonb_build_object('archived', v_archived));
END $$;

-- Gives a session a title; null: the beginning of its first message is its title again. False: the user has no such session.
CREATE OR REPLACE FUNCTION rename_session(p_session text, p_user text, p_title text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_sessions c
     SET metadata = CASE WHEN p_title IS NULL THEN metadata - 'title'
                         ELSE metadata || jsonb_build_object('title', p_title) END, updated_at = clock_timestamp()
   WHERE session_id = p_session AND EXISTS (SELECT FROM sessions WHERE session_id = p_session AND user_id = p_user);
  RETURN FOUND;
END $$;

-- Joins a session to an initiative of its user, unless it has joined one.
CREATE OR REPLACE FUNCTION join_initiative(p_session text, p_user text, p_initiative text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_sessions
     SET metadata = metadata || jsonb_build_object('initiative_id', p_initiative), updated_at = clock_timestamp()
   WHERE session_id = p_session AND coalesce(metadata ->> 'initiative_id', '') = ''
     AND EXISTS (SELECT FROM sessions WHERE session_id = p_session AND user_id = p_user)
     AND EXISTS (SELECT FROM initiatives WHERE initiative_id = p_initiative AND user_id = p_user);
END $$;

-- p_args: { name, code }. Records a signal that the workflow refused because it is malformed or not supported yet.
CREATE OR REPLACE FUNCTION cmd_refuse(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_build_object('code', p_args ->> 'code', 'data', jsonb_build_object('command', p_args ->> 'name'))
$$;

-- Stores content that a command brings, so that Temporal never sees it, once per `p_command_id` ("<command id>/<argument>"), and
-- returns the number of its event. p_data null: the command brings none; then 0. Null: the command was sent before under its id,
-- with other content, or with or without. It is compared here, and not by the digest of the other arguments, which reaches Temporal.
CREATE OR REPLACE FUNCTION log_content(p_session text, p_kind text, p_actor text, p_data jsonb, p_command_id text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_known session_events;
  v_receipt session_events;
BEGIN
  -- An erased session: the command itself reports that.
  IF (lock_session(p_session)).session_id IS NULL THEN RETURN 0; END IF;
  SELECT * INTO v_known FROM session_events WHERE session_id = p_session AND command_id = p_command_id;
  SELECT * INTO v_receipt FROM session_events
   WHERE session_id = p_session AND command_id = split_part(p_command_id, '/', 1);
  IF v_known.seq IS NOT NULL THEN
    RETURN CASE WHEN v_known.data = p_data THEN v_known.seq END;
  ELSIF p_data IS NULL THEN
    RETURN 0;
  ELSIF v_receipt.seq IS NOT NULL THEN
    RETURN NULL;
  END IF;
  RETURN append_event(p_session, p_kind, p_actor, p_data, p_command_id);
END $$;

-- Stores the text of a command's reason, as log_content does. The command carries the event's number instead of the text.
CREATE OR REPLACE FUNCTION log_reason(p_session text, p_actor text, p_reason text, p_command_id text) RETURNS bigint
LANGUAGE sql AS $$
  SELECT log_content(
    p_session, 'reason', p_actor, CASE WHEN p_reason IS NOT NULL THEN jsonb_build_object('text', p_reason) END, p_command_id)
$$;
