-- What the worker's activities do to a run. A claim takes the run with a greater fence (epoch, ordinal, attempt); every
-- later write names that fence and changes nothing once a greater one has claimed. "lost" is the answer to a writer
-- that has been overtaken.

-- What the session is now, for a workflow to follow; the newest event number says which of two answers is the later.
CREATE FUNCTION session_mark(p_session text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('phase', phase, 'project_id', project_id, 'event_seq', (
           SELECT coalesce(max(seq), 0) FROM session_events WHERE session_id = p_session))
    FROM sessions WHERE session_id = p_session
$$;

-- Everything a workflow needs at its start, and a new epoch: whatever an earlier workflow scheduled is overtaken from
-- here on, not only from the next claim on.
CREATE FUNCTION load_session(p_session text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_epoch integer;
BEGIN
  UPDATE chat_sessions SET epoch = epoch + 1 WHERE session_id = p_session RETURNING epoch INTO v_epoch;
  UPDATE chat_runs SET fence = ARRAY[v_epoch, 0, 0]
   WHERE session_id = p_session AND state IN ('queued', 'running', 'waiting');
  RETURN (
    SELECT session_mark(p_session) || jsonb_build_object(
      'epoch', v_epoch, 'user_id', s.user_id, 'pending_tool', s.pending_tool, 'agent', c.agent, 'closed', c.closed_at IS NOT NULL,
      'paused', c.paused_at IS NOT NULL,
      'runs', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
          'run_seq', r.seq, 'message_id', r.message_id, 'state', r.state, 'step', r.step, 'model', r.model,
          'started_at', (extract(epoch FROM r.started_at) * 1000)::bigint,
          'abort', r.abort_requested_at IS NOT NULL,
          'open_calls', (
            SELECT coalesce(jsonb_agg(call ORDER BY n), '[]')
              FROM jsonb_array_elements(r.last_step -> 'tool_calls') WITH ORDINALITY AS calls(call, n)
              JOIN chat_parts p ON p.session_id = r.session_id AND p.tool_call_id = call ->> 'tool_call_id'
             WHERE p.tool_state = 'input-available')) ORDER BY r.seq), '[]')
          FROM chat_runs r WHERE r.session_id = p_session AND r.state IN ('queued', 'running', 'waiting')))
      FROM sessions s JOIN chat_sessions c USING (session_id) WHERE s.session_id = p_session);
END $$;

