-- Tool calls: loading, claiming and settling them.

-- Caches a tool's result, in the session's app. Expired ones are not seen, and retention deletes them. Locks the session, because
-- nothing is written after an erasure.
CREATE OR REPLACE FUNCTION cache_result(
  p_scope text, p_session text, p_user text, p_tool text, p_key text, p_value jsonb, p_ttl_ms double precision
) RETURNS void LANGUAGE sql AS $$
  INSERT INTO cached_results (app, scope, owner, tool, key, value, expires_at)
  SELECT app, p_scope, state_owner(p_scope, p_session, p_user), p_tool, p_key, p_value,
         clock_timestamp() + p_ttl_ms * interval '1 millisecond'
    FROM chat_sessions WHERE session_id = p_session FOR KEY SHARE
  ON CONFLICT (scope, owner, tool, key, app) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
$$;

-- A tool call's part, and what it needs of the session. Null: no such call.
CREATE OR REPLACE FUNCTION load_tool_call(p_session text, p_run integer, p_call text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'data', p.data, 'tool_state', p.tool_state, 'message_id', p.message_id, 'user_id', s.user_id,
           'project_id', s.project_id, 'phase', s.phase, 'agent', c.agent, 'workspace_root', c.workspace_root,
           'metadata', c.metadata, 'attributes', r.attributes,
           'elapsed_ms', run_elapsed_ms(r), 'rules', rules_in_force(p_session),
           'above', CASE WHEN c.depth > 0 THEN rules_above(p_session) ELSE '[]' END, 'headless', c.headless,
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

-- Whether a call runs or may run: it has no outcome, and no answer of a user is missing.
CREATE OR REPLACE FUNCTION is_open_call(p_session text, p_run integer, p_call text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce(call_state(p_session, p_run, p_call) IN ('input-available', 'approval-responded'), false)
$$;

-- Asks for a call that is about to run, or denies it; see begin_tool().
CREATE OR REPLACE FUNCTION hold_call(p_session text, p_run integer, p_call text, p_data jsonb, p_permission jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_asks boolean := p_permission ->> 'action' = 'ask';
  v_data jsonb := p_data || jsonb_build_object(
    'state', CASE WHEN v_asks THEN 'approval-requested' ELSE 'output-denied' END, 'approval', p_permission -> 'approval');
BEGIN
  PERFORM write_call(p_session, p_call, CASE WHEN v_asks THEN v_data ELSE with_decision(v_data, p_permission -> 'record') END);
  PERFORM append_event(p_session, CASE WHEN v_asks THEN 'approval_requested' ELSE 'denied' END, 'tool', jsonb_build_object(
    'tool_call_id', p_call, 'rule', p_permission #> '{record,rule}'), NULL);
  IF v_asks THEN
    PERFORM begin_waiting(p_session, p_run, p_call, NULL);
    RETURN session_mark(p_session) || '{"kind": "waiting", "wait_ms": null}';
  END IF;
  UPDATE chat_runs run SET head_start_at = head_start_over(run), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
  RETURN session_mark(p_session) || '{"kind": "settled"}';
END $$;

-- Claims a tool call before it runs: sets pending_tool to `p_pending` and the time, and raises the event that the tool raises at
-- its start. `p_raise` is null or { event?, at?: start | result, project: new | required | null, new_project_id, watch?, permission?, page_ms? }; a new
-- project needs an event; for `watch` see watch_instructions().
--
-- `permission` is { rules, above, action: allow | deny | ask, record, approval }: what domain/permissions.ts decided by these
-- rules of session and project, and of the sessions above. It counts only if they are in force now; once a user has approved the
-- call, only a denial counts. `record` is kept with a denial. `page_ms`: the page carries out the call, within this time.
--
-- Returns claim_run's kinds (lost also if the run has no such call), rules { rules, above } (others are in force; nothing was
-- written), refused { code, ... } (only the claim and the log were written), or with the session's mark: settled (it has an
-- outcome; see child_of_call), waiting { wait_ms } (for an answer, or with a number for a page), again (an earlier attempt began it
-- and left no outcome), begun. The last two have the part's `data` if it was approved, and what a page has `given`.
CREATE OR REPLACE FUNCTION begin_tool(
  p_session text, p_run integer, p_fence integer[], p_pending jsonb, p_raise jsonb, p_worker uuid DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_refusal jsonb;
  v_state sessions;
  v_run chat_runs;
  v_event text := p_raise ->> 'event';
  v_permission jsonb := p_raise -> 'permission';
  v_call text := p_pending ->> 'tool_call_id';
  v_project text;
  v_call_state text;
  v_data jsonb;
  v_rules jsonb;
  v_above jsonb := '[]';
  v_holds boolean;
  v_repeats boolean;
  v_more jsonb := '{}';
BEGIN
  v_call_state := call_state(p_session, p_run, v_call);
  IF v_call_state IS NULL THEN
    RETURN '{"kind": "lost"}';
  ELSIF v_call_state IN ('output-available', 'output-error', 'output-denied') THEN
    RETURN session_mark(p_session) || '{"kind": "settled"}' || child_of_call(p_session, v_call);
  END IF;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  IF v_run.state = 'waiting' AND v_run.waiting ->> 'tool_call_id' = v_call AND v_run.abort_requested_at IS NULL THEN
    IF waits_ms(v_run) = 0 THEN
      IF p_fence <= v_run.fence OR p_fence[1] < v_chat.epoch THEN
        RETURN '{"kind": "lost"}';
      END IF;
      PERFORM end_waiting(p_session, p_run);
      UPDATE chat_runs SET given = jsonb_build_object('tool_call_id', v_call, 'late', true)
       WHERE session_id = p_session AND seq = p_run;
    ELSE
      IF p_fence[3] > 0 THEN PERFORM wait_is_known(v_run); END IF;
      RETURN session_mark(p_session) || jsonb_build_object('kind', 'waiting', 'wait_ms', waits_ms(v_run));
    END IF;
  ELSIF v_permission IS NOT NULL AND v_run.given ->> 'tool_call_id' IS DISTINCT FROM v_call THEN
    v_rules := rules_in_force(p_session);
    IF v_chat.depth > 0 THEN v_above := rules_above(p_session); END IF;
    IF v_rules <> v_permission -> 'rules' OR v_above IS DISTINCT FROM v_permission -> 'above' THEN
      RETURN jsonb_build_object('kind', 'rules', 'rules', v_rules, 'above', v_above);
    END IF;
  END IF;
  -- Another worker may go on with a head start under its fence.
  v_repeats := p_fence[1:3] = v_run.fence[1:3] AND (p_fence[3] > 0 OR p_worker = v_run.head_start_worker);
  v_refusal := claim_run(p_session, p_run, p_fence, NULL, p_worker);
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  SELECT * INTO v_state FROM sessions WHERE session_id = p_session;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  IF v_run.given ->> 'tool_call_id' = v_call THEN
    v_more := jsonb_build_object('given', v_run.given);
  END IF;
  -- What was approved is not asked for again.
  v_holds := NOT v_more ? 'given' AND (
    v_permission ->> 'action' = 'deny' OR v_permission ->> 'action' = 'ask' AND v_call_state <> 'approval-responded');
  IF v_call_state = 'approval-responded' OR v_holds THEN
    SELECT data INTO v_data FROM chat_parts WHERE session_id = p_session AND tool_call_id = v_call;
  END IF;
  IF v_call_state = 'approval-responded' THEN
    v_more := v_more || jsonb_build_object('data', v_data);
  END IF;
  IF v_state.pending_tool ->> 'tool_call_id' = v_call THEN
    PERFORM watch_instructions(p_session, v_call, p_raise -> 'watch');
    -- A repeat by the same attempt, which lost the response and has not run the tool.
    RETURN session_mark(p_session) || v_more || jsonb_build_object(
      'kind', CASE WHEN v_repeats IS TRUE THEN 'begun' ELSE 'again' END);
  END IF;
  v_project := CASE WHEN p_raise ->> 'project' = 'new' THEN p_raise ->> 'new_project_id' END;
  IF v_event IS NOT NULL AND NOT EXISTS (
       SELECT FROM phase_transitions WHERE phase = v_state.phase AND event = v_event) THEN
    v_refusal := invalid_transition(p_session, v_event);
  ELSIF v_project IS NOT NULL AND v_state.project_id IS NOT NULL THEN
    v_refusal := jsonb_build_object('code', 'ProjectAlreadyLocked', 'locked_project_id', v_state.project_id);
  ELSIF p_raise ->> 'project' = 'required' AND v_state.project_id IS NULL THEN
    v_refusal := '{"code": "ProjectRequired"}';
  ELSIF v_holds THEN
    RETURN hold_call(p_session, p_run, v_call, v_data, v_permission);
  ELSIF p_raise ? 'page_ms' AND NOT v_more ? 'given' THEN
    PERFORM begin_waiting(p_session, p_run, v_call,
                          clock_timestamp() + (p_raise ->> 'page_ms')::bigint * interval '1 millisecond');
    RETURN session_mark(p_session) || jsonb_build_object('kind', 'waiting', 'wait_ms', (p_raise ->> 'page_ms')::bigint);
  ELSIF v_project IS NOT NULL THEN
    v_refusal := lock_project(p_session, v_project, v_event);
  END IF;
  IF v_refusal IS NOT NULL THEN
    PERFORM append_event(p_session, 'refused', 'tool',
      jsonb_build_object('command', v_event, 'tool_call_id', v_call, 'outcome', v_refusal), NULL);
    RETURN v_refusal || '{"kind": "refused"}';
  END IF;
  PERFORM write_pending_tool(p_session, p_pending || jsonb_build_object('started_at', iso_millisecond(clock_timestamp())));
  PERFORM watch_instructions(p_session, v_call, p_raise -> 'watch');
  IF v_event IS NOT NULL AND p_raise ->> 'at' = 'start' THEN
    PERFORM append_event(p_session, 'transition', 'tool', jsonb_strip_nulls(jsonb_build_object(
      'event', v_event, 'from', v_state.phase, 'to', write_phase(p_session, v_event), 'project_id', v_project,
      'tool_call_id', v_call)), NULL);
  END IF;
  RETURN session_mark(p_session) || v_more || '{"kind": "begun"}';
END $$;

-- Stores a tool call's outcome, clears pending_tool, writes its effects and raises the event at its result. If that event
-- has become illegal, the outcome is the tool error `p_illegal` (%s is the phase); if its changes of state are refused, it is
-- a tool error that says why. If the outcome is an error, the effects are dropped, except what is known of instruction files.
-- `p_effects` is { event?, state: [...], todos: [{ name, done }], aside?, changes?, work? }; for `changes` see note_written(), for
-- `work`, which has the call's `step`, too, note_work().
-- Returns { kind: settled, ok, phase, project_id, event_seq } or { kind: lost }.
CREATE OR REPLACE FUNCTION finish_tool(
  p_session text, p_run integer, p_fence integer[], p_call text, p_data jsonb, p_effects jsonb, p_illegal text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_state sessions;
  v_event text := CASE WHEN p_data ->> 'state' = 'output-available' THEN p_effects ->> 'event' END;
  v_to text;
  v_data jsonb := p_data;
  v_error text;
  v_call_state text;
BEGIN
  PERFORM lock_session(p_session);
  v_call_state := call_state(p_session, p_run, p_call);
  IF v_call_state IN ('output-available', 'output-error', 'output-denied') THEN
    PERFORM note_written(p_session, p_call, p_effects -> 'changes');
    RETURN session_mark(p_session) || jsonb_build_object('kind', 'settled', 'ok', v_call_state = 'output-available')
      || child_of_call(p_session, p_call);
  END IF;
  PERFORM FROM chat_runs
    WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running' FOR UPDATE;
  IF NOT FOUND OR v_call_state IS NULL THEN
    -- If the run goes on, another attempt may be running the tool.
    PERFORM note_written(p_session, p_call, (p_effects -> 'changes') || CASE WHEN EXISTS (
      SELECT FROM chat_runs WHERE session_id = p_session AND seq = p_run AND state = 'running'
    ) THEN '{"over": false}'::jsonb ELSE '{}' END);
    RETURN '{"kind": "lost"}';
  END IF;
  PERFORM note_written(p_session, p_call, p_effects -> 'changes');
  SELECT * INTO v_state FROM sessions WHERE session_id = p_session;
  IF v_event IS NOT NULL AND NOT EXISTS (
       SELECT FROM phase_transitions WHERE phase = v_state.phase AND event = v_event) THEN
    v_error := format(p_illegal, v_state.phase);
    PERFORM append_event(p_session, 'refused', 'tool', jsonb_build_object(
      'command', v_event, 'tool_call_id', p_call, 'outcome', invalid_transition(p_session, v_event)), NULL);
  ELSIF p_data ->> 'state' = 'output-available' AND p_effects -> 'state' <> '[]' THEN
    v_error := commit_tool_state(p_session, p_run, p_call,
                                 coalesce(p_data ->> 'toolName', substr(p_data ->> 'type', 6)), p_effects -> 'state');
  END IF;
  IF v_error IS NOT NULL THEN
    v_data := (p_data - 'output') || jsonb_build_object('state', 'output-error', 'errorText', v_error);
  ELSIF v_event IS NOT NULL THEN
    v_to := write_phase(p_session, v_event);
  END IF;
  IF v_data ->> 'state' = 'output-available' THEN
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
  PERFORM note_work(p_session, p_run, (p_effects #>> '{work,step}')::integer, p_call, p_fence, p_effects -> 'work');
  PERFORM write_pending_tool(p_session, NULL);
  -- Checks of a long call are far between; see claim_due_runs().
  UPDATE chat_runs run
     SET progress = NULL, given = NULL, head_start_at = head_start_over(run), updated_at = clock_timestamp(),
         check_at = CASE WHEN check_at IS NOT NULL THEN least(check_at, clock_timestamp() + interval '30 seconds') END
   WHERE session_id = p_session AND seq = p_run;
  IF v_to IS NOT NULL THEN
    PERFORM append_event(p_session, 'transition', 'tool', jsonb_build_object(
      'event', v_event, 'from', v_state.phase, 'to', v_to, 'tool_call_id', p_call), NULL);
  END IF;
  RETURN session_mark(p_session) || jsonb_build_object('kind', 'settled', 'ok', v_data ->> 'state' = 'output-available');
END $$;
