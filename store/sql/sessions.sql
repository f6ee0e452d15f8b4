-- The session row: one writer function per column of `sessions`, the session lock, the event log, opening and loading.
-- The caller of a writer holds the session lock (lock_session).

-- A time in UTC, to the millisecond, as ISO 8601.
CREATE OR REPLACE FUNCTION iso_millisecond(p_at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- phase: called by every command and tool that raises an event. Returns the new phase; null: an illegal transition.
CREATE OR REPLACE FUNCTION write_phase(p_session text, p_event text) RETURNS text
LANGUAGE sql SET perdure.writer = 'phase' AS $$
  UPDATE sessions s
     SET phase = t.next, updated_at = clock_timestamp()
    FROM phase_transitions t
   WHERE s.session_id = p_session AND t.phase = s.phase AND t.event = p_event
  RETURNING s.phase
$$;

-- project_id: called by open_session and lock_project. False: the session has another project.
CREATE OR REPLACE FUNCTION write_project_id(p_session text, p_project text) RETURNS boolean
LANGUAGE plpgsql SET perdure.writer = 'project_id' AS $$
BEGIN
  UPDATE sessions
     SET project_id = p_project, updated_at = clock_timestamp()
   WHERE session_id = p_session AND project_id IS NULL;
  RETURN FOUND OR EXISTS (SELECT FROM sessions WHERE session_id = p_session AND project_id = p_project);
END $$;

-- pending_tool: set by begin_tool, cleared by finish_tool and close_run.
CREATE OR REPLACE FUNCTION write_pending_tool(p_session text, p_pending jsonb) RETURNS void
LANGUAGE sql SET perdure.writer = 'pending_tool' AS $$
  UPDATE sessions
     SET pending_tool = p_pending, updated_at = clock_timestamp()
   WHERE session_id = p_session AND pending_tool IS DISTINCT FROM p_pending
$$;

-- cancel_token: called by cmd_cancel on every accepted cancel.
CREATE OR REPLACE FUNCTION write_cancel_token(p_session text, p_token text) RETURNS void
LANGUAGE sql SET perdure.writer = 'cancel_token' AS $$
  UPDATE sessions SET cancel_token = p_token, updated_at = clock_timestamp() WHERE session_id = p_session
$$;

-- Takes the session lock, which positions, run numbers and event numbers are assigned under. Null: no such session. What local
-- activities of workflows call waits for it for 1 s at most: they are tried again, and meanwhile take no connection.
CREATE OR REPLACE FUNCTION lock_session(p_session text) RETURNS chat_sessions LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions;
BEGIN
  SELECT * INTO v_chat FROM chat_sessions WHERE session_id = p_session FOR NO KEY UPDATE;
  RETURN v_chat;
END $$;

-- The session's current state, for workflows. Of two marks the one with the greater event_seq is newer.
CREATE OR REPLACE FUNCTION session_mark(p_session text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT jsonb_build_object('phase', phase, 'project_id', project_id, 'event_seq', (
             SELECT coalesce(max(seq), 0) FROM session_events WHERE session_id = p_session))
      FROM sessions WHERE session_id = p_session);
END $$;

CREATE OR REPLACE FUNCTION append_event(
  p_session text, p_kind text, p_actor text, p_data jsonb, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_seq bigint;
BEGIN
  INSERT INTO session_events (session_id, seq, kind, actor, data, command_id, args_digest)
  SELECT p_session, coalesce(max(seq), 0) + 1, p_kind, p_actor, p_data, p_command_id, p_digest
    FROM session_events WHERE session_id = p_session
  RETURNING seq INTO v_seq;
  RETURN v_seq;
END $$;

-- Opens a session, in a project of the user's or a new one if one is given. False: the project belongs to another user.
CREATE OR REPLACE FUNCTION open_session(
  p_session text, p_user text, p_agent text, p_workspace_root text, p_model text, p_metadata jsonb, p_project text,
  p_headless boolean DEFAULT false
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF p_project IS NOT NULL AND NOT own_project(p_project, p_user) THEN RETURN false; END IF;
  PERFORM keep_folder(p_workspace_root);
  INSERT INTO sessions (session_id, user_id, phase) VALUES (p_session, p_user, 'chatting');
  INSERT INTO chat_sessions (session_id, agent, workspace_root, model, metadata, headless)
  VALUES (p_session, p_agent, p_workspace_root, p_model, p_metadata, p_headless);
  PERFORM append_event(p_session, 'opened', 'user', jsonb_build_object('agent', p_agent), NULL);
  IF p_project IS NOT NULL THEN
    PERFORM write_project_id(p_session, p_project);
    PERFORM append_event(p_session, 'transition', 'user', jsonb_build_object(
      'event', 'open_existing', 'from', 'chatting', 'to', write_phase(p_session, 'open_existing'),
      'project_id', p_project), NULL);
  END IF;
  RETURN true;
END $$;

-- Returns the id of the session with an alias, and opens one if there is none. Concurrent first uses open one session.
CREATE OR REPLACE FUNCTION open_alias(
  p_alias text, p_session text, p_user text, p_agent text, p_workspace_root text, p_model text, p_metadata jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_session text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(p_user || '/' || p_alias, 0));
  SELECT session_id INTO v_session FROM session_aliases WHERE user_id = p_user AND app = 'perdure' AND alias = p_alias;
  IF v_session IS NULL THEN
    PERFORM open_session(p_session, p_user, p_agent, p_workspace_root, p_model, p_metadata, NULL);
    INSERT INTO session_aliases (user_id, alias, session_id) VALUES (p_user, p_alias, p_session);
    v_session := p_session;
  END IF;
  RETURN v_session;
END $$;

-- The calls of a run's newest settled step that have no outcome yet, in the model's order.
CREATE OR REPLACE FUNCTION open_calls(p_run chat_runs) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(call ORDER BY n), '[]')
    FROM jsonb_array_elements(p_run.last_step -> 'tool_calls') WITH ORDINALITY AS calls(call, n)
    JOIN chat_parts p ON p.session_id = p_run.session_id AND p.tool_call_id = call ->> 'tool_call_id'
   WHERE p.tool_state IN ('input-available', 'approval-requested', 'approval-responded')
$$;

-- Everything a workflow needs at its start, under a new epoch, which fences off everything that an earlier workflow has
-- scheduled. A head start was not scheduled: it continues, and the new workflow gets its outcome. `p_execution` is the workflow's
-- run id, `p_load` the number of the load in it, `p_replaces` the execution that it is known to have replaced. A load that repeats
-- the newest one, or is older because its worker was frozen, leaves the epoch as it is; so does the first load of an execution
-- that replaces another one than `newest`, and its caller asks Temporal which one is current: clocks cannot tell.
-- `p_asked_at` (epoch milliseconds, by Temporal's clock) is kept for whoever reads the row.
CREATE OR REPLACE FUNCTION load_session(p_session text, p_execution text, p_load integer, p_asked_at bigint,
                                        p_replaces text DEFAULT NULL)
RETURNS jsonb LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_epoch integer := v_chat.epoch;
  v_is_newest boolean := CASE WHEN v_chat.load_execution IS NULL THEN true
                              WHEN v_chat.load_execution = p_execution THEN p_load > v_chat.load_number
                              ELSE v_chat.load_execution = p_replaces END;
BEGIN
  IF v_is_newest THEN
    v_epoch := v_epoch + 1;
    UPDATE chat_sessions
       SET epoch = v_epoch, load_execution = p_execution, load_number = p_load, load_asked_at = p_asked_at
     WHERE session_id = p_session;
    UPDATE chat_runs run SET fence = ARRAY[v_epoch, 0, 0]
     WHERE session_id = p_session AND state IN ('queued', 'running', 'waiting') AND NOT has_head_start(run);
  END IF;
  RETURN (
    SELECT session_mark(p_session) || jsonb_build_object(
      'epoch', v_epoch, 'user_id', s.user_id, 'agent', c.agent,
      'paused', c.paused_at IS NOT NULL, 'is_child', c.depth > 0, 'newest', c.load_execution,
      'runs', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
          'run_seq', r.seq, 'message_id', r.message_id, 'state', r.state, 'step', r.step, 'model', r.model,
          'started_at', (extract(epoch FROM r.started_at) * 1000)::bigint,
          'abort', r.abort_requested_at IS NOT NULL,
          'open_calls', open_calls(r)) || CASE WHEN r.waiting ? 'until' THEN jsonb_build_object('wait_ms', waits_ms(r))
                                               ELSE '{}' END ORDER BY r.seq), '[]')
          FROM chat_runs r WHERE r.session_id = p_session AND r.state IN ('queued', 'running', 'waiting')))
      FROM sessions s JOIN chat_sessions c USING (session_id) WHERE s.session_id = p_session);
END $$;

-- Records in the row and the log that a session is stuck and why, or with null that it is not. False: nothing changed.
CREATE OR REPLACE FUNCTION note_stuck(p_session text, p_cause text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_session(p_session);
  UPDATE chat_sessions
     SET stuck_at = CASE WHEN p_cause IS NOT NULL THEN clock_timestamp() END, updated_at = clock_timestamp()
   WHERE session_id = p_session AND (stuck_at IS NOT NULL) <> (p_cause IS NOT NULL);
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM append_event(p_session, CASE WHEN p_cause IS NULL THEN 'unstuck' ELSE 'stuck' END, 'system',
                       jsonb_strip_nulls(jsonb_build_object('cause', p_cause)), NULL);
  RETURN true;
END $$;
