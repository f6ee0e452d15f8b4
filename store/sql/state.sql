-- Scoped state.

-- Applies a list of { scope: session | user | app | temp, key, value } (no value: the key goes; of several changes of a
-- key the last counts), and keeps all but temp: in the event log. Keys are written in one order in all sessions of a
-- user, or two that write the same ones could wait for each other.
CREATE OR REPLACE FUNCTION apply_state(p_session text, p_run integer, p_user text, p_delta jsonb) RETURNS void
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
