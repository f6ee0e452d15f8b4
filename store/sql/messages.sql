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

-- Accepts a user message; nothing later refuses it. `p_parts` is an array of { id, type, data }. Returns { ok: true,
-- accepted, run_seq, state, position, model, agent, phase, project_id } or { ok: false, code }: SessionNotFound,
-- MessageConflict or TooMany. `accepted` is false for a repeat. `position` is the number of open runs ahead of it.
CREATE OR REPLACE FUNCTION accept_message(
  p_session text, p_user text, p_message text, p_answer text, p_parts jsonb, p_metadata jsonb, p_model text,
  p_max_queue integer
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_session sessions;
  v_run chat_runs;
  v_facts jsonb;
  v_seq integer;
  v_ahead integer;
  v_taken boolean;
BEGIN
  SELECT * INTO v_session FROM sessions WHERE session_id = p_session AND user_id = p_user;
  IF NOT FOUND THEN
    RETURN '{"ok": false, "code": "SessionNotFound"}';
  END IF;
  v_facts := jsonb_build_object('ok', true, 'agent', v_chat.agent, 'phase', v_session.phase,
                                'project_id', v_session.project_id);
  IF EXISTS (SELECT FROM chat_messages WHERE session_id = p_session AND id = p_message) THEN
    SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND message_id = p_message ORDER BY seq DESC LIMIT 1;
    IF v_run.seq IS NULL OR
       (SELECT coalesce(jsonb_agg(data ORDER BY index), '[]') FROM chat_parts
         WHERE session_id = p_session AND message_id = p_message)
       <> (SELECT coalesce(jsonb_agg(part -> 'data' ORDER BY n), '[]')
             FROM jsonb_array_elements(p_parts) WITH ORDINALITY AS given(part, n)) THEN
      RETURN '{"ok": false, "code": "MessageConflict"}';
    END IF;
    RETURN v_facts || jsonb_build_object('accepted', false, 'run_seq', v_run.seq, 'state', v_run.state,
                                         'code', v_run.error_code, 'model', v_run.model, 'position', (
      SELECT count(*) FROM chat_runs WHERE session_id = p_session AND seq < v_run.seq
         AND v_run.state = 'queued' AND state IN ('queued', 'running', 'waiting')));
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
  INSERT INTO chat_runs (session_id, seq, message_id, answer_id, model)
  VALUES (p_session, v_seq, p_message, p_answer, coalesce(p_model, v_chat.model));
  IF v_chat.paused_at IS NOT NULL OR v_chat.closed_at IS NOT NULL
     OR coalesce(p_model, v_chat.model) IS DISTINCT FROM v_chat.model THEN
    UPDATE chat_sessions
       SET paused_at = NULL, closed_at = NULL, model = coalesce(p_model, model), updated_at = clock_timestamp()
     WHERE session_id = p_session;
  END IF;
  RETURN v_facts || jsonb_build_object('accepted', true, 'run_seq', v_seq, 'state', 'queued', 'position', v_ahead,
                                       'model', coalesce(p_model, v_chat.model));
END $$;
