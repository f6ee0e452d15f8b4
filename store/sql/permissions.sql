-- Permission rules, and runs that wait for an answer. Which rule decides is the business of domain/permissions.ts alone: a worker
-- decides by the rules that load_tool_call() returned, and begin_tool() accepts the decision only if these are still in force.

-- The rules of a session and of its project, those of a scope in the order in which they were made.
CREATE OR REPLACE FUNCTION rules_in_force(p_session text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce((
           SELECT jsonb_agg(jsonb_build_object('rule_id', rule_id, 'permission', permission, 'pattern', pattern,
                                               'action', action, 'source', 'project') ORDER BY n)
             FROM project_permissions p WHERE p.project_id = s.project_id), '[]') || c.permissions
    FROM chat_sessions c JOIN sessions s USING (session_id) WHERE c.session_id = p_session
$$;

-- The rules that hold in the sessions above a child, the nearest first: [{ session_id, agent, has_project, rules }].
CREATE OR REPLACE FUNCTION rules_above(p_session text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object(
           'session_id', session_id, 'agent', c.agent, 'has_project', s.project_id IS NOT NULL,
           'rules', rules_in_force(session_id)) ORDER BY distance), '[]')
    FROM sessions_above(p_session) JOIN chat_sessions c USING (session_id) JOIN sessions s USING (session_id)
$$;

