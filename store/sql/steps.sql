-- Model steps: claiming, streaming and settling them.

-- The recorded result of a run's newest settled step, with the run's current state; running if it waits: a tool call that
-- follows the step has come to that, and the workflow hears it from the call.
CREATE OR REPLACE FUNCTION step_outcome(p_run chat_runs) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT p_run.last_step || jsonb_build_object(
    'kind', 'settled', 'state', CASE p_run.state WHEN 'waiting' THEN 'running' ELSE p_run.state END,
    'code', p_run.error_code)
$$;

-- What the model sees of a conversation: the parts { id, role, aborted, data } of the visible messages of turns up to the one
-- whose message is at `p_position`, and of its answer those that earlier steps settled, in order. Messages queued after it are
-- left out, and so is what the model sees a note of, or nothing: pruned outputs are null, data for readers has only its type.
-- One row per part, and aborted runs are read once: with any statistics, Postgres chooses a plan whose cost is linear in the
-- length of the conversation. Pruned calls are looked up in a jsonb object for the same reason.
--
-- Null: they have more than 32 MiB, and one that is much longer could not be returned before the statement times out; with
-- `p_beginning` as many of the oldest as have no more, and all prunes. What the table stores is compressed, at most a hundred to
-- one, so the parts are measured only if that is not small.
CREATE OR REPLACE FUNCTION model_view(
  p_session text, p_position bigint, p_answer text, p_settled_parts integer, p_beginning boolean DEFAULT false
) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH seen AS MATERIALIZED (
    SELECT m.id, m.role, m.position, p.index, p.type, p.tool_call_id, p.data, pg_column_size(p.data) AS stored
      FROM chat_messages m
      -- OFFSET 0: message by message, or else the parts of all hidden messages are read, too.
      JOIN LATERAL (SELECT * FROM chat_parts
                     WHERE session_id = m.session_id AND message_id = m.id AND (m.id <> p_answer OR index < p_settled_parts)
                    OFFSET 0) AS p ON true
     WHERE m.session_id = p_session
       AND m.hidden_at IS NULL
       AND m.position < p_position + 1000
  ), pruned AS MATERIALIZED (
    SELECT coalesce(jsonb_object_agg(output ->> 'tool_call_id', true), '{}') AS calls
      FROM seen CROSS JOIN LATERAL jsonb_array_elements(data #> '{data,outputs}') AS output
     WHERE type = 'data-prune'
  ), shown AS MATERIALIZED (
    SELECT id, role, position, index, type,
           CASE WHEN (SELECT calls FROM pruned) ? tool_call_id AND data ->> 'state' = 'output-available'
                THEN jsonb_set(data, '{output}', 'null')
                WHEN type LIKE 'data-%' AND type NOT IN ('data-compaction', 'data-prune', 'data-refused', 'data-interrupted')
                THEN jsonb_build_object('type', type)
                ELSE data END AS data
      FROM seen
  ), measured AS MATERIALIZED (
    SELECT *, sum(CASE WHEN (SELECT coalesce(sum(stored), 0) * 100 <= 32 * 1024 * 1024 FROM seen) THEN 0
                       ELSE octet_length(data::text) END) OVER (ORDER BY position, index) AS bytes
      FROM shown
  )
  SELECT CASE WHEN p_beginning OR (SELECT coalesce(max(bytes), 0) <= 32 * 1024 * 1024 FROM measured)
         THEN (
           SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'role', role, 'data', data, 'aborted', id = ANY (
                    ARRAY(SELECT answer_id FROM chat_runs WHERE session_id = p_session AND state = 'aborted')))
                  ORDER BY position, index), '[]')
             FROM measured WHERE bytes <= 32 * 1024 * 1024 OR type = 'data-prune')
         END
$$;

