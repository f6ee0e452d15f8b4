-- Tool calls: loading, claiming and settling them.

-- A tool call's part, and what it needs of the session. Null: no such call.
CREATE OR REPLACE FUNCTION load_tool_call(p_session text, p_run integer, p_call text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'data', p.data, 'tool_state', p.tool_state, 'message_id', p.message_id, 'user_id', s.user_id,
           'project_id', s.project_id, 'phase', s.phase, 'agent', c.agent, 'workspace_root', c.workspace_root,
           'elapsed_ms', (extract(epoch FROM clock_timestamp() - r.started_at) * 1000)::bigint,
           'state', loaded.state, 'incomplete_state', loaded.incomplete,
           'temp', coalesce(r.temp, '{}'))
    FROM chat_parts p
    JOIN sessions s USING (session_id) JOIN chat_sessions c USING (session_id)
    JOIN chat_runs r ON r.session_id = p.session_id AND r.seq = p_run
    CROSS JOIN load_state(p_session, s.user_id) AS loaded
   WHERE p.session_id = p_session AND p.tool_call_id = p_call
$$;

-- The state of a tool call of a run. Null: the run has no such call.
CREATE OR REPLACE FUNCTION call_state(p_session text, p_run integer, p_call text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT p.tool_state
    FROM chat_parts p JOIN chat_runs r ON r.session_id = p.session_id AND r.answer_id = p.message_id
   WHERE p.session_id = p_session AND p.tool_call_id = p_call AND r.seq = p_run
$$;

-- Claims a tool call before it runs: sets pending_tool and raises the event that the tool raises at its start. `p_raise` is
-- null or { event?, at?: start | result, project: new | required | null, new_project_id }; a new project needs an event.
-- Returns claim_run's kinds (lost also if the run has no such call), refused { code, ... } (only the claim and the log were
-- written), or with the session's mark: settled (it has an outcome), again (an earlier attempt began it and left no
-- outcome), begun.
CREATE OR REPLACE FUNCTION begin_tool(p_session text, p_run integer, p_fence integer[], p_pending jsonb, p_raise jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_refusal jsonb;
  v_state sessions;
  v_event text := p_raise ->> 'event';
  v_project text;
  v_call_state text;
BEGIN
  PERFORM lock_session(p_session);
  v_call_state := call_state(p_session, p_run, p_pending ->> 'tool_call_id');
  IF v_call_state IS NULL THEN
    RETURN '{"kind": "lost"}';
  ELSIF v_call_state IN ('output-available', 'output-error', 'output-denied') THEN
    RETURN session_mark(p_session) || '{"kind": "settled"}';
  END IF;
  v_refusal := claim_run(p_session, p_run, p_fence, NULL);
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  SELECT * INTO v_state FROM sessions WHERE session_id = p_session;
  IF v_state.pending_tool ->> 'tool_call_id' = p_pending ->> 'tool_call_id' THEN
    -- A repeat by the same attempt, which lost the response and has not run the tool.
    RETURN session_mark(p_session) || jsonb_build_object(
      'kind', CASE WHEN v_state.pending_tool = p_pending THEN 'begun' ELSE 'again' END);
  END IF;
  v_project := CASE WHEN p_raise ->> 'project' = 'new' THEN p_raise ->> 'new_project_id' END;
  IF v_event IS NOT NULL AND NOT EXISTS (
       SELECT FROM phase_transitions WHERE phase = v_state.phase AND event = v_event) THEN
    v_refusal := invalid_transition(p_session, v_event);
  ELSIF v_project IS NOT NULL THEN
    v_refusal := lock_project(p_session, v_project, v_event);
  ELSIF p_raise ->> 'project' = 'required' AND v_state.project_id IS NULL THEN
    v_refusal := '{"code": "ProjectRequired"}';
  END IF;
  IF v_refusal IS NOT NULL THEN
    PERFORM append_event(p_session, 'refused', 'tool',
      jsonb_build_object('command', v_event, 'tool_call_id', p_pending ->> 'tool_call_id', 'outcome', v_refusal), NULL);
    RETURN v_refusal || '{"kind": "refused"}';
  END IF;
  PERFORM write_pending_tool(p_session, p_pending);
  IF v_event IS NOT NULL AND p_raise ->> 'at' = 'start' THEN
    PERFORM append_event(p_session, 'transition', 'tool', jsonb_strip_nulls(jsonb_build_object(
      'event', v_event, 'from', v_state.phase, 'to', write_phase(p_session, v_event), 'project_id', v_project,
      'tool_call_id', p_pending ->> 'tool_call_id')), NULL);
  END IF;
  RETURN session_mark(p_session) || '{"kind": "begun"}';
END $$;

-- Stores a tool call's outcome, clears pending_tool, writes its effects and raises the event at its result. If that event
-- has become illegal, the outcome is the tool error `p_illegal` (%s is the phase). If the outcome is an error, the effects
-- are dropped. `p_effects` is { event?, state: [...], todos: [{ name, done }], aside? }. Returns { kind: settled, ok, phase,
-- project_id, event_seq } or { kind: lost }.
CREATE OR REPLACE FUNCTION finish_tool(
  p_session text, p_run integer, p_fence integer[], p_call text, p_data jsonb, p_effects jsonb, p_illegal text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_state sessions;
  v_event text := CASE WHEN p_data ->> 'state' = 'output-available' THEN p_effects ->> 'event' END;
  v_to text;
  v_data jsonb := p_data;
  v_call_state text;
BEGIN
  PERFORM lock_session(p_session);
  v_call_state := call_state(p_session, p_run, p_call);
  IF v_call_state IN ('output-available', 'output-error', 'output-denied') THEN
    RETURN session_mark(p_session) || jsonb_build_object('kind', 'settled', 'ok', v_call_state = 'output-available');
  END IF;
  PERFORM FROM chat_runs
    WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running' FOR UPDATE;
  IF NOT FOUND OR v_call_state IS NULL THEN RETURN '{"kind": "lost"}'; END IF;
  SELECT * INTO v_state FROM sessions WHERE session_id = p_session;
  IF v_event IS NOT NULL THEN
    v_to := write_phase(p_session, v_event);
    IF v_to IS NULL THEN
      v_data := (p_data - 'output') || jsonb_build_object(
        'state', 'output-error', 'errorText', format(p_illegal, v_state.phase));
      PERFORM append_event(p_session, 'refused', 'tool', jsonb_build_object(
        'command', v_event, 'tool_call_id', p_call, 'outcome', invalid_transition(p_session, v_event)), NULL);
    END IF;
  END IF;
  IF v_data ->> 'state' = 'output-available' THEN
    PERFORM apply_state(p_session, p_run, v_state.user_id, coalesce(p_effects -> 'state', '[]'));
    INSERT INTO project_todos (project_id, name, done_at)
    SELECT DISTINCT ON (name) v_state.project_id, name, CASE WHEN done THEN clock_timestamp() END
      FROM ROWS FROM (jsonb_to_recordset(coalesce(p_effects -> 'todos', '[]')) AS (name text, done boolean))
           WITH ORDINALITY AS todo(name, done, n)
     ORDER BY name, n DESC
    ON CONFLICT (project_id, name) DO UPDATE SET done_at = excluded.done_at;
    IF p_effects ->> 'aside' IS NOT NULL THEN
      INSERT INTO tool_outputs (session_id, tool_call_id, output)
      VALUES (p_session, p_call, p_effects ->> 'aside') ON CONFLICT DO NOTHING;
    END IF;
  END IF;
  UPDATE chat_parts
     SET data = v_data, tool_state = v_data ->> 'state', updated_at = clock_timestamp()
   WHERE session_id = p_session AND tool_call_id = p_call;
  PERFORM write_pending_tool(p_session, NULL);
  UPDATE chat_runs SET progress = NULL, updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
  IF v_to IS NOT NULL THEN
    PERFORM append_event(p_session, 'transition', 'tool', jsonb_build_object(
      'event', v_event, 'from', v_state.phase, 'to', v_to, 'tool_call_id', p_call), NULL);
  END IF;
  RETURN session_mark(p_session) || jsonb_build_object('kind', 'settled', 'ok', v_data ->> 'state' = 'output-available');
END $$;
