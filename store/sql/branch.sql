-- Branches: a new session with copies of a conversation up to a message.

-- An id as domain/ids.ts makes them: `p_n` counts the ids of one statement.
CREATE OR REPLACE FUNCTION made_id(p_kind text, p_n bigint) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT p_kind || '_'
    || lpad(to_hex(floor(extract(epoch FROM now() - timestamptz '2026-01-01Z') * 1000)::bigint * 64 + p_n), 12, '0')
    || left(translate(encode(uuid_send(gen_random_uuid()), 'base64'), '+/', 'Zz'), 14)
$$;

-- The messages of a conversation as of one of its messages: what is visible up to it, or would be after a rewind to it. Postgres
-- inlines it (it has no settings of its own), so that its callers read only the positions that they need.
CREATE OR REPLACE FUNCTION messages_as_of(p_session text, p_position bigint) RETURNS SETOF chat_messages
LANGUAGE sql STABLE AS $$
  SELECT m.*
    FROM chat_messages m
   WHERE m.session_id = p_session AND m.position <= p_position
     AND (m.hidden_at IS NULL OR m.metadata #>> '{hidden_by,cause}' = 'compaction' AND EXISTS (
           SELECT FROM chat_messages c
            WHERE c.session_id = m.session_id AND c.id = m.metadata #>> '{hidden_by,id}' AND c.position > p_position))
$$;

-- Whether the messages between two positions can be copied in much less time than a statement has: with their parts they are at most
-- 50,000, and have at most 64 MiB as they are stored, with the full outputs of their tools. It reads no more rows than that.
CREATE OR REPLACE FUNCTION fits_a_branch(p_session text, p_from bigint, p_to bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_ids text[];
  v_count integer;
  v_bytes bigint;
BEGIN
  SELECT array_agg(id), sum(pg_column_size(metadata)) INTO v_ids, v_bytes
    FROM (SELECT id, metadata FROM messages_as_of(p_session, p_to) WHERE position >= p_from LIMIT 50001) AS m;
  WITH parts AS MATERIALIZED (
    SELECT tool_call_id, pg_column_size(data) AS bytes
      FROM chat_parts WHERE session_id = p_session AND message_id = ANY (v_ids) LIMIT 50001 - cardinality(v_ids)
  )
  SELECT cardinality(v_ids) + count(*), v_bytes + coalesce(sum(bytes), 0) + coalesce((
           SELECT sum(pg_column_size(output)) FROM tool_outputs
            WHERE session_id = p_session AND tool_call_id IN (SELECT tool_call_id FROM parts)), 0)
    INTO v_count, v_bytes
    FROM parts;
  RETURN v_count <= 50000 AND v_bytes <= 64 * 1024 * 1024;
END $$;

-- The position of the first of the last `p_turns` user messages up to a position; 0: there are fewer. Read through the index, from
-- its end: without statistics, Postgres would read and sort the whole conversation.
CREATE OR REPLACE FUNCTION tail_position(p_session text, p_position bigint, p_turns bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
  RETURN (
    SELECT CASE WHEN count(*) < p_turns THEN 0 ELSE min(position) END
      FROM (SELECT position FROM messages_as_of(p_session, p_position) WHERE role = 'user'
             ORDER BY position DESC LIMIT p_turns) AS tail);
END $$;

-- Copies messages between two positions, with their parts, runs, prompts, attachments and full tool outputs, under new ids. Positions and
-- times stay, and so do parts, except for the ids of other messages in them: of a summary that of the first message after it, or its
-- own if that is not copied, of refused files those of their messages.
--
-- New ids are looked up in a jsonb object, and the plan is made for these ids: a join, planned before Postgres knows their number,
-- may compare each message with each.
CREATE OR REPLACE FUNCTION copy_messages(p_session text, p_from bigint, p_to bigint, p_copy text) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_new jsonb := (
    SELECT jsonb_object_agg(id, made_id('msg', n))
      FROM (SELECT id, row_number() OVER (ORDER BY position) AS n
              FROM messages_as_of(p_session, p_to) WHERE position >= p_from) AS m);
  v_ids text[] := ARRAY(SELECT jsonb_object_keys(v_new));
BEGIN
  WITH messages AS (
    INSERT INTO chat_messages (id, session_id, position, role, metadata, created_at, updated_at)
    SELECT v_new ->> id, p_copy, position, role, metadata - 'hidden_by' - 'snapshot_id', created_at, updated_at
      FROM chat_messages WHERE session_id = p_session AND id = ANY (v_ids)
    RETURNING metadata
  ), parts AS (
    INSERT INTO chat_parts (id, message_id, session_id, index, type, data, tool_call_id, tool_state, created_at, updated_at)
    SELECT made_id('prt', row_number() OVER (ORDER BY v_new ->> p.message_id COLLATE "C", p.index)), v_new ->> p.message_id, p_copy,
           p.index, p.type,
           CASE WHEN p.type = 'data-refused' THEN jsonb_set(p.data, '{data,messages}', (
                  SELECT coalesce(jsonb_agg(v_new -> id ORDER BY v_new ->> id COLLATE "C"), '[]')
                    FROM jsonb_array_elements_text(p.data #> '{data,messages}') AS refused(id) WHERE v_new ? id))
                WHEN p.type = 'data-compaction' THEN jsonb_set(p.data, '{data,tail_start_id}', coalesce(
                  v_new -> (p.data #>> '{data,tail_start_id}'), v_new -> p.message_id))
                ELSE p.data END,
           p.tool_call_id, p.tool_state, p.created_at, p.updated_at
      FROM chat_parts p WHERE p.session_id = p_session AND p.message_id = ANY (v_ids)
    RETURNING tool_call_id
  ), runs AS (
    INSERT INTO chat_runs (session_id, seq, message_id, answer_id, model, variant, state, step, settled_parts, tokens, error_code,
                           error_message, created_at, started_at, finished_at, attributes)
    SELECT p_copy, row_number() OVER (ORDER BY seq), v_new ->> message_id,
           coalesce(v_new ->> answer_id, made_id('msg', 1000000 + seq)), model, variant, state,
           -- Without its answer it has neither steps nor their tokens.
           CASE WHEN v_new ? answer_id THEN step ELSE 0 END, CASE WHEN v_new ? answer_id THEN settled_parts ELSE 0 END,
           CASE WHEN v_new ? answer_id THEN tokens ELSE 0 END, error_code, error_message, created_at, started_at, finished_at,
           attributes
      FROM unnest(v_ids) AS copied(id)
      -- For each message (OFFSET): by one condition for all, Postgres may read all runs of the session.
     CROSS JOIN LATERAL (SELECT * FROM chat_runs WHERE session_id = p_session AND message_id = copied.id OFFSET 0) AS r
     -- Not those by hand, whose message is the summary itself.
     WHERE kind = 'turn' AND (v_new ? answer_id OR state IN ('aborted', 'error'))
  ), prompts AS (
    INSERT INTO system_prompts (session_id, digest, sections, created_at)
    SELECT p_copy, digest, sections, created_at FROM system_prompts
     WHERE session_id = p_session
       AND encode(digest, 'hex') IN (SELECT metadata ->> 'system_prompt_digest' FROM messages)
  )
  INSERT INTO tool_outputs (session_id, tool_call_id, output, created_at)
  SELECT p_copy, tool_call_id, output, created_at FROM tool_outputs
   WHERE session_id = p_session AND tool_call_id IN (SELECT tool_call_id FROM parts WHERE tool_call_id IS NOT NULL);
  PERFORM copy_attachments(p_session, p_copy);
  RETURN cardinality(v_ids);
END $$;

-- Sums of the usage and cost of a session's answers, as settle_step counts them.
CREATE OR REPLACE FUNCTION sum_usage(p_session text) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_sessions c
     SET prompt_tokens = s.input, completion_tokens = s.output, reasoning_tokens = s.reasoning, cache_read = s.cache_read,
         cache_write = s.cache_write, total_tokens = s.input + s.output + s.reasoning + s.cache_read + s.cache_write,
         cost_usd = s.cost
    FROM (
      SELECT coalesce(sum((metadata #>> '{usage,input}')::bigint), 0) AS input,
             coalesce(sum((metadata #>> '{usage,output}')::bigint), 0) AS output,
             coalesce(sum((metadata #>> '{usage,reasoning}')::bigint), 0) AS reasoning,
             coalesce(sum((metadata #>> '{usage,cache_read}')::bigint), 0) AS cache_read,
             coalesce(sum((metadata #>> '{usage,cache_write}')::bigint), 0) AS cache_write,
             sum((SELECT sum((call ->> 'cost_usd')::numeric)
                    FROM jsonb_array_elements(coalesce(metadata -> 'steps', '[]')
                                              || coalesce(metadata -> 'discarded', '[]')) AS call)) AS cost
        FROM chat_messages WHERE session_id = p_session AND role = 'assistant') AS s
   WHERE c.session_id = p_session
$$;

-- Copies a session's own state, as the initial state of the copy.
CREATE OR REPLACE FUNCTION copy_state(p_chat chat_sessions, p_user text, p_copy text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_changes jsonb := (
    SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('scope', 'session', 'key', key, 'bytes', bytes))
                     || jsonb_build_object('value', value))
      FROM scoped_state WHERE app = p_chat.app AND scope = 'session' AND owner = p_chat.session_id);
  v_done jsonb;
BEGIN
  IF v_changes IS NULL THEN RETURN; END IF;
  v_done := change_states(p_chat.app, p_copy, p_user, v_changes);
  PERFORM log_state(p_copy, 'user', jsonb_build_object(
    'id', 'branch', 'invocationId', '', 'author', 'user', 'timestamp', extract(epoch FROM clock_timestamp()),
    'actions', jsonb_build_object('stateDelta', v_done -> 'set', 'stateDeletions', v_done -> 'deleted')),
    v_done, '{"initial": true}', NULL);
END $$;

-- p_args: { from_message_id, from_start_message_id?, tail_turns?, model? }. The metadata is in the event log, under
-- "<command id>/metadata". Refused in a child, and while a run is open, like a rewind. The copy begins at the start of the
-- conversation, at `from_start_message_id`, or with the last `tail_turns` user messages. A session may have more metadata than is
-- accepted, by its title: that is no reason against a branch.
CREATE OR REPLACE FUNCTION cmd_branch(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_chat chat_sessions;
  v_session sessions;
  v_copy text := made_id('ses', 0);
  v_target chat_messages;
  v_refusal jsonb;
  v_from bigint := 0;
  v_metadata jsonb;
BEGIN
  SELECT * INTO v_chat FROM chat_sessions WHERE session_id = p_session;
  SELECT * INTO v_session FROM sessions WHERE session_id = p_session;
  SELECT * INTO v_target FROM chat_messages WHERE session_id = p_session AND id = p_args ->> 'from_message_id';
  v_refusal := coalesce(child_session(p_session), out_of_sight(v_target));
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  IF has_open_run(p_session) THEN
    RETURN '{"code": "RunInFlight"}';
  ELSIF p_args ->> 'tail_turns' IS NOT NULL AND p_args ->> 'from_start_message_id' IS NOT NULL THEN
    RETURN '{"code": "InvalidRange"}';
  ELSIF p_args ->> 'from_start_message_id' IS NOT NULL THEN
    SELECT position INTO v_from FROM messages_as_of(p_session, v_target.position)
     WHERE id = p_args ->> 'from_start_message_id';
    IF NOT FOUND THEN RETURN '{"code": "InvalidRange"}'; END IF;
  ELSIF p_args ->> 'tail_turns' IS NOT NULL THEN
    v_from := tail_position(p_session, v_target.position, (p_args ->> 'tail_turns')::bigint);
  END IF;
  SELECT v_chat.metadata || coalesce(data -> 'metadata', '{}') INTO v_metadata
    FROM (SELECT p_command_id || '/metadata' AS id) AS given
    LEFT JOIN session_events e ON e.session_id = p_session AND e.command_id = given.id;
  IF octet_length(v_metadata::text) > greatest(16384, octet_length(v_chat.metadata::text)) THEN
    RETURN '{"code": "TooLarge", "field": "metadata"}';
  ELSIF NOT fits_a_branch(p_session, v_from, v_target.position) THEN
    RETURN '{"code": "TooLarge"}';
  END IF;
  PERFORM open_session(v_copy, v_session.user_id, v_chat.agent, v_chat.workspace_root,
                       coalesce(p_args ->> 'model', v_chat.model), v_metadata, v_session.project_id, v_chat.headless);
  UPDATE chat_sessions SET parent_id = p_session, parent_message_id = v_target.id, app = v_chat.app WHERE session_id = v_copy;
  PERFORM copy_messages(p_session, v_from, v_target.position, v_copy);
  PERFORM queue_search(v_copy, 0, v_target.position);
  PERFORM sum_usage(v_copy);
  PERFORM recount_window(v_copy);
  PERFORM copy_state(v_chat, v_session.user_id, v_copy);
  RETURN jsonb_build_object('kind', 'branch', 'outcome', jsonb_build_object('session_id', v_copy),
    'data', jsonb_build_object('message_id', v_target.id, 'session_id', v_copy));
END $$;

-- Stores the metadata of a branch, as log_content does, whose null is returned; else whether there is any.
CREATE OR REPLACE FUNCTION log_metadata(p_session text, p_metadata jsonb, p_command_id text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT log_content(p_session, 'metadata', 'user',
    CASE WHEN p_metadata IS NOT NULL THEN jsonb_build_object('metadata', p_metadata) END, p_command_id) > 0
$$;
