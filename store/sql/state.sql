-- Scoped state.

-- The state that a tool call sees, as [{ scope, key, value }], and the scopes of which something was left out. Every call
-- loads it, so it is bounded: at most 1,000 keys and 256 KiB per scope, in order of keys (the limits of
-- agent/tool-state.ts). A value of more than 64 KiB is left out without being read.
CREATE OR REPLACE FUNCTION load_state(p_session text, p_user text, OUT state jsonb, OUT incomplete jsonb)
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('scope', scope, 'key', key, 'value', value)) FILTER (WHERE fits), '[]'),
         coalesce(jsonb_agg(DISTINCT scope) FILTER (WHERE NOT fits), '[]')
    FROM (
      SELECT owned.scope, entry.key, entry.value,
             entry.nth <= 1000 AND entry.bytes <= 65536
             AND sum(entry.bytes) FILTER (WHERE entry.bytes <= 65536)
                   OVER (PARTITION BY owned.scope ORDER BY entry.key) <= 262144 AS fits
        FROM (VALUES ('session', p_session), ('user', p_user), ('app', '')) AS owned(scope, owner)
        CROSS JOIN LATERAL (
          SELECT key, value, octet_length(key) + pg_column_size(value) AS bytes, row_number() OVER (ORDER BY key) AS nth
            FROM scoped_state s
           WHERE s.scope = owned.scope AND s.owner = owned.owner
           ORDER BY key
           LIMIT 1001) AS entry
    ) AS entries
$$;

-- Applies a list of { scope: session | user | app | temp, key, value }, and records all but `temp:` in the event log.
-- Without a value the key is deleted; the last change of a key counts. Keys are written in sorted order, so that two
-- sessions of a user cannot deadlock.
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