-- Why a piece of work may not begin now, as { kind, ... }; null where it may, and then the fence is taken.
-- Kinds: ended, earlier (runs ahead of it), paused, abort, lost. `p_started_at` (epoch milliseconds) is when the workflow
-- began the run; the first claim keeps it.
CREATE FUNCTION claim_run(p_session text, p_run integer, p_fence integer[], p_started_at bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_run chat_runs;
BEGIN
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run FOR UPDATE;
  IF v_run.seq IS NULL OR v_run.state IN ('finished', 'aborted', 'error', 'cancelled') THEN
    RETURN jsonb_build_object('kind', 'ended', 'state', coalesce(v_run.state, 'cancelled'), 'code', v_run.error_code);
  ELSIF EXISTS (SELECT FROM chat_runs WHERE session_id = p_session AND seq < p_run
                   AND state IN ('queued', 'running', 'waiting')) THEN
    RETURN jsonb_build_object('kind', 'earlier', 'runs', (
      SELECT jsonb_agg(jsonb_build_object('run_seq', seq, 'message_id', message_id, 'model', model) ORDER BY seq)
        FROM chat_runs WHERE session_id = p_session AND seq < p_run AND state IN ('queued', 'running', 'waiting')));
  ELSIF v_run.abort_requested_at IS NOT NULL THEN
    RETURN '{"kind": "abort"}';
  ELSIF v_run.state = 'queued' AND v_chat.paused_at IS NOT NULL THEN
    RETURN '{"kind": "paused"}';
  ELSIF p_fence <= v_run.fence THEN
    RETURN '{"kind": "lost"}';
  END IF;
  UPDATE chat_runs
     SET fence = p_fence, state = 'running', retry = NULL, updated_at = clock_timestamp(),
         -- A claim that comes long after its workflow began the run has waited for a worker: that time is not the run's.
         started_at = coalesce(started_at, greatest(to_timestamp(p_started_at / 1000.0),
                                                    clock_timestamp() - interval '5 seconds'))
   WHERE session_id = p_session AND seq = p_run;
  RETURN NULL;
END $$;

-- What the newest settled step of a run answered, with the run's state as it is now.
CREATE FUNCTION step_receipt(p_run chat_runs) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT p_run.last_step || jsonb_build_object('kind', 'settled', 'state', p_run.state, 'code', p_run.error_code)
$$;

-- Claims a step. Besides claim_run's kinds: settled (its receipt; nothing is claimed), or claimed, with what the step
-- needs but the messages, and the parts that a lost attempt left behind (`text` is what streamed in after a part's last
-- settling).
CREATE FUNCTION claim_step(
  p_session text, p_run integer, p_step integer, p_fence integer[], p_started_at bigint DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_refusal jsonb;
  v_run chat_runs;
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  IF v_run.step = p_step + 1 AND v_run.last_step IS NOT NULL THEN
    RETURN step_receipt(v_run);
  ELSIF v_run.step > p_step THEN
    RETURN '{"kind": "lost"}';
  END IF;
  v_refusal := claim_run(p_session, p_run, p_fence, p_started_at);
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  RETURN (
    SELECT jsonb_build_object(
      'kind', 'claimed', 'user_id', s.user_id, 'project_id', s.project_id, 'agent', c.agent,
      'workspace_root', c.workspace_root, 'model', v_run.model, 'message_id', v_run.message_id,
      'answer_id', v_run.answer_id, 'tokens', v_run.tokens, 'next_index', v_run.settled_parts,
      'started_at', (extract(epoch FROM v_run.started_at) * 1000)::bigint,
      'digest', (SELECT metadata ->> 'system_prompt_digest' FROM chat_messages m
                  WHERE m.session_id = p_session AND m.id = v_run.answer_id),
      'lost', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                 'id', p.id, 'index', p.index, 'type', p.type, 'data', p.data, 'tool_call_id', p.tool_call_id,
                 'tool_state', p.tool_state,
                 'text', (SELECT string_agg(d.text, '' ORDER BY d.start) FROM part_deltas d
                           WHERE d.session_id = p_session AND d.part_id = p.id)) ORDER BY p.index), '[]')
          FROM chat_parts p
         WHERE p.session_id = p_session AND p.message_id = v_run.answer_id AND p.index >= v_run.settled_parts))
      FROM sessions s JOIN chat_sessions c USING (session_id) WHERE s.session_id = p_session);
END $$;

