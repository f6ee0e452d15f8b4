-- Subagents. A task is a call of the tool `task` that has opened a session, its child. Locks are taken from the parent
-- down: the parent's session, the child's session, the row in tasks.

-- Whether children of a session work, or have results that are still to come.
CREATE OR REPLACE FUNCTION has_open_tasks(p_session text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM tasks WHERE parent_id = p_session AND delivered_at IS NULL);
END $$;

-- The sessions above a child: its parent has the distance 1.
CREATE OR REPLACE FUNCTION sessions_above(p_session text) RETURNS TABLE (session_id text, distance integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
  RETURN QUERY
    WITH RECURSIVE above AS (
      SELECT t.parent_id, 1 AS distance FROM tasks t WHERE t.child_id = p_session
      UNION ALL
      SELECT t.parent_id, above.distance + 1 FROM above JOIN tasks t ON t.child_id = above.parent_id
    )
    SELECT above.parent_id, above.distance FROM above;
END $$;

-- The session of a call: the given one, or one below it. The given one if there is no such call.
CREATE OR REPLACE FUNCTION session_of_call(p_session text, p_call text) RETURNS text
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  SELECT CASE WHEN call_exists OR NOT has_tasks THEN p_session ELSE coalesce((
           WITH RECURSIVE below AS (
             SELECT child_id FROM tasks WHERE parent_id = p_session
             UNION ALL
             SELECT t.child_id FROM below JOIN tasks t ON t.parent_id = below.child_id
           )
           SELECT p.session_id FROM below JOIN chat_parts p ON p.session_id = below.child_id AND p.tool_call_id = p_call
            LIMIT 1), p_session) END
    FROM (SELECT EXISTS (SELECT FROM chat_parts WHERE session_id = p_session AND tool_call_id = p_call) AS call_exists,
                 EXISTS (SELECT FROM tasks WHERE parent_id = p_session) AS has_tasks) AS known
$$;

-- The calls below a session that wait for an approval or for a page, those of the nearest sessions first; null: there are none.
-- Each is { session_id, agent, message_id, tool_call_id, tool, background, for: approval | output }, for an approval also with
-- { pattern, decisions }; message_id is that of the child's answer; `background`: it is below a task in the background.
CREATE OR REPLACE FUNCTION waits_below(p_session text) RETURNS jsonb
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  WITH RECURSIVE below AS (
    SELECT child_id, agent, 1 AS distance, background FROM tasks WHERE parent_id = p_session AND delivered_at IS NULL
    UNION ALL
    SELECT t.child_id, t.agent, below.distance + 1, below.background
      FROM below JOIN tasks t ON t.parent_id = below.child_id AND t.delivered_at IS NULL
  )
  SELECT jsonb_agg(jsonb_build_object(
           'session_id', child_id, 'agent', agent, 'message_id', p.message_id, 'tool_call_id', p.tool_call_id,
           'tool', coalesce(p.data ->> 'toolName', substr(p.data ->> 'type', 6)), 'background', background,
           'for', r.waiting -> 'for')
         || CASE r.waiting ->> 'for' WHEN 'approval' THEN jsonb_build_object(
              'pattern', p.data #> '{approval,descriptor,pattern}',
              'decisions', p.data #> '{approval,descriptor,decisions}') ELSE '{}' END ORDER BY distance, child_id)
    FROM below
    JOIN chat_runs r ON r.session_id = child_id AND r.state = 'waiting'
    JOIN chat_parts p ON p.session_id = child_id AND p.tool_call_id = r.waiting ->> 'tool_call_id'
$$;

-- { child: { session_id, agent } } of a call that has opened a child, also if it is over; otherwise {}.
CREATE OR REPLACE FUNCTION child_of_call(p_session text, p_call text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce((
    SELECT jsonb_build_object('child', jsonb_build_object('session_id', t.child_id, 'agent', t.agent))
      FROM tasks t JOIN chat_sessions c ON c.session_id = t.child_id
     WHERE t.parent_id = p_session AND t.tool_call_id = p_call), '{}')
$$;

-- Trigger: a run has ended. A child is over when it has no open run, no open task and no result that is to come; or when a
-- turn of it was aborted or has failed.
CREATE OR REPLACE FUNCTION note_task_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tasks
     SET ended_at = clock_timestamp(), due_at = clock_timestamp() + interval '2 seconds',
         delivered_at = CASE WHEN NOT background THEN clock_timestamp() END
   WHERE child_id = NEW.session_id AND ended_at IS NULL
     AND (NEW.state IN ('aborted', 'error') OR NOT has_open_tasks(NEW.session_id) AND NOT has_open_run(NEW.session_id));
  RETURN NULL;
END $$;

-- How a task that is over has ended. `text` is what the child said after its last tool call; `state` is the last turn's, or
-- erased.
CREATE OR REPLACE FUNCTION child_result(p_task tasks) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'session_id', p_task.child_id, 'agent', p_task.agent, 'tool_call_id', p_task.tool_call_id,
           'state', coalesce(r.state, 'erased'), 'code', r.error_code, 'message', r.error_message, 'text', (
             SELECT coalesce(string_agg(p.data ->> 'text', E'\n\n' ORDER BY p.index), '')
               FROM chat_parts p
              WHERE p.session_id = r.session_id AND p.message_id = r.answer_id AND p.type = 'text'
                AND p.index > (SELECT coalesce(max(c.index), -1) FROM chat_parts c
                                WHERE c.session_id = r.session_id AND c.message_id = r.answer_id AND c.tool_call_id IS NOT NULL)))
    FROM (VALUES (1)) AS always
    LEFT JOIN LATERAL (
      SELECT * FROM chat_runs
       WHERE session_id = p_task.child_id AND kind = 'turn' AND state IN ('finished', 'aborted', 'error', 'cancelled')
       ORDER BY state = 'cancelled', seq DESC LIMIT 1) r ON true
$$;

-- Opens the child of a tool call that was begun, with its first message, once per call. `p_task` is { agent, background,
-- child_id, message_id, answer_id, parts, inherits_model, model, workspace_root, max_children, token_limit }. Returns lost;
-- abort; refused { code: TooDeep | TooMany }; spawned { session_id, agent, run_seq, is_new } for a child in the background; or
-- for one in the foreground waiting with the same members, or over with the members of child_result().
CREATE OR REPLACE FUNCTION spawn_task(p_session text, p_run integer, p_fence integer[], p_call text, p_task jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_session sessions;
  v_run chat_runs;
  v_task tasks;
  v_child text := p_task ->> 'child_id';
  v_is_new boolean := false;
BEGIN
  SELECT * INTO v_run FROM chat_runs
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running' FOR UPDATE;
  IF NOT FOUND OR NOT is_open_call(p_session, p_run, p_call) THEN
    RETURN '{"kind": "lost"}';
  ELSIF v_run.abort_requested_at IS NOT NULL THEN
    RETURN '{"kind": "abort"}';
  END IF;
  SELECT * INTO v_task FROM tasks WHERE parent_id = p_session AND tool_call_id = p_call;
  IF NOT FOUND THEN
    IF v_chat.depth >= 5 THEN
      RETURN '{"kind": "refused", "code": "TooDeep"}';
    ELSIF (SELECT count(*) FROM tasks WHERE parent_id = p_session AND run_seq = p_run) >= (p_task ->> 'max_children')::bigint THEN
      RETURN '{"kind": "refused", "code": "TooMany"}';
    END IF;
    SELECT * INTO v_session FROM sessions WHERE session_id = p_session;
    PERFORM open_session(
      v_child, v_session.user_id, p_task ->> 'agent', p_task ->> 'workspace_root', NULL,
      v_chat.metadata - 'title'
        || jsonb_build_object('task', jsonb_build_object('tool_call_id', p_call, 'depth', v_chat.depth + 1)),
      v_session.project_id, v_chat.headless);
    PERFORM accept_message(
      v_child, v_session.user_id, p_task ->> 'message_id', p_task ->> 'answer_id', p_task -> 'parts',
      '{"origin": "task"}',
      CASE WHEN (p_task ->> 'inherits_model')::boolean THEN coalesce(v_run.model, p_task ->> 'model') END, 1, v_run.attributes);
    UPDATE chat_sessions
       SET parent_id = p_session, parent_message_id = v_run.answer_id, depth = v_chat.depth + 1, app = v_chat.app
     WHERE session_id = v_child;
    INSERT INTO tasks (child_id, parent_id, run_seq, tool_call_id, agent, background, token_limit)
    VALUES (v_child, p_session, p_run, p_call, p_task ->> 'agent', (p_task ->> 'background')::boolean,
            (p_task ->> 'token_limit')::bigint)
    RETURNING * INTO v_task;
    v_is_new := true;
  END IF;
  IF NOT v_task.background AND v_task.ended_at IS NOT NULL THEN
    RETURN '{"kind": "over"}' || child_result(v_task);
  ELSIF NOT v_task.background THEN
    -- Readers see at once which session does the work; and nobody waits for the head start of a call that waits itself.
    UPDATE chat_runs run
       SET progress = jsonb_build_object('tool_call_id', p_call, 'data', jsonb_build_object('session_id', v_task.child_id)),
           head_start_at = head_start_over(run), updated_at = clock_timestamp()
     WHERE session_id = p_session AND seq = p_run;
  END IF;
  RETURN jsonb_build_object(
    'kind', CASE WHEN v_task.background THEN 'spawned' ELSE 'waiting' END, 'session_id', v_task.child_id, 'agent', v_task.agent,
    'run_seq', 1, 'is_new', v_is_new);
END $$;

-- Whom to tell of a task that is over. Of one in the background the result is injected into the parent, once: without
-- `p_message` returns inject with the members of child_result(), if it is to be injected; `p_message` is
-- { id, answer_id, parts, metadata }. Returns early (it is not over); none; later (the parent waits for the message that
-- replaces the rewound one); or tell with what waking the parent needs: its session's columns, run_seq, message_id and model.
CREATE OR REPLACE FUNCTION deliver_task(p_child text, p_message jsonb) RETURNS jsonb
LANGUAGE plpgsql SET perdure.sender = 'task' SET lock_timeout = '1s' AS $$
DECLARE
  v_task tasks;
  v_chat chat_sessions;
  v_session sessions;
  v_run chat_runs;
BEGIN
  SELECT * INTO v_task FROM tasks WHERE child_id = p_child;
  v_chat := lock_session(v_task.parent_id);
  SELECT * INTO v_task FROM tasks WHERE child_id = p_child FOR UPDATE;
  IF v_chat.session_id IS NOT NULL AND v_task.ended_at IS NULL THEN
    RETURN '{"kind": "early"}';
  ELSIF v_chat.session_id IS NULL
        OR v_task.background AND v_task.delivered_at IS NOT NULL AND v_task.message_id IS NULL THEN
    UPDATE tasks SET due_at = NULL WHERE child_id = p_child AND due_at IS NOT NULL;
    RETURN '{"kind": "none"}';
  END IF;
  SELECT * INTO v_session FROM sessions WHERE session_id = v_task.parent_id;
  IF NOT v_task.background THEN
    UPDATE tasks
       SET due_at = CASE WHEN is_open_call(parent_id, run_seq, tool_call_id)
                         THEN clock_timestamp() + interval '10 seconds' END
     WHERE child_id = p_child;
    SELECT * INTO v_run FROM chat_runs WHERE session_id = v_task.parent_id AND seq = v_task.run_seq;
  ELSIF v_task.delivered_at IS NULL THEN
    IF v_chat.rewinds IS NOT NULL THEN
      UPDATE tasks SET due_at = clock_timestamp() + interval '10 seconds' WHERE child_id = p_child;
      RETURN '{"kind": "later"}';
    ELSIF p_message IS NULL THEN
      RETURN '{"kind": "inject"}' || child_result(v_task);
    END IF;
    PERFORM accept_message(
      v_task.parent_id, v_session.user_id, p_message ->> 'id', p_message ->> 'answer_id', p_message -> 'parts',
      p_message -> 'metadata', NULL, 2147483647, (
        SELECT attributes FROM chat_runs WHERE session_id = v_task.parent_id AND seq = v_task.run_seq));
    UPDATE tasks SET delivered_at = clock_timestamp(), due_at = NULL, message_id = p_message ->> 'id' WHERE child_id = p_child;
    v_run := newest_run(v_task.parent_id, p_message ->> 'id');
  ELSE
    v_run := newest_run(v_task.parent_id, v_task.message_id);
  END IF;
  RETURN jsonb_build_object(
    'kind', 'tell', 'session_id', v_session.session_id, 'user_id', v_session.user_id, 'project_id', v_session.project_id,
    'phase', v_session.phase, 'agent', v_chat.agent, 'background', v_task.background, 'run_seq', v_run.seq,
    'message_id', v_run.message_id, 'model', v_run.model);
END $$;

-- Claims tasks of which a parent is to be told, longest overdue first. Others get them again after ten seconds.
CREATE OR REPLACE FUNCTION claim_due_tasks(p_limit integer) RETURNS jsonb LANGUAGE sql SET enable_seqscan = off AS $$
  WITH claimed AS (
    UPDATE tasks SET due_at = clock_timestamp() + interval '10 seconds'
     WHERE child_id IN (SELECT child_id FROM tasks WHERE due_at <= now() ORDER BY due_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
    RETURNING child_id)
  SELECT coalesce(jsonb_agg(child_id), '[]') FROM claimed
$$;

-- Ends the children that were called in answers to messages from a position on, with their descendants: their runs are aborted,
-- their calls in flight and the calls that wait for them are errors, and nothing is injected. `p_all` false: not those in the
-- background; `p_last`: not those called by later runs. Returns the ended runs, [{ session_id, run_seq, message_id }]. The caller
-- holds the session's lock.
CREATE OR REPLACE FUNCTION end_children(p_session text, p_from bigint, p_all boolean, p_last integer DEFAULT NULL)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_task tasks;
  v_run chat_runs;
  v_ended jsonb := '[]';
BEGIN
  FOR v_task IN
    SELECT t.* FROM tasks t
     WHERE t.parent_id = p_session AND t.delivered_at IS NULL AND (p_all OR NOT t.background)
       AND t.run_seq <= coalesce(p_last, t.run_seq)
       AND p_from <= (SELECT m.position FROM chat_runs r JOIN chat_messages m ON m.session_id = p_session AND m.id = r.message_id
                       WHERE r.session_id = p_session AND r.seq = t.run_seq)
     ORDER BY t.child_id
  LOOP
    PERFORM lock_session(v_task.child_id);
    UPDATE tasks
       SET ended_at = coalesce(ended_at, clock_timestamp()), delivered_at = clock_timestamp(),
           due_at = CASE WHEN NOT background THEN clock_timestamp() + interval '2 seconds' END
     WHERE child_id = v_task.child_id AND delivered_at IS NULL;
    -- It has ended meanwhile.
    CONTINUE WHEN NOT FOUND;
    v_ended := v_ended || end_children(v_task.child_id, 0, true);
    FOR v_run IN
      SELECT * FROM chat_runs
       WHERE session_id = v_task.child_id AND state IN ('queued', 'running', 'waiting') ORDER BY seq
    LOOP
      PERFORM settle_run(v_task.child_id, v_run.seq, NULL, 'aborted', NULL, NULL, 'aborted by parent');
      PERFORM fail_calls(v_task.child_id, v_run.answer_id, NULL);
      v_ended := v_ended || jsonb_build_array(jsonb_build_object(
        'session_id', v_task.child_id, 'run_seq', v_run.seq, 'message_id', v_run.message_id));
    END LOOP;
    IF NOT v_task.background THEN
      PERFORM fail_calls(p_session, (SELECT answer_id FROM chat_runs WHERE session_id = p_session AND seq = v_task.run_seq),
                         v_task.tool_call_id);
    END IF;
  END LOOP;
  RETURN v_ended;
END $$;

-- Gives the open calls of an answer, or only one of them, the outcome of a call whose session was ended with its parent.
CREATE OR REPLACE FUNCTION fail_calls(p_session text, p_answer text, p_call text) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_parts
     SET data = data || '{"state": "output-error", "errorText": "aborted by parent"}', tool_state = 'output-error',
         updated_at = clock_timestamp()
   WHERE session_id = p_session AND message_id = p_answer AND (p_call IS NULL OR tool_call_id = p_call)
     AND tool_state IN ('input-streaming', 'input-available', 'approval-requested', 'approval-responded')
$$;

-- Ends a session's children by command, and the session's own task if only those still worked; not those called by later runs than
-- p_last.
CREATE OR REPLACE FUNCTION abort_children(p_session text, p_last integer DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_ended jsonb;
BEGIN
  IF NOT has_open_tasks(p_session) THEN RETURN '[]'; END IF;
  v_ended := end_children(p_session, 0, true, p_last);
  UPDATE tasks
     SET ended_at = clock_timestamp(), due_at = clock_timestamp(),
         delivered_at = CASE WHEN NOT background THEN clock_timestamp() END
   WHERE child_id = p_session AND ended_at IS NULL AND NOT has_open_run(p_session) AND NOT has_open_tasks(p_session);
  RETURN v_ended;
END $$;

-- Tokens of a turn with those of its descendants.
CREATE OR REPLACE FUNCTION turn_tokens(p_session text, p_run integer) RETURNS bigint
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  WITH RECURSIVE turns AS (
    SELECT session_id, seq, tokens FROM chat_runs WHERE session_id = p_session AND seq = p_run
    UNION ALL
    SELECT r.session_id, r.seq, r.tokens
      FROM turns
      JOIN tasks t ON t.parent_id = turns.session_id AND t.run_seq = turns.seq
      JOIN chat_runs r ON r.session_id = t.child_id
  )
  SELECT coalesce(sum(tokens), 0)::bigint FROM turns
$$;

-- Tokens that the turns above a child still have; null: there are none above.
CREATE OR REPLACE FUNCTION tokens_left(p_session text) RETURNS bigint LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  WITH RECURSIVE above AS (
    SELECT t.* FROM tasks t WHERE t.child_id = p_session
    UNION ALL
    SELECT t.* FROM above JOIN tasks t ON t.child_id = above.parent_id
  )
  SELECT min(token_limit - turn_tokens(parent_id, run_seq)) FROM above
$$;

-- How long a run has worked, in milliseconds: without the time that it waited for children, answers and pages.
CREATE OR REPLACE FUNCTION run_elapsed_ms(p_run chat_runs) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT (extract(epoch FROM clock_timestamp() - p_run.started_at - coalesce((
    SELECT sum(coalesce(ended_at, clock_timestamp()) - created_at) FROM tasks
     WHERE parent_id = p_run.session_id AND run_seq = p_run.seq AND NOT background), interval '0')) * 1000)::bigint
    - p_run.waited_ms - coalesce(waits_since_ms(p_run), 0)
$$;

-- An erasure: the tasks of erased parents go, and the parents of other erased children are told.
CREATE OR REPLACE FUNCTION erase_tasks(p_sessions text[]) RETURNS void LANGUAGE sql AS $$
  DELETE FROM tasks WHERE parent_id = ANY (p_sessions);
  UPDATE tasks
     SET ended_at = clock_timestamp(), due_at = clock_timestamp(),
         delivered_at = CASE WHEN NOT background THEN clock_timestamp() END
   WHERE child_id = ANY (p_sessions) AND ended_at IS NULL;
$$;
