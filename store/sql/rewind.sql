-- Going back in a conversation: rewinds, edits and new answers. Nothing is deleted. What is hidden says by what, in
-- metadata.hidden_by { cause, id }, and only the same cause shows it again:
--
--   rewind      `id` is the number of the rewind's event, or the id of the message or answer that replaced what came after
--   edit        `id` is the message that replaced this one
--   compaction  `id` is the message with the summary
--   cancelled   `id` is its own
--
-- chat_sessions.rewinds is a stack, the newest rewind last, of { event_seq, message_id, shown: [{ id, from, to, hidden_at }],
-- snapshot?, run? }. `shown` says what the rewind showed again because it went to before the compaction `id`: messages at positions
-- `from` to `to`, hidden since `hidden_at`. `snapshot` has the files for its un-rewind (snapshots.sql). `run` is the run of a
-- message that was queued when it was gone back to: its un-rewind takes the message back (taking_back.sql).

-- Hides one message, unless it is hidden already. (num_nulls instead of IS NULL: while the table has no statistics, Postgres would
-- look for the message among all visible ones.)
CREATE OR REPLACE FUNCTION hide_message(p_session text, p_message text, p_cause text, p_id text) RETURNS void
LANGUAGE sql AS $$
  UPDATE chat_messages
     SET hidden_at = clock_timestamp(), updated_at = clock_timestamp(),
         metadata = metadata || jsonb_build_object('hidden_by', jsonb_build_object('cause', p_cause, 'id', p_id))
   WHERE session_id = p_session AND id = p_message AND num_nulls(hidden_at) = 1
$$;

-- Hides the messages after a position, for the id of a message or "event:" and the number of a rewind, and shows those before it that a compaction after it had summarized. Returns their
-- numbers, and what to hide again when this is undone. Plans of its own: one that was made while the table was small would read
-- the whole session.
CREATE OR REPLACE FUNCTION hide_after(
  p_session text, p_position bigint, p_id text, OUT hidden integer, OUT shown jsonb
) LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
  UPDATE chat_messages
     SET hidden_at = clock_timestamp(), updated_at = clock_timestamp(),
         metadata = metadata || jsonb_build_object('hidden_by', jsonb_build_object('cause', 'rewind', 'id', p_id))
   WHERE session_id = p_session AND position > p_position AND hidden_at IS NULL;
  GET DIAGNOSTICS hidden = ROW_COUNT;
  UPDATE chat_sessions SET counted_tokens = NULL WHERE session_id = p_session AND counted_tokens IS NOT NULL;
  SELECT coalesce(jsonb_agg(summarized), '[]') INTO shown
    FROM (
      SELECT c.id, min(m.position) AS "from", max(m.position) AS "to", min(m.hidden_at) AS hidden_at
        FROM chat_messages m
        JOIN chat_messages c ON c.session_id = m.session_id AND c.id = m.metadata #>> '{hidden_by,id}'
                            AND c.position > p_position
       WHERE m.session_id = p_session AND m.position <= p_position AND m.hidden_at IS NOT NULL
         AND m.metadata #>> '{hidden_by,cause}' = 'compaction'
       GROUP BY c.id) AS summarized;
  UPDATE chat_messages m
     SET hidden_at = NULL, updated_at = clock_timestamp(), metadata = m.metadata - 'hidden_by'
    FROM jsonb_to_recordset(shown) AS summarized(id text)
   WHERE m.session_id = p_session AND m.position <= p_position AND m.hidden_at IS NOT NULL
     AND m.metadata -> 'hidden_by' = jsonb_build_object('cause', 'compaction', 'id', summarized.id);
END $$;

