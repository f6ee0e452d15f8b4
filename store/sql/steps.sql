-- Model steps: claiming, streaming and settling them.

-- The recorded result of a run's newest settled step, with the run's current state.
CREATE OR REPLACE FUNCTION step_outcome(p_run chat_runs) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT p_run.last_step || jsonb_build_object('kind', 'settled', 'state', p_run.state, 'code', p_run.error_code)
$$;

-- Claims a step. Returns claim_run's kinds, or settled (the recorded result; nothing is claimed), or claimed with all that
-- the step needs except the messages. `lost` are parts that a lost attempt left; their `text` is in no settled part yet.
CREATE OR REPLACE FUNCTION claim_step(
  p_session text, p_run integer, p_step integer, p_fence integer[], p_started_at bigint DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_refusal jsonb;
  v_run chat_runs;
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  IF v_run.step = p_step + 1 AND v_run.last_step IS NOT NULL THEN
    RETURN step_outcome(v_run);
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
      'elapsed_ms', (extract(epoch FROM clock_timestamp() - v_run.started_at) * 1000)::bigint,
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

-- Inserts an answer's row right after its user message, with the answer's first content. ON CONFLICT names no index, because
-- concurrent inserts of one answer may conflict in either unique index.
CREATE OR REPLACE FUNCTION ensure_answer(p_session text, p_run chat_runs, p_metadata jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO chat_messages (id, session_id, position, role, metadata)
  SELECT p_run.answer_id, p_session, position + 1, 'assistant', coalesce(p_metadata, '{}')
    FROM chat_messages WHERE session_id = p_session AND id = p_run.message_id
  ON CONFLICT DO NOTHING
$$;

-- Writes parts { id, index, type, data, tool_call_id?, tool_state?, settled? }. A settled part contains all of its text, so
-- its deltas are deleted. Functions that read part_deltas disable sequential scans: the table is often empty when it is
-- analyzed, and a plan cached then would read all of it once many answers stream.
CREATE OR REPLACE FUNCTION put_parts(p_session text, p_message text, p_parts jsonb) RETURNS void
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

-- Stores a batch of an answer: new or changed parts, and text appended to parts as { part_id, start, text }. Idempotent.
-- Returns live, abort (stored, and an abort was requested) or lost (not stored).
CREATE OR REPLACE FUNCTION append_stream(
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

-- Adds two usages { input, output, reasoning, cache_read, cache_write }; missing members are 0.
CREATE OR REPLACE FUNCTION add_usage(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_object_agg(key, coalesce((a ->> key)::bigint, 0) + coalesce((b ->> key)::bigint, 0))
    FROM unnest(ARRAY['input', 'output', 'reasoning', 'cache_read', 'cache_write']) AS key
$$;

-- Settles a finished step: its parts, the answer's usage, the session's sums, the idempotency record `p_outcome`, and the
-- end of the run if that has "end": true. Returns step_outcome() or lost; a repeat by the same attempt changes nothing.
-- `p_step` is { step, usage, model, finish_reason, cost_usd?, tokens, failure?: { code, message, toolError } }; a failure
-- ends the run as an error.
CREATE OR REPLACE FUNCTION settle_step(
  p_session text, p_run integer, p_fence integer[], p_metadata jsonb, p_parts jsonb, p_next_index integer,
  p_step jsonb, p_outcome jsonb
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
  v_step integer := (p_step ->> 'step')::integer;
  v_usage jsonb := add_usage(p_step -> 'usage', NULL);
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run AND fence = p_fence FOR UPDATE;
  IF v_run.step = v_step + 1 THEN
    RETURN step_outcome(v_run);
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
     SET step = v_step + 1, settled_parts = p_next_index, last_step = p_outcome,
         tokens = tokens + (p_step ->> 'tokens')::bigint, updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
  IF p_step ? 'failure' THEN
    PERFORM settle_run(p_session, p_run, p_fence, 'error', p_step #>> '{failure,code}', p_step #>> '{failure,message}',
                       p_step #>> '{failure,toolError}');
  ELSIF (p_outcome ->> 'end')::boolean THEN
    PERFORM end_run(p_session, p_run, CASE WHEN v_run.abort_requested_at IS NULL THEN 'finished' ELSE 'aborted' END,
                    NULL, NULL);
  END IF;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  RETURN step_outcome(v_run);
END $$;

-- Moves the deltas of a message into its parts; readers see no difference.
CREATE OR REPLACE FUNCTION settle_deltas(p_session text, p_message text) RETURNS void
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
