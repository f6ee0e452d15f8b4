-- Compactions and prunes. A compaction adds a message with a summary before the first message that stays, and hides what is
-- before it; a prune adds a message that names tool outputs. Both messages are assistant messages with one part, and a rewind
-- to before them undoes them.

-- From now on the settled steps do not say how much of the window the conversation fills.
CREATE OR REPLACE FUNCTION recount_window(p_session text) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_sessions
     SET counted_to = (SELECT ARRAY[seq, step] FROM chat_runs
                        WHERE session_id = p_session AND state <> 'queued' ORDER BY seq DESC LIMIT 1),
         counted_tokens = NULL
   WHERE session_id = p_session
$$;

-- The newest settled step among the newest 1,000 messages that the model sees in a turn whose message is at a position: { message_id, steps, model, tokens,
-- is_current }, with the number of steps that its answer had then, and the tokens that its provider counted. `is_current` is
-- false if the conversation has changed before it since then, or 1,000 runs have begun since. Null: no step was settled.
CREATE OR REPLACE FUNCTION last_reported(p_chat chat_sessions, p_position bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'message_id', m.id, 'steps', m.steps, 'model', m.metadata #>> '{steps,-1,model}',
           'tokens', (SELECT coalesce(sum(value::numeric), 0) FROM jsonb_each_text(m.metadata #> '{steps,-1,usage}')),
           'is_current', coalesce((
              SELECT p_chat.counted_to IS NULL OR p_chat.counted_to < ARRAY[r.seq, m.steps]
                FROM (SELECT seq, answer_id FROM chat_runs
                       WHERE session_id = p_chat.session_id ORDER BY seq DESC LIMIT 1000) AS r
               WHERE r.answer_id = m.id ORDER BY r.seq DESC LIMIT 1), false))
    FROM (SELECT id, metadata, jsonb_array_length(metadata -> 'steps') AS steps
            FROM (SELECT * FROM chat_messages
                   WHERE session_id = p_chat.session_id AND position < p_position + 1000 AND hidden_at IS NULL
                   ORDER BY position DESC LIMIT 1000) AS newest
           WHERE role = 'assistant' AND metadata ? 'steps' AND NOT metadata ? 'compaction'
             -- An import may have steps without a model.
             AND jsonb_typeof(metadata #> '{steps,-1,model}') = 'string'
           ORDER BY position DESC LIMIT 1) AS m
$$;

-- How full the window is, as readers get it: { model, tokens } of the newest settled step, or with the tokens that were counted since
-- the conversation has changed before it; `tokens` is null if they were not, or its provider has reported none. Null: there is neither.
CREATE OR REPLACE FUNCTION window_in_use(p_chat chat_sessions) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN (last ->> 'is_current')::boolean
              THEN jsonb_build_object('model', last -> 'model', 'tokens', nullif(last -> 'tokens', '0'))
              WHEN last IS NOT NULL OR p_chat.counted_tokens IS NOT NULL
              THEN jsonb_build_object('model', last -> 'model', 'tokens', p_chat.counted_tokens) END
    FROM last_reported(p_chat, (SELECT coalesce(max(position), 0) FROM chat_messages WHERE session_id = p_chat.session_id)) AS last
$$;

-- What the model sees of a conversation whose window no step has reported: { sections, view, event_seq } with the newest system prompt
-- (null: none yet) and a model_view. Null: a step has, or the view has more than 32 MiB.
CREATE OR REPLACE FUNCTION window_to_count(p_session text) RETURNS jsonb LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
  v_chat chat_sessions;
  v_newest bigint := (SELECT max(position) FROM chat_messages WHERE session_id = p_session AND hidden_at IS NULL);
  v_view jsonb;
BEGIN
  SELECT * INTO v_chat FROM chat_sessions WHERE session_id = p_session;
  IF v_newest IS NULL OR v_chat.counted_to IS NULL OR window_in_use(v_chat) ->> 'tokens' IS NOT NULL THEN RETURN NULL; END IF;
  v_view := model_view(p_session, v_newest, '', 0);
  IF v_view IS NULL THEN RETURN NULL; END IF;
  RETURN jsonb_build_object('view', v_view, 'event_seq', session_mark(p_session) -> 'event_seq', 'sections', (
    SELECT jsonb_agg(s.body ORDER BY n)
      FROM (SELECT metadata ->> 'system_prompt_digest' AS digest FROM chat_messages
             WHERE session_id = p_session AND metadata ? 'system_prompt_digest' ORDER BY position DESC LIMIT 1) AS newest
      JOIN system_prompts p ON p.session_id = p_session AND encode(p.digest, 'hex') = newest.digest
     CROSS JOIN LATERAL unnest(p.sections) WITH ORDINALITY AS listed(digest, n)
      JOIN prompt_sections s ON s.digest = listed.digest));
END $$;

-- Keeps what was counted, unless an event was appended since `p_event_seq`.
CREATE OR REPLACE FUNCTION keep_count(p_session text, p_event_seq bigint, p_tokens integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_session(p_session);
  UPDATE chat_sessions SET counted_tokens = p_tokens
   WHERE session_id = p_session AND (session_mark(p_session) ->> 'event_seq')::bigint = p_event_seq;
END $$;

-- The position of the newest turn of a conversation that a run by hand changes: messages that were queued after it are not part
-- of it yet, and their turns have to see them.
CREATE OR REPLACE FUNCTION newest_turn_before(p_session text, p_run integer) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT position / 1000 * 1000
    FROM chat_messages
   WHERE session_id = p_session AND hidden_at IS NULL
     AND position < coalesce((
       SELECT min(m.position)
         FROM chat_runs r JOIN chat_messages m ON m.session_id = r.session_id AND m.id = r.message_id
        WHERE r.session_id = p_session AND r.seq > p_run AND r.state IN ('queued', 'running', 'waiting')), 9e18::bigint)
   ORDER BY position DESC LIMIT 1
$$;

-- Claims a run to compact or prune its conversation. Returns claim_run's kinds; compacted with the recorded result and its
-- warning (a repeat); or claimed. A run by hand has the conversation before the queue in its view, or its beginning (model_view),
-- and no `message_id`.
CREATE OR REPLACE FUNCTION claim_compaction(p_session text, p_run integer, p_fence integer[], p_started_at bigint)
RETURNS jsonb LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_run chat_runs;
  v_refusal jsonb;
  v_position bigint;
BEGIN
  v_refusal := claim_run(p_session, p_run, p_fence, p_started_at);
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run;
  -- A run by hand compacts once, whichever workflow asks for it.
  IF v_run.compaction ->> 'state' <> 'running'
     AND (v_run.kind <> 'turn' OR v_run.compaction -> 'fence' = to_jsonb(p_fence[1:2])) THEN
    RETURN jsonb_build_object('kind', 'compacted', 'result', v_run.compaction ->> 'state', 'by_hand', v_run.kind <> 'turn',
      'warning', v_run.compaction ->> 'warning');
  END IF;
  UPDATE chat_runs SET compaction = '{"state": "running"}' WHERE session_id = p_session AND seq = p_run;
  IF v_run.kind = 'turn' THEN
    SELECT position INTO v_position FROM chat_messages WHERE session_id = p_session AND id = v_run.message_id;
  ELSE
    v_position := newest_turn_before(p_session, p_run);
  END IF;
  RETURN jsonb_build_object(
    'kind', 'claimed', 'agent', v_chat.agent, 'model', v_run.model,
    'message_id', CASE WHEN v_run.kind = 'turn' THEN v_run.message_id END, 'answer_id', v_run.answer_id,
    'elapsed_ms', run_elapsed_ms(v_run),
    'view', model_view(p_session, v_position, v_run.answer_id, v_run.settled_parts, v_run.kind <> 'turn'));
END $$;

-- What a run by hand would have in its view now: { agent, model, newest_run, view }. Null: a run is open.
CREATE OR REPLACE FUNCTION view_by_hand(p_session text) RETURNS jsonb LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
  v_newest integer := newest_run_number(p_session);
BEGIN
  IF has_open_run(p_session) THEN RETURN NULL; END IF;
  RETURN (
    SELECT jsonb_build_object('agent', agent, 'model', model, 'newest_run', v_newest,
                              'view', model_view(p_session, newest_turn_before(p_session, v_newest), '', 0, true))
      FROM chat_sessions WHERE session_id = p_session);
END $$;

-- Records what a compaction comes to. False: another attempt has the run.
CREATE OR REPLACE FUNCTION note_compaction(p_session text, p_run integer, p_fence integer[], p_compaction jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_runs run
     SET compaction = p_compaction || jsonb_build_object('fence', p_fence[1:2]), head_start_at = head_start_over(run),
         updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running';
  RETURN FOUND;
END $$;

-- Adds the message of a compaction or prune. `p_made` is { message_id, part_id, metadata, type, data }.
CREATE OR REPLACE FUNCTION put_synthetic(p_session text, p_position bigint, p_made jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO chat_messages (id, session_id, position, role, metadata)
  VALUES (p_made ->> 'message_id', p_session, p_position, 'assistant', p_made -> 'metadata');
  INSERT INTO chat_parts (id, message_id, session_id, index, type, data)
  VALUES (p_made ->> 'part_id', p_made ->> 'message_id', p_session, 0, p_made ->> 'type',
          jsonb_build_object('type', p_made -> 'type', 'data', p_made -> 'data'));
$$;

-- Adds the message of a prune, as in put_synthetic, after the newest message of its turn.
CREATE OR REPLACE FUNCTION put_prune(p_run chat_runs, p_made jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_session text := p_run.session_id;
  v_turn bigint;
BEGIN
  IF p_run.kind = 'turn' THEN
    SELECT position INTO v_turn FROM chat_messages WHERE session_id = v_session AND id = p_run.message_id;
  ELSE
    v_turn := newest_turn_before(v_session, p_run.seq);
  END IF;
  PERFORM put_synthetic(v_session, answer_position(v_session, v_turn), p_made);
  PERFORM recount_window(v_session);
  PERFORM append_event(v_session, 'prune', 'system', jsonb_build_object(
    'state', 'pruned', 'tokens', p_made #> '{data,tokens}', 'message_id', p_made -> 'message_id', 'run_seq', p_run.seq), NULL);
END $$;

-- Stores a compaction in one transaction: its message before that with the id `data.tail_start_id`, what it hides, the
-- summarizer's usage, which counts like an answer's, a prune, if any, and what it came to. A repeat changes nothing. `p_made` is
-- as in put_synthetic, with `usage` and `cost_usd`, and `discarded` for a summary that is kept only because it was paid for: its
-- message is hidden. `p_prune` is as in put_prune. Returns false if another attempt has the run.
CREATE OR REPLACE FUNCTION store_compaction(
  p_session text, p_run integer, p_fence integer[], p_made jsonb, p_compaction jsonb, p_prune jsonb DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_id text := p_made ->> 'message_id';
  v_usage jsonb := add_usage(p_made -> 'usage', NULL);
  v_position bigint;
  v_hidden integer := 0;
  v_chat chat_sessions := lock_session(p_session);
  -- The same for all, because the un-rewind of a rewind to before the summary gives all the same.
  v_now timestamptz := clock_timestamp();
  v_run chat_runs;
BEGIN
  SELECT * INTO v_run FROM chat_runs
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running' FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM FROM chat_messages WHERE session_id = p_session AND id = v_id;
  IF FOUND THEN RETURN true; END IF;
  -- An un-rewind may take back a queued message that was gone back to, and show what that had replaced. The summary stands before
  -- that, too.
  SELECT max(m.position) + 1 INTO v_position
    FROM chat_messages m
   WHERE m.session_id = p_session AND m.position < (
     SELECT min(position) FROM chat_messages
      WHERE session_id = p_session
        AND id = ANY (ARRAY(
          SELECT p_made #>> '{data,tail_start_id}'
          UNION ALL
          SELECT r.replaced ->> 'message'
            FROM jsonb_array_elements(v_chat.rewinds) AS rewind
            JOIN chat_runs r ON r.session_id = p_session AND r.seq = (rewind ->> 'run')::integer)));
  PERFORM put_synthetic(p_session, v_position, p_made);
  IF (p_made ->> 'discarded')::boolean THEN
    PERFORM hide_message(p_session, v_id, 'compaction', v_id);
  ELSE
    UPDATE chat_messages
       SET hidden_at = v_now, updated_at = v_now,
           metadata = metadata || jsonb_build_object('hidden_by', jsonb_build_object('cause', 'compaction', 'id', v_id))
     WHERE session_id = p_session AND position < v_position AND hidden_at IS NULL;
    GET DIAGNOSTICS v_hidden = ROW_COUNT;
    PERFORM recount_window(p_session);
  END IF;
  PERFORM add_to_sums(p_session, v_usage, (p_made ->> 'cost_usd')::numeric);
  PERFORM append_event(p_session, 'compaction', 'system', p_compaction || jsonb_build_object(
    'message_id', v_id, 'run_seq', p_run, 'hidden', v_hidden), NULL);
  IF p_prune IS NOT NULL THEN
    PERFORM put_prune(v_run, p_prune);
  END IF;
  RETURN note_compaction(p_session, p_run, p_fence, p_compaction || jsonb_build_object('message_id', v_id));
END $$;

-- Stores a prune in one transaction with what it came to. Otherwise as store_compaction.
CREATE OR REPLACE FUNCTION store_prune(
  p_session text, p_run integer, p_fence integer[], p_made jsonb, p_compaction jsonb
) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_run chat_runs;
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running' FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM FROM chat_messages WHERE session_id = p_session AND id = p_made ->> 'message_id';
  IF FOUND THEN RETURN true; END IF;
  PERFORM put_prune(v_run, p_made);
  RETURN note_compaction(p_session, p_run, p_fence, p_compaction || jsonb_build_object('message_id', p_made -> 'message_id'));
END $$;

-- Ends a run by hand that has compacted or pruned. Returns as settle_run.
CREATE OR REPLACE FUNCTION finish_compaction(p_session text, p_run integer, p_fence integer[]) RETURNS jsonb LANGUAGE sql AS $$
  SELECT settle_run(p_session, p_run, p_fence, 'finished', NULL, NULL, NULL)
$$;

-- The number of a session's newest run; 0: there is none.
CREATE OR REPLACE FUNCTION newest_run_number(p_session text) RETURNS integer LANGUAGE sql STABLE AS $$
  SELECT coalesce(max(seq), 0) FROM chat_runs WHERE session_id = p_session
$$;

-- Queues a run by hand, with the session's model, whose window counts.
CREATE OR REPLACE FUNCTION open_hand_run(p_session text, p_kind text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_id text := made_id('msg', 0);
  v_seq integer := newest_run_number(p_session) + 1;
BEGIN
  INSERT INTO chat_runs (session_id, seq, message_id, answer_id, model, kind)
  VALUES (p_session, v_seq, v_id, v_id, v_chat.model, p_kind);
  UPDATE chat_sessions SET paused_at = NULL, updated_at = clock_timestamp()
   WHERE session_id = p_session AND paused_at IS NOT NULL;
  RETURN jsonb_build_object('kind', p_kind, 'data', jsonb_build_object('message_id', v_id, 'run_seq', v_seq),
    'outcome', jsonb_build_object('message_id', v_id, 'run_seq', v_seq));
END $$;

-- Queues a run by hand, unless there is `nothing` for it to do. p_args: { newest_run, nothing? }, what the worker has found in
-- view_by_hand; `newest_run` is null if a run was open then, and a run that has begun since is one in flight, too, even if it is
-- over. Workers of the version before give neither: their runs may find nothing.
CREATE OR REPLACE FUNCTION queue_by_hand(p_session text, p_args jsonb, p_kind text, p_nothing text) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
  IF has_open_run(p_session) OR p_args -> 'newest_run' <> to_jsonb(newest_run_number(p_session)) THEN
    RETURN '{"code": "RunInFlight"}';
  ELSIF (p_args ->> 'nothing')::boolean THEN
    RETURN jsonb_build_object('code', p_nothing);
  END IF;
  RETURN open_hand_run(p_session, p_kind);
END $$;

CREATE OR REPLACE FUNCTION cmd_compact(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE sql AS $$ SELECT queue_by_hand(p_session, p_args, 'compaction', 'NothingToCompact') $$;

CREATE OR REPLACE FUNCTION cmd_prune(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE sql AS $$ SELECT queue_by_hand(p_session, p_args, 'prune', 'NothingToPrune') $$;

-- After a switch to a model that the conversation does not fit: the next turns have the former one again, up to a message for
-- which the user has chosen another one meanwhile. If the former one is the rehearsal model, which is never carried forward, it is
-- that of the newest run before with another. False: another attempt has the run.
CREATE OR REPLACE FUNCTION undo_switch(p_session text, p_run integer, p_fence integer[], p_model text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
  v_former text := p_model;
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running';
  IF NOT FOUND THEN RETURN false; END IF;
  IF carried_model(p_model, NULL) IS NULL THEN
    SELECT model INTO v_former FROM chat_runs
     WHERE session_id = p_session AND seq < p_run AND state <> 'cancelled' AND model IS DISTINCT FROM v_run.model
       AND (model IS NULL OR carried_model(model, NULL) IS NOT NULL)
     ORDER BY seq DESC LIMIT 1;
    IF NOT FOUND THEN RETURN true; END IF;
  END IF;
  PERFORM give_back_model(p_session, p_run, v_run.model, v_former);
  RETURN true;
END $$;