-- Claims a step. Returns claim_run's kinds, or settled (the recorded result; nothing is claimed), or claimed with what the
-- step needs besides the view. `lost` are parts that a lost attempt left; their `text` is in no settled part yet.
CREATE OR REPLACE FUNCTION claim_without_view(
  p_session text, p_run integer, p_step integer, p_fence integer[], p_started_at bigint DEFAULT NULL,
  p_worker uuid DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_refusal jsonb;
  v_run chat_runs;
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  IF v_run.step = p_step + 1 AND v_run.last_step IS NOT NULL THEN
    RETURN step_outcome(v_run);
  ELSIF v_run.step > p_step AND v_run.state IN ('finished', 'aborted', 'error', 'cancelled') THEN
    RETURN jsonb_build_object('kind', 'ended', 'state', v_run.state, 'code', v_run.error_code);
  ELSIF v_run.step > p_step THEN
    RETURN jsonb_build_object('kind', CASE WHEN has_head_start(v_run) THEN 'underway' ELSE 'lost' END);
  END IF;
  v_refusal := claim_run(p_session, p_run, p_fence, p_started_at, p_worker);
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  RETURN (
    SELECT jsonb_build_object(
      'kind', 'claimed', 'user_id', s.user_id, 'project_id', s.project_id, 'agent', c.agent,
      'workspace_root', c.workspace_root, 'model', v_run.model, 'variant', v_run.variant, 'message_id', v_run.message_id,
      'answer_id', v_run.answer_id, 'tokens', turn_tokens(p_session, p_run),
      'tokens_left', CASE WHEN c.depth > 0 THEN tokens_left(p_session) END, 'next_index', v_run.settled_parts,
      'elapsed_ms', run_elapsed_ms(v_run),
      'metadata', c.metadata, 'attributes', v_run.attributes,
      'run_kind', v_run.kind, 'compaction', v_run.compaction ->> 'state',
      'restoring', c.restore IS NOT NULL,
      'digest', coalesce(v_run.prompt_digest, (
        SELECT metadata ->> 'system_prompt_digest' FROM chat_messages m
         WHERE m.session_id = p_session AND m.id = v_run.answer_id)),
      'evaluated', v_run.prompt_digest IS NOT NULL,
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

-- The same with `view`, what the model sees; null: it is too long.
--
-- The commit does not wait for the disk, because the first words would wait with it. If a crash of Postgres undoes the claim,
-- the attempt is refused at its next write, and the step starts again. Its first write makes the claim durable, too.
CREATE OR REPLACE FUNCTION claim_step(
  p_session text, p_run integer, p_step integer, p_fence integer[], p_started_at bigint DEFAULT NULL,
  p_worker uuid DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_claimed jsonb;
  v_chat chat_sessions;
  v_position bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  v_claimed := claim_without_view(p_session, p_run, p_step, p_fence, p_started_at, p_worker);
  IF v_claimed ->> 'kind' <> 'claimed' THEN RETURN v_claimed; END IF;
  -- A run by hand, or the compaction before this step is over.
  IF v_claimed ->> 'run_kind' <> 'turn' THEN
    IF coalesce(v_claimed ->> 'compaction', 'running') = 'running' THEN
      PERFORM note_compaction(p_session, p_run, p_fence, '{"state": "running"}');
    END IF;
    RETURN jsonb_build_object('kind', 'compact', 'reason', v_claimed ->> 'run_kind');
  ELSIF v_claimed ->> 'compaction' = 'running' THEN
    UPDATE chat_runs SET compaction = NULL WHERE session_id = p_session AND seq = p_run;
  END IF;
  SELECT * INTO v_chat FROM chat_sessions WHERE session_id = p_session;
  SELECT position INTO v_position FROM chat_messages WHERE session_id = p_session AND id = v_claimed ->> 'message_id';
  RETURN v_claimed || jsonb_build_object(
    'reported', last_reported(v_chat, v_position),
    'view', model_view(p_session, v_position, v_claimed ->> 'answer_id', (v_claimed ->> 'next_index')::integer));
END $$;

-- The position of the next answer to the user message at a position: after the earlier answers, before the next user message.
-- The last of them stays free for a summary. Null: there were 998 answers.
CREATE OR REPLACE FUNCTION answer_position(p_session text, p_position bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN max(position) < p_position + 998 THEN max(position) + 1 END
    FROM chat_messages WHERE session_id = p_session AND position BETWEEN p_position AND p_position + 999
$$;

-- Inserts an answer's row after its user message, with the answer's first content. ON CONFLICT names no index, because
-- concurrent inserts of one answer may conflict in either unique index.
CREATE OR REPLACE FUNCTION ensure_answer(p_session text, p_run chat_runs, p_metadata jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO chat_messages (id, session_id, position, role, metadata)
  SELECT p_run.answer_id, p_session, answer_position(p_session, position), 'assistant', coalesce(p_metadata, '{}')
    FROM chat_messages
   WHERE session_id = p_session AND id = p_run.message_id
     AND NOT EXISTS (SELECT FROM chat_messages WHERE session_id = p_session AND id = p_run.answer_id)
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

-- Stores batches of several answers, each under its run's fence. The first five arrays have an element for each batch;
-- its metadata is null except with an answer's first content, its parts if there are none. The last four have an element
-- for each text that is appended to a part: p_batches is the number of its batch, from 1. Idempotent.
-- Returns for each batch live, abort (stored, and an abort was requested), or null: not stored, because the run is locked or
-- another attempt has it. It waits for no run, so that a locked one does not delay the others.
CREATE OR REPLACE FUNCTION append_streams(
  p_sessions text[], p_runs integer[], p_fences text[], p_metadata jsonb[], p_parts jsonb[],
  p_batches integer[], p_part_ids text[], p_starts integer[], p_texts text[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_states text[];
  v_n integer;
  v_run chat_runs;
BEGIN
  -- The locking subquery reads the runs by their key, in the order of the batches, whatever the planner knows of the table.
  v_states := ARRAY(
    SELECT locked.state
      FROM ROWS FROM (unnest(p_sessions), unnest(p_runs), unnest(p_fences)) WITH ORDINALITY
           AS batch(session_id, seq, fence, n)
      LEFT JOIN LATERAL (
        SELECT CASE WHEN r.abort_requested_at IS NULL THEN 'live' ELSE 'abort' END AS state
          FROM chat_runs r
         WHERE r.session_id = batch.session_id AND r.seq = batch.seq AND r.fence = batch.fence::integer[]
           AND r.state = 'running'
           FOR SHARE SKIP LOCKED) AS locked ON true
     ORDER BY n);
  FOR v_n IN
    SELECT n FROM ROWS FROM (unnest(v_states), unnest(p_metadata), unnest(p_parts)) WITH ORDINALITY
                  AS batch(state, metadata, parts, n)
     WHERE state IS NOT NULL AND (metadata IS NOT NULL OR parts IS NOT NULL)
  LOOP
    SELECT * INTO v_run FROM chat_runs WHERE session_id = p_sessions[v_n] AND seq = p_runs[v_n];
    IF p_metadata[v_n] IS NOT NULL THEN
      PERFORM ensure_answer(v_run.session_id, v_run, p_metadata[v_n]);
    END IF;
    IF p_parts[v_n] IS NOT NULL THEN
      PERFORM put_parts(v_run.session_id, v_run.answer_id, p_parts[v_n]);
    END IF;
  END LOOP;
  INSERT INTO part_deltas (session_id, part_id, start, text)
  SELECT p_sessions[batch], part_id, start, text
    FROM ROWS FROM (unnest(p_batches), unnest(p_part_ids), unnest(p_starts), unnest(p_texts))
         AS delta(batch, part_id, start, text)
   WHERE v_states[batch] IS NOT NULL
  ON CONFLICT DO NOTHING;
  RETURN v_states;
END $$;

-- Stores one batch, as append_streams, and waits for the run if it is locked. Text is { part_id, start, text }.
-- Returns live, abort (stored, and an abort was requested) or lost (not stored).
CREATE OR REPLACE FUNCTION append_stream(
  p_session text, p_run integer, p_fence integer[], p_metadata jsonb, p_parts jsonb, p_deltas jsonb
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM chat_runs WHERE session_id = p_session AND seq = p_run FOR SHARE;
  RETURN coalesce((
    SELECT append_streams(
             ARRAY[p_session], ARRAY[p_run], ARRAY[p_fence::text], ARRAY[p_metadata], ARRAY[nullif(p_parts, '[]')],
             array_agg(1), array_agg(part_id), array_agg(start), array_agg(text))
      FROM jsonb_to_recordset(p_deltas) AS delta(part_id text, start integer, text text))[1], 'lost');
END $$;

-- Adds two usages { input, output, reasoning, cache_read, cache_write }; missing members are 0.
CREATE OR REPLACE FUNCTION add_usage(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_object_agg(key, coalesce((a ->> key)::bigint, 0) + coalesce((b ->> key)::bigint, 0))
    FROM unnest(ARRAY['input', 'output', 'reasoning', 'cache_read', 'cache_write']) AS key
$$;

-- Adds an answer's usage, with all five members, and its cost to the session's sums.
CREATE OR REPLACE FUNCTION add_to_sums(p_session text, p_usage jsonb, p_cost numeric) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_sessions
     SET prompt_tokens = prompt_tokens + (p_usage ->> 'input')::bigint,
         completion_tokens = completion_tokens + (p_usage ->> 'output')::bigint,
         reasoning_tokens = reasoning_tokens + (p_usage ->> 'reasoning')::bigint,
         cache_read = cache_read + (p_usage ->> 'cache_read')::bigint,
         cache_write = cache_write + (p_usage ->> 'cache_write')::bigint,
         total_tokens = total_tokens + (SELECT sum(value::bigint) FROM jsonb_each_text(p_usage)),
         cost_usd = coalesce(cost_usd + p_cost, p_cost, cost_usd),
         updated_at = clock_timestamp()
   WHERE session_id = p_session
$$;

-- Counts an answer that was whole and is no step, because its finish reason is a failure: `p_spent` is { usage, model,
-- finish_reason, cost_usd? }.
CREATE OR REPLACE FUNCTION count_discarded(p_session text, p_run integer, p_spent jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_usage jsonb := add_usage(p_spent -> 'usage', NULL);
BEGIN
  UPDATE chat_messages
     SET metadata = metadata || jsonb_build_object(
           'usage', add_usage(metadata -> 'usage', v_usage),
           'discarded', coalesce(metadata -> 'discarded', '[]') || (p_spent || jsonb_build_object('usage', v_usage))),
         updated_at = clock_timestamp()
   WHERE session_id = p_session
     AND id = (SELECT answer_id FROM chat_runs WHERE session_id = p_session AND seq = p_run);
  -- The sums are those of the messages.
  IF NOT FOUND THEN RETURN; END IF;
  PERFORM add_to_sums(p_session, v_usage, (p_spent ->> 'cost_usd')::numeric);
  UPDATE chat_runs
     SET tokens = tokens + (SELECT sum(value::bigint) FROM jsonb_each_text(v_usage - 'cache_read')),
         updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
END $$;

-- Notes who did a step or a tool call: `p_work` is { worker, attempt, ms, first_ms? }, or null from workers that do not say.
CREATE OR REPLACE FUNCTION note_work(
  p_session text, p_run integer, p_step integer, p_call text, p_fence integer[], p_work jsonb
) RETURNS void LANGUAGE sql AS $$
  INSERT INTO work_log (session_id, run_seq, step, tool_call_id, worker, fence, attempt, ms, first_ms)
  SELECT p_session, p_run, p_step, p_call, worker, p_fence, attempt, ms, first_ms
    FROM jsonb_to_record(p_work) AS work(worker uuid, attempt integer, ms integer, first_ms integer)
   WHERE p_work IS NOT NULL
  ON CONFLICT DO NOTHING
$$;

-- Settles a finished step: its parts, the answer's usage, the session's sums, the idempotency record `p_outcome`, and the
-- end of the run if that has "end": true. Returns step_outcome() with the `children` that ended with the run, if any, or lost; a
-- repeat by the same attempt changes nothing.
-- `p_step` is { step, usage, model, finish_reason, cost_usd?, tokens, work?, failure?: { code, message, toolError } }; a failure
-- ends the run as an error; for `work` see note_work().
CREATE OR REPLACE FUNCTION settle_step(
  p_session text, p_run integer, p_fence integer[], p_metadata jsonb, p_parts jsonb, p_next_index integer,
  p_step jsonb, p_outcome jsonb
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
  v_step integer := (p_step ->> 'step')::integer;
  v_usage jsonb := add_usage(p_step -> 'usage', NULL);
  v_children jsonb := '[]';
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
                    || (p_step - ARRAY['step', 'tokens', 'work', 'failure'] || jsonb_build_object('usage', v_usage))),
         updated_at = clock_timestamp()
   WHERE session_id = p_session AND id = v_run.answer_id;
  PERFORM add_to_sums(p_session, v_usage, (p_step ->> 'cost_usd')::numeric);
  PERFORM note_work(p_session, p_run, v_step, '', p_fence, p_step -> 'work');
  UPDATE chat_runs run
     SET head_start_at = head_start_over(run), step = v_step + 1, settled_parts = p_next_index, last_step = p_outcome,
         tokens = tokens + (p_step ->> 'tokens')::bigint, updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
  IF p_step ? 'failure' THEN
    v_children := coalesce(settle_run(
      p_session, p_run, p_fence, 'error', p_step #>> '{failure,code}', p_step #>> '{failure,message}',
      p_step #>> '{failure,toolError}') -> 'children', '[]');
  ELSIF (p_outcome ->> 'end')::boolean THEN
    v_children := close_run(
      p_session, p_run, CASE WHEN v_run.abort_requested_at IS NULL THEN 'finished' ELSE 'aborted' END, NULL, NULL);
  END IF;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  RETURN step_outcome(v_run) || ended_with(v_children);
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
