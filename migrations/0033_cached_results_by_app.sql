-- What tools cache for a user, or for everybody, belongs to an app, like state. Of rows that sessions of several apps have shared
-- nobody knows whose they are: tools compute them again.
ALTER TABLE cached_results ADD COLUMN app text NOT NULL DEFAULT 'perdure';
DELETE FROM cached_results
 WHERE scope <> 'session' AND EXISTS (SELECT FROM chat_sessions WHERE app <> 'perdure');
UPDATE cached_results r SET app = c.app
  FROM chat_sessions c
 WHERE c.app <> 'perdure' AND r.scope = 'session' AND r.owner = c.session_id;
-- By owner first: erasing a user deletes its rows in all apps.
ALTER TABLE cached_results DROP CONSTRAINT cached_results_pkey, ADD PRIMARY KEY (scope, owner, tool, key, app);

-- As in store/sql/tools.sql, which is applied later: workers call it meanwhile, and the old one needs the old key.
CREATE OR REPLACE FUNCTION cache_result(
  p_scope text, p_session text, p_user text, p_tool text, p_key text, p_value jsonb, p_ttl_ms double precision
) RETURNS void LANGUAGE sql AS $$
  INSERT INTO cached_results (app, scope, owner, tool, key, value, expires_at)
  SELECT app, p_scope, CASE p_scope WHEN 'session' THEN p_session WHEN 'user' THEN p_user ELSE '' END, p_tool, p_key, p_value,
         clock_timestamp() + p_ttl_ms * interval '1 millisecond'
    FROM chat_sessions WHERE session_id = p_session FOR KEY SHARE
  ON CONFLICT (scope, owner, tool, key, app) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
$$;