-- Undoes hide_after.
CREATE OR REPLACE FUNCTION show_after(p_session text, p_position bigint, p_id text, p_shown jsonb) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_count integer;
BEGIN
  IF p_shown <> '[]' THEN
    UPDATE chat_messages m
       SET hidden_at = summarized.hidden_at, updated_at = clock_timestamp(), metadata = m.metadata || jsonb_build_object(
             'hidden_by', jsonb_build_object('cause', 'compaction', 'id', summarized.id))
      FROM jsonb_to_recordset(p_shown) AS summarized(id text, "from" bigint, "to" bigint, hidden_at timestamptz)
     WHERE m.session_id = p_session AND m.position BETWEEN summarized."from" AND summarized."to" AND m.hidden_at IS NULL;
  END IF;
  UPDATE chat_messages
     SET hidden_at = NULL, updated_at = clock_timestamp(), metadata = metadata - 'hidden_by'
   WHERE session_id = p_session AND position > p_position AND hidden_at IS NOT NULL
     AND metadata -> 'hidden_by' = jsonb_build_object('cause', 'rewind', 'id', p_id);
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;

-- The message, or the newest one that replaced it. Null: the session has no such message.
CREATE OR REPLACE FUNCTION newest_version(p_session text, p_message text) RETURNS chat_messages LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_message chat_messages;
BEGIN
  SELECT * INTO v_message FROM chat_messages WHERE session_id = p_session AND id = p_message;
  WHILE v_message.metadata #>> '{hidden_by,cause}' = 'edit' LOOP
    SELECT * INTO v_message FROM chat_messages
     WHERE session_id = p_session AND id = v_message.metadata #>> '{hidden_by,id}';
  END LOOP;
  RETURN v_message;
END $$;

-- Why a message is not part of the conversation; null: it is visible, or summarized by a message that is part of it.
CREATE OR REPLACE FUNCTION out_of_sight(p_message chat_messages) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_at chat_messages := p_message;
  v_summary text;