-- The row of an answer appears with its first content: right behind its user message.
CREATE FUNCTION ensure_answer(p_session text, p_run chat_runs, p_metadata jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO chat_messages (id, session_id, position, role, metadata)
  SELECT p_run.answer_id, p_session, position + 1, 'assistant', coalesce(p_metadata, '{}')
    FROM chat_messages WHERE session_id = p_session AND id = p_run.message_id
  ON CONFLICT (session_id, id) DO NOTHING
$$;

-- Parts as { id, index, type, data, tool_call_id?, tool_state?, settled? }. A settled part holds all of its text: its
-- deltas go. No sequential scans in the functions that read part_deltas: it is often empty when it is analyzed, and a
-- plan that is kept from then reads all of it once many answers stream.
CREATE FUNCTION put_parts(p_session text, p_message text, p_parts jsonb) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  INSERT INTO chat_parts (id, message_id, session_id, index, type, data, tool_call_id, tool_state)
  SELECT id, p_message, p_session, index, type, data, tool_call_id, tool_state
    FROM jsonb_to_recordset(p_parts)
      AS part(id text, index integer, type text, data jsonb, tool_call_id text, tool_state text)
  ON CONFLICT (session_id, id) DO UPDATE
    SET type = excluded.type, data = excluded.data, tool_state = excluded.tool_state, updated_at = clock_timestamp();
  DELETE FROM part_deltas
   WHERE session_id = p_session
     AND part_id IN (SELECT part ->> 'id' FROM jsonb_array_elements(p_parts) AS part WHERE (part ->> 'settled')::boolean);
END $$;

-- Lands a batch of an answer: new or changed parts, and text appended to parts as { part_id, start, text }; sent again
-- it lands once. Answers live, abort (it landed, and an abort has been asked for) or lost (nothing landed).
CREATE FUNCTION append_stream(
  p_session text, p_run integer, p_fence integer[], p_metadata jsonb, p_parts jsonb, p_deltas jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
BEGIN
  SELECT * INTO v_run FROM chat_runs
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running' FOR SHARE;
  IF NOT FOUND THEN RETURN 'lost'; END IF;
  IF p_metadata IS NOT NULL THEN
    PERFORM ensure_answer(p_session, v_run, p_metadata);
  END IF;
  IF p_parts <> '[]' THEN
    PERFORM put_parts(p_session, v_run.answer_id, p_parts);
  END IF;
  INSERT INTO part_deltas (session_id, part_id, start, text)
  SELECT p_session, part_id, start, text
    FROM jsonb_to_recordset(p_deltas) AS delta(part_id text, start integer, text text)
  ON CONFLICT DO NOTHING;
  RETURN CASE WHEN v_run.abort_requested_at IS NULL THEN 'live' ELSE 'abort' END;
END $$;

-- Adds two usages { input, output, reasoning, cache_read, cache_write }; what is missing is 0.
CREATE FUNCTION add_usage(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_object_agg(key, coalesce((a ->> key)::bigint, 0) + coalesce((b ->> key)::bigint, 0))
    FROM unnest(ARRAY['input', 'output', 'reasoning', 'cache_read', 'cache_write']) AS key
$$;

-- Ends a run's row: its temp: state goes, with no run at work no tool is in flight, and an error pauses the queue until
-- the next submission.
CREATE FUNCTION end_run(p_session text, p_run integer, p_state text, p_code text, p_message text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_runs
     SET state = p_state, error_code = p_code, error_message = p_message, retry = NULL, temp = NULL, progress = NULL,
         finished_at = clock_timestamp(), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
  IF NOT EXISTS (SELECT FROM chat_runs WHERE session_id = p_session AND state IN ('running', 'waiting')) THEN
    PERFORM write_pending_tool(p_session, NULL);
  END IF;
  IF p_state = 'error' THEN
    UPDATE chat_sessions SET paused_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE session_id = p_session;
  END IF;
END $$;

-- Settles a finished step in one transaction: its parts, the answer's usage, the session's sums, the receipt, and the
-- run's end where `p_receipt` says "end": true. Answers the receipt with kind settled and the run's state, or lost;
-- sent again by the same attempt it counts once. `p_step` is { step, usage, model, finish_reason, cost_usd?, tokens,
-- failure?: { code, message, toolError } }; a failure ends the run as an error.
CREATE FUNCTION settle_step(
  p_session text, p_run integer, p_fence integer[], p_metadata jsonb, p_parts jsonb, p_next_index integer,
  p_step jsonb, p_receipt jsonb
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
  v_step integer := (p_step ->> 'step')::integer;
  v_usage jsonb := add_usage(p_step -> 'usage', NULL);
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run AND fence = p_fence FOR UPDATE;
  IF v_run.step = v_step + 1 THEN
    RETURN step_receipt(v_run);
  ELSIF v_run.state IS DISTINCT FROM 'running' OR v_run.step <> v_step THEN
    RETURN '{"kind": "lost"}';
  END IF;
  PERFORM ensure_answer(p_session, v_run, p_metadata);
  PERFORM put_parts(p_session, v_run.answer_id, p_parts);
  UPDATE chat_messages
     SET metadata = metadata || jsonb_build_object(
           'usage', add_usage(metadata -> 'usage', v_usage),
           'steps', coalesce(metadata -> 'steps', '[]')
                    || (p_step - ARRAY['step', 'tokens', 'failure'] || jsonb_build_object('usage', v_usage))),
         updated_at = clock_timestamp()
   WHERE session_id = p_session AND id = v_run.answer_id;
  UPDATE chat_sessions
     SET prompt_tokens = prompt_tokens + (v_usage ->> 'input')::bigint,
         completion_tokens = completion_tokens + (v_usage ->> 'output')::bigint,
         reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoning')::bigint,
         cache_read = cache_read + (v_usage ->> 'cache_read')::bigint,
         cache_write = cache_write + (v_usage ->> 'cache_write')::bigint,
         total_tokens = total_tokens + (SELECT sum(value::bigint) FROM jsonb_each_text(v_usage)),
         cost_usd = coalesce(cost_usd + (p_step ->> 'cost_usd')::numeric, (p_step ->> 'cost_usd')::numeric, cost_usd),
         updated_at = clock_timestamp()
   WHERE session_id = p_session;
  UPDATE chat_runs
     SET step = v_step + 1, settled_parts = p_next_index, last_step = p_receipt,
         tokens = tokens + (p_step ->> 'tokens')::bigint, updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
  IF p_step ? 'failure' THEN
    PERFORM settle_run(p_session, p_run, p_fence, 'error', p_step #>> '{failure,code}', p_step #>> '{failure,message}',
                       p_step #>> '{failure,toolError}');
  ELSIF (p_receipt ->> 'end')::boolean THEN
    PERFORM end_run(p_session, p_run, CASE WHEN v_run.abort_requested_at IS NULL THEN 'finished' ELSE 'aborted' END,
                    NULL, NULL);
  END IF;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  RETURN step_receipt(v_run);
END $$;

-- Shows that the run waits to try again. `p_retry` is { attempt, reason, at } with `at` in epoch milliseconds.
CREATE FUNCTION note_retry(p_session text, p_run integer, p_fence integer[], p_retry jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_runs SET retry = p_retry, updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running';
  RETURN FOUND;
END $$;

-- Takes the deltas of a message into its parts: no reader sees a difference.
CREATE FUNCTION settle_deltas(p_session text, p_message text) RETURNS void
LANGUAGE sql SET enable_seqscan = off AS $$
  WITH grown AS (
    UPDATE chat_parts p
       SET data = live.data, updated_at = clock_timestamp()
      FROM chat_parts_live live
     WHERE p.session_id = p_session AND p.message_id = p_message
       AND live.session_id = p_session AND live.message_id = p_message AND live.id = p.id
       AND EXISTS (SELECT FROM part_deltas d WHERE d.session_id = p_session AND d.part_id = p.id)
    RETURNING p.id
  )
  DELETE FROM part_deltas WHERE session_id = p_session AND part_id IN (SELECT id FROM grown)
$$;

-- Ends a run that did not end by itself. An abort leaves the parts as the user saw them; an error gives every open tool
-- call an outcome. Where an abort was asked for, an error is the abort. Repeating it answers how the run ended.
-- A fence is given by those who may have been overtaken; a workflow gives none.
CREATE FUNCTION settle_run(
  p_session text, p_run integer, p_fence integer[], p_state text, p_code text, p_message text, p_tool_error text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
  v_state text := p_state;
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run FOR UPDATE;
  IF v_run.seq IS NULL OR v_run.state NOT IN ('queued', 'running', 'waiting') THEN
    RETURN jsonb_build_object('kind', 'ended', 'state', coalesce(v_run.state, 'cancelled'), 'code', v_run.error_code);
  ELSIF p_fence IS NOT NULL AND v_run.fence <> p_fence THEN
    RETURN '{"kind": "lost"}';
  END IF;
  IF v_run.abort_requested_at IS NOT NULL THEN
    v_state := 'aborted';
  END IF;
  PERFORM settle_deltas(p_session, v_run.answer_id);
  IF v_state = 'error' THEN
    UPDATE chat_parts
       SET data = data || jsonb_build_object('state', 'output-error', 'errorText', p_tool_error),
           tool_state = 'output-error', updated_at = clock_timestamp()
     WHERE session_id = p_session AND message_id = v_run.answer_id
       AND tool_state IN ('input-streaming', 'input-available', 'approval-requested', 'approval-responded');
  END IF;
  PERFORM end_run(p_session, p_run, v_state, CASE WHEN v_state = 'error' THEN p_code END,
                  CASE WHEN v_state = 'error' THEN p_message END);
  RETURN jsonb_build_object('kind', 'ended', 'state', v_state, 'code', CASE WHEN v_state = 'error' THEN p_code END);
END $$;

-- What a tool call needs before it may begin: its part, and the session around it. Null: no such call.
CREATE FUNCTION load_tool_call(p_session text, p_run integer, p_call text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'data', p.data, 'tool_state', p.tool_state, 'message_id', p.message_id, 'user_id', s.user_id,
           'project_id', s.project_id, 'phase', s.phase, 'agent', c.agent, 'workspace_root', c.workspace_root,
           'started_at', (extract(epoch FROM r.started_at) * 1000)::bigint,
           'state', (SELECT coalesce(jsonb_agg(jsonb_build_object('scope', scope, 'key', key, 'value', value)), '[]')
                       FROM scoped_state
                      WHERE scope = 'session' AND owner = p_session OR scope = 'user' AND owner = s.user_id
                         OR scope = 'app' AND owner = ''),
           'temp', coalesce(r.temp, '{}'))
    FROM chat_parts p
    JOIN sessions s USING (session_id) JOIN chat_sessions c USING (session_id)
    JOIN chat_runs r ON r.session_id = p.session_id AND r.seq = p_run
   WHERE p.session_id = p_session AND p.tool_call_id = p_call
$$;

-- The state of a tool call of this run's answer; null: the run has no such call.
CREATE FUNCTION call_state(p_session text, p_run integer, p_call text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT p.tool_state
    FROM chat_parts p JOIN chat_runs r ON r.session_id = p.session_id AND r.answer_id = p.message_id
   WHERE p.session_id = p_session AND p.tool_call_id = p_call AND r.seq = p_run
$$;

-- Claims a tool call and commits what precedes its running: pending_tool, and what it raises at the start.
-- `p_raise` is null or { event, at: start | result, project: new | required | null, new_project_id }.
-- Besides claim_run's kinds (lost also where the run has no such call): settled (it has an outcome), again (an earlier
-- attempt began it and left no outcome) and begun, these with phase, project_id and event_seq, and refused { code, ... }
-- (nothing was written but the claim and the log).
CREATE FUNCTION begin_tool(p_session text, p_run integer, p_fence integer[], p_pending jsonb, p_raise jsonb)
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
    RETURN session_mark(p_session) || '{"kind": "again"}';
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

-- Applies a list of { scope: session | user | app | temp, key, value } (no value: the key goes; of several changes of a
-- key the last counts), and keeps all but temp: in the event log. Keys are written in one order in all sessions of a
-- user, or two that write the same ones could wait for each other.
CREATE FUNCTION apply_state(p_session text, p_run integer, p_user text, p_delta jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_change jsonb;
BEGIN
  FOR v_change IN
    SELECT change FROM jsonb_array_elements(p_delta) WITH ORDINALITY AS given(change, n)
     ORDER BY change ->> 'scope', change ->> 'key', n
  LOOP
    IF v_change ->> 'scope' = 'temp' THEN
      UPDATE chat_runs
         SET temp = CASE WHEN v_change ? 'value'
                         THEN coalesce(temp, '{}') || jsonb_build_object(v_change ->> 'key', v_change -> 'value')
                         ELSE temp - (v_change ->> 'key') END
       WHERE session_id = p_session AND seq = p_run;
    ELSIF v_change ? 'value' THEN
      INSERT INTO scoped_state (scope, owner, key, value)
      VALUES (v_change ->> 'scope',
              CASE v_change ->> 'scope' WHEN 'session' THEN p_session WHEN 'user' THEN p_user ELSE '' END,
              v_change ->> 'key', v_change -> 'value')
      ON CONFLICT (scope, owner, key) DO UPDATE SET value = excluded.value, updated_at = clock_timestamp();
    ELSE
      DELETE FROM scoped_state
       WHERE scope = v_change ->> 'scope' AND key = v_change ->> 'key'
         AND owner = CASE v_change ->> 'scope' WHEN 'session' THEN p_session WHEN 'user' THEN p_user ELSE '' END;
    END IF;
  END LOOP;
  IF EXISTS (SELECT FROM jsonb_array_elements(p_delta) AS change WHERE change ->> 'scope' <> 'temp') THEN
    PERFORM append_event(p_session, 'state', 'tool', jsonb_build_object('delta', (
      SELECT jsonb_agg(change) FROM jsonb_array_elements(p_delta) AS change WHERE change ->> 'scope' <> 'temp')), NULL);
  END IF;
END $$;

-- Stores a tool call's outcome, clears pending_tool, and commits what the tool wrote and raises at its result; where
-- that event has become illegal the outcome is the tool error `p_illegal` (its %s is the phase) and what it wrote is
-- dropped, as it is with an outcome that is an error. `p_effects` is { event?, state: [...], todos: [{ name, done }],
-- aside? }. Answers { kind: settled, ok, phase, project_id, event_seq } or { kind: lost }.
CREATE FUNCTION finish_tool(
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