-- Makes a rule that allows what matches, for a session or with p_always for its project; it replaces one with the same pattern.
CREATE OR REPLACE FUNCTION put_rule(
  p_session text, p_always boolean, p_rule text, p_permission text, p_pattern text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_project text := (SELECT project_id FROM sessions WHERE session_id = p_session);
BEGIN
  IF p_always THEN
    DELETE FROM project_permissions WHERE project_id = v_project AND rule_id = p_rule;
    INSERT INTO project_permissions (project_id, rule_id, permission, pattern, action)
    VALUES (v_project, p_rule, p_permission, p_pattern, 'allow')
    ON CONFLICT (project_id, permission, md5(pattern)) DO UPDATE
       SET rule_id = excluded.rule_id, n = DEFAULT, action = excluded.action, created_at = excluded.created_at;
  ELSE
    UPDATE chat_sessions
       SET permissions = (
             SELECT coalesce(jsonb_agg(rule ORDER BY n), '[]')
               FROM jsonb_array_elements(permissions) WITH ORDINALITY AS rules(rule, n)
              WHERE rule ->> 'permission' <> p_permission OR rule ->> 'pattern' <> p_pattern)
             || jsonb_build_object('rule_id', p_rule, 'permission', p_permission, 'pattern', p_pattern,
                                   'action', 'allow', 'source', 'session')
     WHERE session_id = p_session;
  END IF;
END $$;

-- Takes back a rule of a user's session or of its project. Returns its scope; null: there is none.
CREATE OR REPLACE FUNCTION revoke_rule(p_session text, p_user text, p_rule text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_scope text;
BEGIN
  PERFORM lock_session(p_session);
  UPDATE chat_sessions
     SET permissions = (SELECT coalesce(jsonb_agg(rule ORDER BY n), '[]')
                          FROM jsonb_array_elements(permissions) WITH ORDINALITY AS rules(rule, n)
                         WHERE rule ->> 'rule_id' <> p_rule), updated_at = clock_timestamp()
   WHERE session_id = p_session AND permissions @> jsonb_build_array(jsonb_build_object('rule_id', p_rule))
     AND EXISTS (SELECT FROM sessions s WHERE s.session_id = p_session AND s.user_id = p_user);
  IF FOUND THEN
    v_scope := 'session';
  ELSE
    DELETE FROM project_permissions p USING sessions s
     WHERE s.session_id = p_session AND s.user_id = p_user AND p.project_id = s.project_id AND p.rule_id = p_rule;
    IF NOT FOUND THEN RETURN NULL; END IF;
    v_scope := 'project';
  END IF;
  PERFORM append_event(p_session, 'rule_revoked', 'user', jsonb_build_object('rule_id', p_rule, 'scope', v_scope), NULL);
  RETURN v_scope;
END $$;

-- Adds what was decided to a call's part. `p_record` is a PermissionRecord without the time.
CREATE OR REPLACE FUNCTION with_decision(p_data jsonb, p_record jsonb) RETURNS jsonb LANGUAGE sql AS $$
  SELECT p_data || jsonb_build_object('callProviderMetadata',
    coalesce(p_data -> 'callProviderMetadata', '{}') || jsonb_build_object('perdure',
      coalesce(p_data #> '{callProviderMetadata,perdure}', '{}') || jsonb_build_object('permission',
        p_record || jsonb_build_object('decided_at',
          iso_millisecond(clock_timestamp())))))
$$;

-- Writes a call's part.
CREATE OR REPLACE FUNCTION write_call(p_session text, p_call text, p_data jsonb) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_parts SET data = p_data, tool_state = p_data ->> 'state', updated_at = clock_timestamp()
   WHERE session_id = p_session AND tool_call_id = p_call
$$;

-- Lets a run wait for what a call needs: an approval, or with p_until the output of a page until then. If a head start has come
-- here, there may be no workflow that waits, and the sweeper wakes it; see wait_is_known().
CREATE OR REPLACE FUNCTION begin_waiting(p_session text, p_run integer, p_call text, p_until timestamptz) RETURNS void
LANGUAGE sql AS $$
  UPDATE chat_runs run
     SET state = 'waiting', head_start_at = head_start_over(run), head_start_worker = NULL, updated_at = clock_timestamp(),
         waiting = jsonb_strip_nulls(jsonb_build_object(
           'tool_call_id', p_call, 'for', CASE WHEN p_until IS NULL THEN 'approval' ELSE 'output' END,
           'since', clock_timestamp(), 'until', p_until))
   WHERE session_id = p_session AND seq = p_run
$$;

-- A workflow has come to the call that a run waits for: the sweeper need not wake it any more.
CREATE OR REPLACE FUNCTION wait_is_known(p_run chat_runs) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_run.head_start_at IS NULL THEN RETURN; END IF;
  p_run.head_start_at := NULL;
  UPDATE chat_runs SET head_start_at = NULL, check_at = next_check(p_run)
   WHERE session_id = p_run.session_id AND seq = p_run.seq;
END $$;

-- For how many milliseconds a run has waited for what it waits for now.
CREATE OR REPLACE FUNCTION waits_since_ms(p_run chat_runs) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT (extract(epoch FROM clock_timestamp() - (p_run.waiting ->> 'since')::timestamptz) * 1000)::bigint
$$;

-- Lets a run that waits go on. It has no activity: if its workflow is not told, the sweeper wakes it in 2 s.
CREATE OR REPLACE FUNCTION end_waiting(p_session text, p_run integer) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_runs run
     SET state = 'running', waiting = NULL, head_start_at = '-infinity', updated_at = clock_timestamp(),
         waited_ms = waited_ms + waits_since_ms(run)
   WHERE session_id = p_session AND seq = p_run AND state = 'waiting'
$$;

-- In how many milliseconds the output that a run waits for is too late; null: it waits for an approval.
CREATE OR REPLACE FUNCTION waits_ms(p_run chat_runs) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_run.waiting ? 'until' THEN
           greatest(0, ceil(extract(epoch FROM (p_run.waiting ->> 'until')::timestamptz - clock_timestamp()) * 1000))::bigint END
$$;

-- The run that a call belongs to.
CREATE OR REPLACE FUNCTION run_of_call(p_session text, p_call text) RETURNS chat_runs LANGUAGE sql STABLE AS $$
  SELECT r.* FROM chat_parts p JOIN chat_runs r ON r.session_id = p.session_id AND r.answer_id = p.message_id
   WHERE p.session_id = p_session AND p.tool_call_id = p_call
$$;

-- Locks the session of a call, which is the given one or one below it, and all above that, from the root down: an answer may
-- make rules in each of them.
CREATE OR REPLACE FUNCTION lock_asking(p_session text, p_call text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_asking text := session_of_call(p_session, p_call);
  v_session text;
BEGIN
  FOR v_session IN SELECT session_id FROM sessions_above(v_asking) ORDER BY distance DESC LOOP
    PERFORM lock_session(v_session);
  END LOOP;
  PERFORM lock_session(v_asking);
END $$;

-- The refusal of what a call does not wait for: with the `decision` about it, and the `cause`, how its wait has ended; if there is
-- such. Both go into histories, where no content may be, and an imported part may say anything: only these words are taken from it.
CREATE OR REPLACE FUNCTION not_waiting(p_run chat_runs, p_data jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
           'code', 'NotWaiting',
           'decision', CASE WHEN decision IN ('allow', 'deny', 'once', 'session', 'always', 'reject') THEN decision END,
           'cause', CASE
             WHEN reason IN ('aborted by the user', 'aborted by parent', 'no longer needed') THEN reason
             WHEN p_run.state = 'aborted' OR p_run.abort_requested_at IS NOT NULL THEN 'its turn was aborted' END))
    FROM (SELECT p_data #>> '{callProviderMetadata,perdure,permission,decision}' AS decision,
                 p_data #>> '{approval,reason}' AS reason) AS part
$$;

-- p_args: { tool_call_id, decision: once | session | always | reject }. The call may be one of a session below. The text of a
-- reason was logged under "<command id>/reason". For NotWaiting see not_waiting(); the decision that was made, again, is
-- answered as the first time. Of a call below, `child` names the run that goes on, instead of `run_seq`.
CREATE OR REPLACE FUNCTION cmd_answer(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_call text := p_args ->> 'tool_call_id';
  v_decision text := p_args ->> 'decision';
  v_asking text := session_of_call(p_session, v_call);
  v_run chat_runs := run_of_call(v_asking, v_call);
  v_data jsonb := (SELECT data FROM chat_parts WHERE session_id = v_asking AND tool_call_id = v_call);
  v_asked jsonb := v_data #> '{approval,descriptor}';
  v_record jsonb := v_data #> '{callProviderMetadata,perdure,permission}';
  v_answer jsonb := jsonb_build_object('tool_call_id', v_call, 'decision', v_decision);
  v_outcome jsonb := v_answer || jsonb_build_object(
    'message_id', v_run.answer_id, 'run_seq', CASE WHEN v_asking = p_session THEN v_run.seq END,
    'child', CASE WHEN v_asking <> p_session THEN jsonb_build_object(
               'session_id', v_asking, 'run_seq', v_run.seq, 'message_id', v_run.message_id) END);
  -- Whose rules ask.
  v_sessions text[] := ARRAY(SELECT jsonb_array_elements_text(coalesce(v_asked -> 'asking', to_jsonb(ARRAY[v_asking]))));
  v_reason text;
BEGIN
  IF v_run.seq IS NOT NULL AND v_record ->> 'decision' = v_decision AND v_record ->> 'decided_by' <> 'rule' THEN
    RETURN jsonb_build_object('kind', 'approval', 'data', jsonb_build_object('tool_call_id', v_call, 'repeated', true),
                              'outcome', v_outcome);
  ELSIF v_run.state IS DISTINCT FROM 'waiting' OR v_data ->> 'state' <> 'approval-requested'
        OR v_run.waiting ->> 'tool_call_id' <> v_call OR v_run.abort_requested_at IS NOT NULL THEN
    RETURN not_waiting(v_run, v_data);
  ELSIF v_decision = 'always' AND EXISTS (
          SELECT FROM sessions WHERE session_id = ANY (v_sessions) AND project_id IS NULL) THEN
    RETURN '{"code": "ProjectRequired"}';
  ELSIF v_decision IN ('session', 'always') AND NOT v_asked -> 'decisions' ? 'session' THEN
    RETURN jsonb_build_object('code', 'NotOffered', 'offered', v_asked -> 'decisions');
  END IF;
  SELECT data ->> 'text' INTO v_reason FROM session_events
   WHERE session_id = p_session AND command_id = p_command_id || '/reason';
  IF v_decision IN ('session', 'always') THEN
    PERFORM put_rule(asks, v_decision = 'always', 'rul_' || v_call, v_asked ->> 'permission',
                     regexp_replace(v_asked ->> 'pattern', '([*\\])', '\\\1', 'g'))
       FROM unnest(v_sessions) AS asks;
  END IF;
  v_data := with_decision(v_data, jsonb_strip_nulls(jsonb_build_object('session_id', v_asked -> 'session_id'))
      || jsonb_build_object(
        'rule', v_asked -> 'rule', 'scope', v_asked -> 'scope', 'decision', v_decision,
        'decided_by', (SELECT user_id FROM sessions WHERE session_id = v_asking)))
    || jsonb_build_object(
      'state', CASE v_decision WHEN 'reject' THEN 'output-denied' ELSE 'approval-responded' END,
      'approval', (v_data -> 'approval') || jsonb_strip_nulls(jsonb_build_object(
        'approved', v_decision <> 'reject', 'reason', v_reason)));
  PERFORM write_call(v_asking, v_call, v_data);
  PERFORM end_waiting(v_asking, v_run.seq);
  IF v_asking <> p_session THEN
    PERFORM append_event(v_asking, 'approval', 'user', v_answer || jsonb_build_object('answered_in', p_session), NULL);
  END IF;
  RETURN jsonb_build_object('kind', 'approval', 'outcome', v_outcome, 'data', v_answer);
END $$;

-- Stores what a page gives as the outcome of a call that it carries out, of this session or one below: `p_given` is { output } or
-- { error }. Returns { session_id, run_seq, message_id, user_message_id, model } of the call's run, its session's mark, and
-- `above`, the sessions above that; or a refusal: SessionNotFound, or that of not_waiting(). The same again changes nothing:
-- `repeated` is true. It is compared with what was sent, of which the event of the call has a digest: the part has what the
-- tool's schema and the limit for outputs have left of it.
CREATE OR REPLACE FUNCTION give_output(p_session text, p_user text, p_call text, p_given jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_calling text := session_of_call(p_session, p_call);
  v_run chat_runs;
  v_digest text := encode(sha256(convert_to(p_given::text, 'UTF8')), 'hex');
  v_first text;
  v_data jsonb;
BEGIN
  PERFORM lock_session(v_calling);
  IF NOT EXISTS (SELECT FROM sessions WHERE session_id = p_session AND user_id = p_user) THEN
    RETURN '{"code": "SessionNotFound"}';
  END IF;
  v_run := run_of_call(v_calling, p_call);
  SELECT data ->> 'digest' INTO v_first FROM session_events
   WHERE session_id = v_calling AND command_id = 'output:' || p_call;
  IF v_first IS NULL AND v_run.state = 'waiting' AND v_run.waiting ->> 'for' = 'output'
     AND v_run.waiting ->> 'tool_call_id' = p_call AND v_run.abort_requested_at IS NULL THEN
    PERFORM end_waiting(v_calling, v_run.seq);
    UPDATE chat_runs SET given = p_given || jsonb_build_object('tool_call_id', p_call)
     WHERE session_id = v_calling AND seq = v_run.seq;
    PERFORM append_event(v_calling, 'tool_output', 'user', jsonb_strip_nulls(jsonb_build_object(
      'tool_call_id', p_call, 'digest', v_digest, 'answered_in', nullif(p_session, v_calling))), 'output:' || p_call);
  ELSIF v_run.seq IS NULL OR v_first IS DISTINCT FROM v_digest THEN
    SELECT data INTO v_data FROM chat_parts WHERE session_id = v_calling AND tool_call_id = p_call;
    RETURN CASE
      WHEN v_first IS NOT NULL THEN '{"code": "NotWaiting", "cause": "another output was given"}'
      WHEN v_run.given ->> 'tool_call_id' = p_call OR v_data ->> 'state' IN ('output-available', 'output-error')
        THEN '{"code": "NotWaiting", "cause": "it has ended without an output of the page"}'
      -- The approval of a call does not end its wait for an output.
      ELSE not_waiting(v_run, CASE WHEN v_data ->> 'state' = 'output-denied' THEN v_data END) END;
  END IF;
  RETURN session_mark(v_calling) || jsonb_build_object(
    'session_id', v_calling, 'run_seq', v_run.seq, 'message_id', v_run.answer_id, 'user_message_id', v_run.message_id,
    'model', v_run.model, 'repeated', v_first IS NOT NULL,
    'above', ARRAY(SELECT session_id FROM sessions_above(v_calling) ORDER BY distance));
END $$;

-- The run of an answer of a user's, and the answer's tool calls. Null: the user has no such answer.
CREATE OR REPLACE FUNCTION answered_calls(p_session text, p_user text, p_answer text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('run_seq', r.seq, 'is_open', r.state IN ('running', 'waiting'),
           'is_aborted', r.state = 'aborted', 'calls', (
           SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'tool_call_id', p.tool_call_id, 'tool_state', p.tool_state, 'step', p.step,
                    'approved', p.data #> '{approval,approved}',
                    'waits_for', CASE WHEN r.state = 'waiting' AND r.waiting ->> 'tool_call_id' = p.tool_call_id
                                      THEN r.waiting ->> 'for' END) ORDER BY p.index), '[]')
             FROM (SELECT *, count(*) FILTER (WHERE type = 'step-start') OVER (ORDER BY index) AS step
                     FROM chat_parts WHERE session_id = p_session AND message_id = r.answer_id) AS p
            WHERE p.tool_call_id IS NOT NULL))
    FROM chat_runs r JOIN sessions s USING (session_id)
   WHERE r.session_id = p_session AND s.user_id = p_user AND r.answer_id = p_answer
$$;
