-- Accepting user messages, and the view of parts with their unsettled text.

-- Parts with the text that was stored since they were last settled. The JSON of a tool input that is still streaming is in
-- "rawInput".
CREATE OR REPLACE VIEW chat_parts_live AS
SELECT p.id, p.message_id, p.session_id, p.index, p.type,
       CASE
         WHEN d.text IS NULL THEN p.data
         WHEN p.tool_call_id IS NOT NULL THEN p.data || jsonb_build_object('rawInput', d.text)
         ELSE p.data || jsonb_build_object('text', coalesce(p.data ->> 'text', '') || d.text)
       END AS data,
       p.tool_call_id, p.tool_state, p.created_at, p.updated_at
  FROM chat_parts p
  LEFT JOIN LATERAL (
    SELECT string_agg(text, '' ORDER BY start) AS text
      FROM part_deltas
     WHERE part_deltas.session_id = p.session_id AND part_deltas.part_id = p.id
  ) d ON true;

-- The model of a session after a turn with `p_model`; null: the one that it had. The rehearsal model is never carried forward.
CREATE OR REPLACE FUNCTION carried_model(p_model text, p_before text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_model LIKE 'rehearsal/%' THEN p_before ELSE coalesce(p_model, p_before) END
$$;

-- What a run that changes the session's model has `replaced` (taking_back.sql); null: it does not change it.
CREATE OR REPLACE FUNCTION replaced_model(p_before text, p_after text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_after IS DISTINCT FROM p_before THEN jsonb_build_object('model', p_before) END
$$;

-- Accepts a user message; nothing later refuses it. It replaces the message that the session was rewound to. `p_parts` is an
-- array of { id, type, data }, `p_attributes` what the sign-in hook passed on. `p_model` is carried forward, unless it is the
-- rehearsal model; the variant in p_metadata.model is of this turn only. Returns { ok: true, accepted, message_id, run_seq, state, position, model, agent, phase,
-- project_id, event_seq } or { ok: false, code }: SessionNotFound, ChildSession, MessageConflict or TooMany. `accepted` is false for a
-- repeat; `message_id` is then the message's newest version, if an edit has replaced it. `position` is the number of open runs
-- ahead.
CREATE OR REPLACE FUNCTION accept_message(
  p_session text, p_user text, p_message text, p_answer text, p_parts jsonb, p_metadata jsonb, p_model text,
  p_max_queue integer, p_attributes jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_run chat_runs;
  v_facts jsonb;
  v_carried text := carried_model(p_model, v_chat.model);
  v_seq integer;
  v_ahead integer;
  v_taken boolean;
BEGIN
  PERFORM FROM sessions WHERE session_id = p_session AND user_id = p_user;
  IF NOT FOUND THEN
    RETURN '{"ok": false, "code": "SessionNotFound"}';
  ELSIF v_chat.depth > 0 AND current_setting('perdure.sender', true) IS DISTINCT FROM 'task' THEN
    RETURN '{"ok": false, "code": "ChildSession"}';
  END IF;
  v_facts := session_mark(p_session) || jsonb_build_object('ok', true, 'agent', v_chat.agent);
  IF EXISTS (SELECT FROM chat_messages WHERE session_id = p_session AND id = p_message) THEN
    -- A client that has edited the message still knows the newest version by the first one's id.
    v_run := newest_run(p_session, CASE WHEN has_parts(p_session, p_message, p_parts) THEN p_message
                                        ELSE (newest_version(p_session, p_message)).id END);
    IF v_run.seq IS NULL OR NOT has_parts(p_session, v_run.message_id, p_parts) THEN
      RETURN '{"ok": false, "code": "MessageConflict"}';
    END IF;
    RETURN v_facts || accepted_run(v_run) || '{"accepted": false}';
  END IF;
  -- The ids of answers that are not stored yet are taken, too.
  SELECT count(*), bool_or(answer_id = p_message) INTO v_ahead, v_taken
    FROM chat_runs WHERE session_id = p_session AND state IN ('queued', 'running', 'waiting');
  IF v_taken THEN
    RETURN '{"ok": false, "code": "MessageConflict"}';
  ELSIF v_ahead >= p_max_queue THEN
    RETURN '{"ok": false, "code": "TooMany"}';
  END IF;
  SELECT coalesce(max(seq), 0) + 1 INTO v_seq FROM chat_runs WHERE session_id = p_session;
  INSERT INTO chat_messages (id, session_id, position, role, metadata)
  SELECT p_message, p_session, (coalesce(max(position), 0) / 1000 + 1) * 1000, 'user', p_metadata
    FROM chat_messages WHERE session_id = p_session;
  INSERT INTO chat_parts (id, message_id, session_id, index, type, data)
  SELECT part ->> 'id', p_message, p_session, n - 1, part ->> 'type', part -> 'data'
    FROM jsonb_array_elements(p_parts) WITH ORDINALITY AS given(part, n);
  INSERT INTO chat_runs (session_id, seq, message_id, answer_id, model, variant, attributes, replaced)
  VALUES (p_session, v_seq, p_message, p_answer, coalesce(p_model, v_chat.model),
          CASE WHEN p_model IS NOT NULL THEN p_metadata #>> '{model,variant}' END, p_attributes,
          replaced_model(v_chat.model, v_carried));
  IF v_chat.rewinds IS NOT NULL THEN
    PERFORM replace_rewound(p_session, v_seq, p_message, v_chat.rewinds);
  END IF;
  IF v_chat.paused_at IS NOT NULL OR v_chat.closed_at IS NOT NULL OR v_chat.rewinds IS NOT NULL
     OR v_carried IS DISTINCT FROM v_chat.model THEN
    UPDATE chat_sessions
       SET paused_at = NULL, closed_at = NULL, rewinds = NULL, model = v_carried,
           updated_at = clock_timestamp()
     WHERE session_id = p_session;
  END IF;
  RETURN v_facts || jsonb_build_object('accepted', true, 'message_id', p_message, 'run_seq', v_seq, 'state', 'queued',
                                       'position', v_ahead, 'model', coalesce(p_model, v_chat.model));
END $$;