BEGIN
  IF p_message.id IS NULL THEN RETURN '{"code": "MessageNotFound"}'; END IF;
  WHILE v_at.hidden_at IS NOT NULL AND v_at.metadata #>> '{hidden_by,cause}' = 'compaction' LOOP
    v_summary := v_at.metadata #>> '{hidden_by,id}';
    -- A summary that was kept only because it was paid for.
    IF v_summary = v_at.id THEN RETURN '{"code": "MessageHidden", "cause": "compaction"}'; END IF;
    SELECT * INTO v_at FROM chat_messages WHERE session_id = p_message.session_id AND id = v_summary;
  END LOOP;
  IF v_at.hidden_at IS NULL THEN RETURN NULL; END IF;
  RETURN jsonb_build_object('code', 'MessageHidden', 'cause', v_at.metadata #>> '{hidden_by,cause}');
END $$;

-- Why a conversation cannot go back to a message; null: it can.
CREATE OR REPLACE FUNCTION not_a_target(p_message chat_messages) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(out_of_sight(p_message), CASE WHEN p_message.role <> 'user' THEN '{"code": "NotUserMessage"}'::jsonb END)
$$;

-- Why a session does not take what users say; null: it does.
CREATE OR REPLACE FUNCTION child_session(p_session text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT '{"code": "ChildSession"}'::jsonb FROM chat_sessions WHERE session_id = p_session AND depth > 0
$$;

-- Before the queue is dropped because the conversation goes back to a message: queued results of subagents whose calls stand before
-- that are delivered once more, as new messages.
CREATE OR REPLACE FUNCTION deliver_results_again(p_session text, p_target chat_messages) RETURNS void LANGUAGE sql AS $$
  UPDATE tasks t
     SET delivered_at = NULL, message_id = NULL, due_at = clock_timestamp()
   WHERE t.parent_id = p_session
     AND t.message_id = ANY (ARRAY (
       SELECT r.message_id FROM chat_runs r
        WHERE r.session_id = p_session AND r.state = 'queued' AND is_of_new_message(r) AND r.message_id <> p_target.id))
     AND (SELECT asked.position FROM chat_runs calling JOIN chat_messages asked USING (session_id)
           WHERE calling.session_id = p_session AND calling.seq = t.run_seq AND asked.id = calling.message_id) < p_target.position
$$;

-- Ends the run in flight at once, as aborted: what its worker writes later is refused, and a call that asks is no longer needed.
-- Cancels the queued ones, as drop_queue. Returns the number of the run (null: none) and the ids of the messages that were dropped.
CREATE OR REPLACE FUNCTION end_open_runs(
  p_session text, p_target text DEFAULT NULL, OUT run_seq integer, OUT dropped jsonb
) LANGUAGE plpgsql AS $$
BEGIN
  dropped := drop_queue(p_session, p_target);
  SELECT seq INTO run_seq FROM chat_runs WHERE session_id = p_session AND state IN ('running', 'waiting');
  IF run_seq IS NOT NULL THEN
    PERFORM settle_run(p_session, run_seq, NULL, 'aborted', NULL, NULL, 'no longer needed');
  END IF;
END $$;

-- p_args: { message_id, abort }. Going back to the same message again changes nothing, unless a compaction or prune by hand has come
-- after it since. A message that is still queued is not answered then, but stays to be replaced.
CREATE OR REPLACE FUNCTION cmd_rewind(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_id text := p_args ->> 'message_id';
  v_target chat_messages;
  v_run chat_runs := newest_run(p_session, v_id);
  v_dequeued jsonb;
  v_refusal jsonb;
  v_ended record;
  v_hidden record;
  v_event bigint;
  v_children jsonb;
BEGIN
  SELECT * INTO v_target FROM chat_messages WHERE session_id = p_session AND id = v_id;
  v_refusal := coalesce(child_session(p_session), not_a_target(v_target));
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  IF p_args ->> 'abort' IS DISTINCT FROM 'true' AND has_open_run(p_session) THEN
    RETURN '{"code": "RunInFlight"}';
  END IF;
  v_children := end_children(p_session, v_target.position, true);
  v_dequeued := queued_runs(p_session);
  PERFORM deliver_results_again(p_session, v_target);
  v_ended := end_open_runs(p_session, v_id);
  v_event := (session_mark(p_session) ->> 'event_seq')::bigint + 1;
  v_hidden := hide_after(p_session, v_target.position, 'event:' || v_event);
  UPDATE chat_sessions
     SET rewinds = coalesce(rewinds, '[]') || jsonb_build_array(jsonb_build_object(
           'event_seq', v_event, 'message_id', v_id, 'shown', v_hidden.shown)
           || CASE WHEN v_run.state = 'queued' AND is_of_new_message(v_run) THEN jsonb_build_object('run', v_run.seq) ELSE '{}' END),
         updated_at = clock_timestamp()
   WHERE session_id = p_session AND (rewinds #>> '{-1,message_id}' IS DISTINCT FROM v_id OR v_hidden.hidden > 0);
  IF FOUND THEN PERFORM ask_restore(p_session, v_target.metadata ->> 'snapshot_id', v_event); END IF;
  RETURN jsonb_build_object('kind', 'rewind', 'data', jsonb_build_object('message_id', v_id, 'hidden', v_hidden.hidden),
    'outcome', jsonb_build_object('aborted', v_ended.run_seq IS NOT NULL, 'run_seq', v_ended.run_seq,
                                  'dropped', v_ended.dropped, 'dequeued', v_dequeued, 'hidden', v_hidden.hidden,
                                  'message', v_id, 'children', v_children));
END $$;

-- Undoes the newest rewind, unless a message was accepted after it, or a compaction or prune by hand is under way.
CREATE OR REPLACE FUNCTION cmd_unrewind(p_session text, p_args jsonb, p_command_id text) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_rewind jsonb := (SELECT rewinds -> -1 FROM chat_sessions WHERE session_id = p_session);
  v_id text := v_rewind ->> 'message_id';
  v_shown integer;
BEGIN
  IF v_rewind IS NULL THEN
    RETURN '{"code": "NothingToUnrewind"}';
  ELSIF has_open_run(p_session) THEN
    RETURN '{"code": "RunInFlight"}';
  END IF;
  v_shown := show_after(
    p_session, (SELECT position FROM chat_messages WHERE session_id = p_session AND id = v_id),
    'event:' || (v_rewind ->> 'event_seq'), v_rewind -> 'shown');
  UPDATE chat_sessions SET rewinds = nullif(rewinds - (-1), '[]'), updated_at = clock_timestamp()
   WHERE session_id = p_session;
  IF v_rewind ? 'run' THEN
    SELECT v_shown + take_back(run) INTO v_shown
      FROM chat_runs run WHERE session_id = p_session AND seq = (v_rewind ->> 'run')::integer;
  END IF;
  PERFORM recount_window(p_session);
  PERFORM ask_restore_undone(p_session, v_rewind);
  RETURN jsonb_build_object('kind', 'unrewind', 'data', jsonb_build_object('message_id', v_id, 'shown', v_shown),
    'outcome', jsonb_build_object('message_id', v_id, 'shown', v_shown));
END $$;

-- What accept_message and the functions below return of a run, besides the session's facts. `position` is the number of open
-- runs ahead of it.
CREATE OR REPLACE FUNCTION accepted_run(p_run chat_runs) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'message_id', p_run.message_id, 'run_seq', p_run.seq, 'state', p_run.state, 'code', p_run.error_code,
    'model', p_run.model, 'position', (
      SELECT count(*) FROM chat_runs
       WHERE session_id = p_run.session_id AND seq < p_run.seq AND p_run.state = 'queued'
         AND state IN ('queued', 'running', 'waiting')))
$$;

-- The newest run of a message. One that was taken out of the queue counts only if there is no other.
CREATE OR REPLACE FUNCTION newest_run(p_session text, p_message text) RETURNS chat_runs LANGUAGE sql STABLE AS $$
  SELECT * FROM chat_runs WHERE session_id = p_session AND message_id = p_message ORDER BY state = 'cancelled', seq DESC LIMIT 1
$$;

-- Whether a message has exactly these parts, given as to accept_message.
CREATE OR REPLACE FUNCTION has_parts(p_session text, p_message text, p_parts jsonb) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT (SELECT coalesce(jsonb_agg(data ORDER BY index), '[]') FROM chat_parts
           WHERE session_id = p_session AND message_id = p_message)
       = (SELECT coalesce(jsonb_agg(part -> 'data' ORDER BY n), '[]')
            FROM jsonb_array_elements(p_parts) WITH ORDINALITY AS given(part, n))
$$;

-- For a new turn in place of what follows a message: ends what is open, hides what follows, and asks for the message's files. `p_by` is
-- the id of the turn's message, or of its answer if it answers the same message. Returns as end_open_runs, with the ended runs of
-- children, and what the turn's run has `replaced` (taking_back.sql).
CREATE OR REPLACE FUNCTION replace_after(
  p_session text, p_target chat_messages, p_by text, OUT run_seq integer, OUT dropped jsonb, OUT children jsonb, OUT replaced jsonb
) LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions;
BEGIN
  children := end_children(p_session, p_target.position, true);
  PERFORM deliver_results_again(p_session, p_target);
  SELECT * INTO run_seq, dropped FROM end_open_runs(p_session);
  SELECT * INTO v_chat FROM chat_sessions WHERE session_id = p_session;
  replaced := jsonb_build_object('by', p_by, 'rewinds', v_chat.rewinds, 'after', p_target.position,
                                 'shown', (SELECT shown FROM hide_after(p_session, p_target.position, p_by)));
  UPDATE chat_sessions SET rewinds = NULL WHERE session_id = p_session AND rewinds IS NOT NULL;
  IF p_target.metadata ? 'snapshot_id' THEN
    PERFORM ask_restore(p_session, p_target.metadata ->> 'snapshot_id', NULL);
    replaced := replaced || (
      SELECT jsonb_build_object('restore', jsonb_build_object('n', restore -> 'n', 'before', v_chat.restore))
        FROM chat_sessions WHERE session_id = p_session);
  END IF;
END $$;

-- Replaces a user message by a new one, in one transaction: ends what is open, hides the message and all after it, and accepts
-- the new one with accept_message's arguments. A message that is still queued is only exchanged: the run in flight and the
-- rest of the queue go on. `p_edited` may be an id that was replaced before: then the newest version is meant, and if it has
-- these parts, this is a repeat. Returns accept_message's result with `message_id`, and `aborted_run` and `dropped` as
-- end_open_runs; or { ok: false, code }: SessionNotFound, MessageNotFound, NotUserMessage, MessageHidden, MessageConflict or
-- TooMany.
CREATE OR REPLACE FUNCTION edit_message(
  p_session text, p_user text, p_edited text, p_message text, p_answer text, p_parts jsonb, p_metadata jsonb, p_model text,
  p_max_queue integer, p_attributes jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_target chat_messages := newest_version(p_session, p_edited);
  v_refusal jsonb := coalesce(child_session(p_session), not_a_target(v_target));
  v_run chat_runs := newest_run(p_session, v_target.id);
  v_ended record;
  v_result jsonb;
BEGIN
  PERFORM FROM sessions WHERE session_id = p_session AND user_id = p_user;
  IF NOT FOUND THEN RETURN '{"ok": false, "code": "SessionNotFound"}'; END IF;
  IF v_target.id <> p_edited AND has_parts(p_session, v_target.id, p_parts) THEN
    RETURN accept_message(
      p_session, p_user, v_target.id, p_answer, p_parts, p_metadata, p_model, p_max_queue);
  ELSIF v_refusal IS NOT NULL THEN
    RETURN v_refusal || '{"ok": false}';
  ELSIF EXISTS (SELECT FROM chat_messages WHERE session_id = p_session AND id = p_message) THEN
    RETURN accept_message(p_session, p_user, p_message, p_answer, p_parts, p_metadata, p_model, p_max_queue);
  END IF;
  IF v_run.state = 'queued' AND is_of_new_message(v_run) THEN
    PERFORM hide_message(p_session, v_target.id, 'edit', p_message);
    SELECT NULL::integer AS run_seq, jsonb_build_array(cancel_queued_run(p_session, v_run.seq, true)) AS dropped,
           NULL::jsonb AS children, jsonb_build_object('since', v_run.seq) || nullif(v_run.replaced - 'model', '{}') AS replaced
      INTO v_ended;
    -- It keeps the model that it has chosen, now as the newest of the queue.
    PERFORM take_back_model(v_run);
    IF p_model IS NULL AND (v_run.replaced ? 'model' OR v_target.metadata ? 'model') THEN
      p_model := v_run.model;
      p_metadata := p_metadata || jsonb_strip_nulls(jsonb_build_object('model', v_target.metadata -> 'model'));
    END IF;
    UPDATE chat_runs SET replaced = NULL WHERE session_id = p_session AND seq = v_run.seq;
  ELSE
    v_ended := replace_after(p_session, v_target, p_message);
    PERFORM hide_message(p_session, v_target.id, 'edit', p_message);
    v_ended.replaced := v_ended.replaced || jsonb_build_object('message', v_target.id);
  END IF;
  v_result := accept_message(
    p_session, p_user, p_message, p_answer, p_parts, p_metadata, p_model, p_max_queue, p_attributes);
  IF NOT (v_result ->> 'ok')::boolean THEN
    RAISE EXCEPTION 'an edit was not accepted' USING ERRCODE = 'PD007';
  END IF;
  UPDATE chat_runs SET replaced = coalesce(replaced, '{}') || v_ended.replaced
   WHERE session_id = p_session AND seq = (v_result ->> 'run_seq')::integer AND v_ended.replaced IS NOT NULL;
  PERFORM append_event(p_session, 'edit', 'user', jsonb_strip_nulls(jsonb_build_object(
    'message_id', p_message, 'replaced', v_target.id, 'run_seq', v_ended.run_seq, 'dropped', v_ended.dropped)), NULL);
  RETURN v_result || session_mark(p_session) || jsonb_build_object(
    'aborted_run', v_ended.run_seq, 'dropped', v_ended.dropped, 'children', v_ended.children);
-- Nothing of the exchange stays.
EXCEPTION WHEN SQLSTATE 'PD007' THEN
  RETURN v_result;
END $$;

-- Answers a user message again: ends what is open, hides all after the message, and makes a new run of it. `p_replaced` is the
-- answer that the caller has; if a newer one has replaced it, this is a repeat. A queued message is answered already. Returns as
-- edit_message; TooManyAnswers: 998 answers and prunes stand after it. `p_attributes` null: those of the message's last run. Without
-- p_model it is the session's; if that is the model of the last run, its variant stays, too.
CREATE OR REPLACE FUNCTION regenerate_answer(
  p_session text, p_user text, p_message text, p_replaced text, p_answer text, p_model text,
  p_attributes jsonb DEFAULT NULL, p_variant text DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_target chat_messages := newest_version(p_session, p_message);
  v_refusal jsonb := coalesce(child_session(p_session), not_a_target(v_target));
  v_run chat_runs;
  v_ended record;
  v_facts jsonb;
BEGIN
  PERFORM FROM sessions WHERE session_id = p_session AND user_id = p_user;
  IF NOT FOUND THEN RETURN '{"ok": false, "code": "SessionNotFound"}'; END IF;
  IF v_refusal IS NOT NULL THEN RETURN v_refusal || '{"ok": false}'; END IF;
  v_facts := session_mark(p_session) || jsonb_build_object('ok', true, 'agent', v_chat.agent);
  v_run := newest_run(p_session, v_target.id);
  IF v_run.state = 'queued' OR v_run.answer_id <> p_replaced AND EXISTS (
       SELECT FROM chat_runs WHERE session_id = p_session AND message_id = v_target.id AND answer_id = p_replaced) THEN
    RETURN v_facts || accepted_run(v_run) || '{"accepted": false}';
  ELSIF answer_position(p_session, v_target.position) IS NULL THEN
    RETURN '{"ok": false, "code": "TooManyAnswers"}';
  END IF;
  v_ended := replace_after(p_session, v_target, p_answer);
  -- A message that was dropped may have changed the model.
  v_chat := lock_session(p_session);
  INSERT INTO chat_runs (session_id, seq, message_id, answer_id, model, variant, attributes, replaced)
  SELECT p_session, coalesce(max(seq), 0) + 1, v_target.id, p_answer, coalesce(p_model, v_chat.model),
         CASE WHEN p_model IS NOT NULL THEN p_variant
              WHEN v_run.model = v_chat.model THEN v_run.variant END,
         coalesce(p_attributes, v_run.attributes),
         v_ended.replaced || coalesce(replaced_model(v_chat.model, carried_model(p_model, v_chat.model)), '{}')
    FROM chat_runs WHERE session_id = p_session
  RETURNING * INTO v_run;
  UPDATE chat_sessions
     SET paused_at = NULL, closed_at = NULL, model = carried_model(p_model, model), updated_at = clock_timestamp()
   WHERE session_id = p_session;
  PERFORM append_event(p_session, 'regenerate', 'user', jsonb_strip_nulls(jsonb_build_object(
    'message_id', v_target.id, 'run_seq', v_ended.run_seq, 'dropped', v_ended.dropped)), NULL);
  RETURN v_facts || session_mark(p_session) || accepted_run(v_run) || jsonb_build_object(
    'accepted', true, 'aborted_run', v_ended.run_seq, 'dropped', v_ended.dropped, 'children', v_ended.children);
END $$;
