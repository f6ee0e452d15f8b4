-- Scoped state: values, the events that change them, and the sessions of SessionService.

-- Whose a key of a scope is: the session, the user, or '' for the app.
CREATE OR REPLACE FUNCTION state_owner(p_scope text, p_session text, p_user text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_scope WHEN 'session' THEN p_session WHEN 'user' THEN p_user ELSE '' END
$$;

-- The full name of a key.
CREATE OR REPLACE FUNCTION state_name(p_scope text, p_key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_scope WHEN 'session' THEN p_key ELSE p_scope || ':' || p_key END
$$;

-- Changes with every key of a scope: the number of its keys and the sum of their versions.
CREATE OR REPLACE FUNCTION scope_mark(p_app text, p_scope text, p_owner text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat(count(*), '+', sum(version)) FROM scoped_state WHERE app = p_app AND scope = p_scope AND owner = p_owner
$$;

-- The state that a session sees, as [{ scope, key, value, version }], and the scopes of which something was left out. Every
-- tool call loads it, so it is bounded: at most 1,000 keys and 256 KiB per scope, in order of keys (the limits of
-- domain/state-keys.ts). A value of more than 64 KiB is left out without being read: writers store its length as JSON, which
-- the limits count; what Postgres stores may be longer or shorter.
CREATE OR REPLACE FUNCTION load_state(p_session text, p_user text, OUT state jsonb, OUT incomplete jsonb)
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('scope', scope, 'key', key, 'value', value, 'version', version))
                  FILTER (WHERE fits), '[]'),
         coalesce(jsonb_agg(DISTINCT scope) FILTER (WHERE NOT fits), '[]')
    FROM (
      SELECT owned.scope, entry.key, entry.value, entry.version,
             entry.nth <= 1000 AND entry.bytes <= 65536
             AND sum(entry.bytes) FILTER (WHERE entry.bytes <= 65536)
                   OVER (PARTITION BY owned.scope ORDER BY entry.key) <= 262144 AS fits
        FROM (SELECT app FROM chat_sessions WHERE session_id = p_session) AS chat
        CROSS JOIN (VALUES ('session', p_session), ('user', p_user), ('app', '')) AS owned(scope, owner)
        CROSS JOIN LATERAL (
          SELECT key, value, version, coalesce(bytes, octet_length(key) + pg_column_size(value)) AS bytes,
                 row_number() OVER (ORDER BY key) AS nth
            FROM scoped_state s
           WHERE s.app = chat.app AND s.scope = owned.scope AND s.owner = owned.owner
           ORDER BY key
           LIMIT 1001) AS entry
    ) AS entries
$$;

-- Refuses a change: the statement or block around it is undone. The detail names the key. PD002: another writer changed the
-- key since it was read; PD003: it holds something else than a number; PD004: its scope is full.
CREATE OR REPLACE FUNCTION refuse_change(p_code text, p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a change of state was refused' USING ERRCODE = p_code, DETAIL = p_name;
END $$;

-- Carries out one change { scope, key, value? | increment?, bytes?, seen? } and returns { name, value?, version, removed? };
-- without a value the key is gone, and `removed` tells whether it was there. `seen` is the version that the key must have, 0 for
-- none.
CREATE OR REPLACE FUNCTION change_state(p_app text, p_owner text, p_change jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_scope text := p_change ->> 'scope';
  v_key text := p_change ->> 'key';
  v_name text := state_name(v_scope, v_key);
  v_seen bigint := p_change ->> 'seen';
  v_by float8 := p_change ->> 'increment';
  v_row scoped_state;
  v_new boolean;
BEGIN
  IF v_by IS NULL AND NOT p_change ? 'value' THEN
    DELETE FROM scoped_state WHERE app = p_app AND scope = v_scope AND owner = p_owner AND key = v_key RETURNING * INTO v_row;
    IF v_seen IS NOT NULL AND v_seen <> coalesce(v_row.version, 0) THEN PERFORM refuse_change('PD002', v_name); END IF;
    RETURN jsonb_build_object('name', v_name, 'version', 0, 'removed', v_row.key IS NOT NULL);
  END IF;
  INSERT INTO scoped_state AS stored (app, scope, owner, key, value, bytes)
  VALUES (p_app, v_scope, p_owner, v_key, coalesce(p_change -> 'value', to_jsonb(v_by)),
          coalesce((p_change ->> 'bytes')::integer, octet_length(v_name) + octet_length((p_change -> 'value')::text)))
  ON CONFLICT (app, scope, owner, key) DO UPDATE
     SET value = CASE WHEN v_by IS NULL THEN excluded.value ELSE to_jsonb((stored.value #>> '{}')::float8 + v_by) END,
         bytes = excluded.bytes, version = nextval('state_versions'), updated_at = clock_timestamp()
   WHERE (v_seen IS NULL OR stored.version = v_seen) AND (v_by IS NULL OR jsonb_typeof(stored.value) = 'number')
  RETURNING stored.app, stored.scope, stored.owner, stored.key, stored.value, stored.updated_at, stored.version,
            stored.xmax = 0 INTO v_row.app, v_row.scope, v_row.owner, v_row.key, v_row.value, v_row.updated_at,
            v_row.version, v_new;
  IF v_row.key IS NULL THEN
    PERFORM refuse_change(CASE WHEN v_by IS NULL THEN 'PD002' ELSE 'PD003' END, v_name);
  ELSIF v_new AND v_seen > 0 THEN
    PERFORM refuse_change('PD002', v_name);
  END IF;
  RETURN jsonb_build_object('name', v_name, 'value', v_row.value, 'version', v_row.version);
END $$;

-- Refuses a scope with more than 1,000 keys or 256 KiB (domain/state-keys.ts). Writers at the same time do not see each other's
-- keys, so those of a scope that sessions share check it one after the other, under a lock that they hold until they commit.
-- Those that add little share the lock while the scope is at most half full: what as many of them as there are connections add
-- unseen fits into the other half. A session's own keys have one writer at a time, who has locked the session.
CREATE OR REPLACE FUNCTION check_scope(p_app text, p_scope text, p_owner text, p_little boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_lock bigint := hashtextextended('state/' || p_app || '/' || p_scope || '/' || p_owner, 0);
  v_shares boolean := p_little AND p_scope <> 'session';
  v_keys bigint;
  v_bytes bigint;
BEGIN
  LOOP
    BEGIN
      IF v_shares THEN PERFORM pg_advisory_xact_lock_shared(v_lock);
      ELSIF p_scope <> 'session' THEN PERFORM pg_advisory_xact_lock(v_lock);
      END IF;
      SELECT count(*), sum(bytes) INTO v_keys, v_bytes
        FROM scoped_state WHERE app = p_app AND scope = p_scope AND owner = p_owner;
      IF v_keys > 1000 OR v_bytes > 262144 THEN PERFORM refuse_change('PD004', p_scope); END IF;
      IF NOT v_shares OR v_keys <= 500 AND v_bytes <= 131072 THEN RETURN; END IF;
      RAISE SQLSTATE 'PD005';
    EXCEPTION WHEN SQLSTATE 'PD005' THEN
      -- The shared lock was given back with this block: two that kept it would wait for each other.
      v_shares := false;
    END;
  END LOOP;
END $$;

-- Carries out changes, all or none; `temp:` is left out. Keys are written in sorted order, so that two sessions of a user
-- cannot deadlock, and the last change of a key counts. Returns { set: {name: value}, deleted: [name], removed: [name],
-- versions: {name: version} }: `removed` are those of the `deleted` keys that were there.
CREATE OR REPLACE FUNCTION change_states(p_app text, p_session text, p_user text, p_changes jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_change jsonb;
  v_done jsonb;
  v_set jsonb := '{}';
  v_removed text[] := '{}';
  v_versions jsonb := '{}';
  v_scope text;
  v_little boolean;
  v_writers integer := current_setting('max_connections');
BEGIN
  FOR v_change IN
    SELECT change FROM jsonb_array_elements(p_changes) WITH ORDINALITY AS given(change, n)
     WHERE change ->> 'scope' <> 'temp'
     ORDER BY change ->> 'scope', change ->> 'key', n
  LOOP
    v_done := change_state(p_app, state_owner(v_change ->> 'scope', p_session, p_user), v_change);
    v_versions := v_versions || jsonb_build_object(v_done ->> 'name', v_done -> 'version');
    v_set := CASE WHEN v_done ? 'value' THEN v_set || jsonb_build_object(v_done ->> 'name', v_done -> 'value')
                  ELSE v_set - (v_done ->> 'name') END;
    IF (v_done ->> 'removed')::boolean THEN v_removed := v_removed || (v_done ->> 'name'); END IF;
  END LOOP;
  FOR v_scope, v_little IN
    SELECT change ->> 'scope', v_writers * count(*) <= 500
             AND v_writers * sum(coalesce((change ->> 'bytes')::integer, octet_length(change::text))) <= 131072
      FROM jsonb_array_elements(p_changes) AS change
     WHERE change ->> 'scope' <> 'temp' AND (change ? 'value' OR change ? 'increment') GROUP BY 1 ORDER BY 1
  LOOP
    PERFORM check_scope(p_app, v_scope, state_owner(v_scope, p_session, p_user), v_little);
  END LOOP;
  RETURN (
    SELECT jsonb_build_object('set', v_set, 'versions', v_versions, 'deleted', coalesce(jsonb_agg(name ORDER BY name), '[]'),
             'removed', coalesce(jsonb_agg(name ORDER BY name) FILTER (WHERE name = ANY (v_removed)), '[]'))
      FROM jsonb_object_keys(v_versions) AS name WHERE NOT v_set ? name);
END $$;

-- Epoch microseconds of a session's newest event of state; strictly increasing.
CREATE OR REPLACE FUNCTION state_time(p_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT (extract(epoch FROM p_at) * 1000000)::bigint
$$;

-- Appends an event of state to a session's log, with what it changed (change_states). Its version is drawn after every change:
-- of two events that changed the same key, the later one has the greater version. What it removed is logged as deleted, but not
-- a key that was not there: another event, whose version is lower, may set that one in a transaction that commits later.
-- Returns { seq, at }.
CREATE OR REPLACE FUNCTION log_state(
  p_session text, p_actor text, p_event jsonb, p_done jsonb, p_extra jsonb, p_command_id text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_seq bigint;
  v_at timestamptz;
BEGIN
  v_seq := append_event(p_session, 'state', p_actor, p_extra || jsonb_build_object(
    'event', p_event, 'version', nextval('state_versions'), 'set', p_done -> 'set', 'deleted', p_done -> 'removed'),
    p_command_id);
  UPDATE chat_sessions
     SET state_updated_at = greatest(clock_timestamp(), state_updated_at + interval '1 microsecond')
   WHERE session_id = p_session
  RETURNING state_updated_at INTO v_at;
  RETURN jsonb_build_object('seq', v_seq, 'at', state_time(v_at));
END $$;

-- Applies and logs what a tool call changed, and keeps its `temp:` changes with the run. Returns null, or why the result
-- cannot stand: then nothing was changed.
CREATE OR REPLACE FUNCTION commit_tool_state(p_session text, p_run integer, p_call text, p_tool text, p_changes jsonb)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_user text;
  v_app text;
  v_done jsonb;
  v_name text;
BEGIN
  SELECT s.user_id, c.app INTO v_user, v_app
    FROM sessions s JOIN chat_sessions c USING (session_id) WHERE s.session_id = p_session;
  v_done := change_states(v_app, p_session, v_user, p_changes);
  IF v_done -> 'versions' <> '{}' THEN
    PERFORM log_state(p_session, 'tool', jsonb_build_object(
      'id', 'tool:' || p_call, 'invocationId', p_run::text, 'author', p_tool,
      'timestamp', extract(epoch FROM clock_timestamp()),
      'actions', jsonb_build_object('stateDelta', v_done -> 'set', 'stateDeletions', v_done -> 'deleted')), v_done, '{}', NULL);
  END IF;
  UPDATE chat_runs SET temp = change_temp(coalesce(temp, '{}'), p_changes)
   WHERE session_id = p_session AND seq = p_run AND jsonb_path_exists(p_changes, '$[*] ? (@.scope == "temp")');
  RETURN NULL;
EXCEPTION
  WHEN SQLSTATE 'PD002' THEN
    GET STACKED DIAGNOSTICS v_name = PG_EXCEPTION_DETAIL;
    RETURN format('StaleState: "%s" was changed while the tool ran, so its changes of state were not stored.', v_name);
  WHEN SQLSTATE 'PD003' THEN
    GET STACKED DIAGNOSTICS v_name = PG_EXCEPTION_DETAIL;
    RETURN format('The state key "%s" does not hold a number, so nothing was added to it.', v_name);
  WHEN SQLSTATE 'PD004' THEN
    GET STACKED DIAGNOSTICS v_name = PG_EXCEPTION_DETAIL;
    RETURN format('The scope "%s" of state is full, so the changes of state were not stored.', v_name);
  WHEN numeric_value_out_of_range THEN
    RETURN 'A sum in state would not be a finite number, so the changes of state were not stored.';
END $$;

-- `temp:` values after changes, of which other scopes are left out. PD003: an increment of something else than a number.
CREATE OR REPLACE FUNCTION change_temp(p_temp jsonb, p_changes jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_temp jsonb := p_temp;
  v_change jsonb;
  v_key text;
BEGIN
  FOR v_change IN SELECT jsonb_path_query(p_changes, '$[*] ? (@.scope == "temp")') LOOP
    v_key := v_change ->> 'key';
    IF v_change ? 'increment' AND jsonb_typeof(v_temp -> v_key) <> 'number' THEN
      PERFORM refuse_change('PD003', state_name('temp', v_key));
    END IF;
    v_temp := CASE
      WHEN v_change ? 'value' THEN v_temp || jsonb_build_object(v_key, v_change -> 'value')
      WHEN v_change ? 'increment' THEN v_temp || jsonb_build_object(
        v_key, coalesce((v_temp ->> v_key)::float8, 0) + (v_change ->> 'increment')::float8)
      ELSE v_temp - v_key END;
  END LOOP;
  RETURN v_temp;
END $$;
