-- The sessions of SessionService: rows of sessions and chat_sessions, addressed by app, user, and id or alias.

-- A session of SessionService. Null: the user has none with this id in this app, or with no app given in any.
CREATE OR REPLACE FUNCTION find_state_session(p_app text, p_user text, p_id text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT s.session_id FROM sessions s JOIN chat_sessions c USING (session_id)
   WHERE s.user_id = p_user AND (p_app IS NULL OR c.app = p_app)
     AND s.session_id = CASE WHEN p_id LIKE 'ses\_%' THEN p_id
           ELSE (SELECT session_id FROM session_aliases WHERE user_id = p_user AND app = p_app AND alias = p_id) END
$$;

-- A session's events of state with a number above `p_after_seq`, oldest first: the newest `p_recent`, and of those the ones
-- after the last event that is older than `p_after` (epoch seconds). Null: no such limit.
CREATE OR REPLACE FUNCTION state_events(p_session text, p_after_seq bigint, p_recent bigint, p_after float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('seq', seq, 'at', extract(epoch FROM at), 'data', data) ORDER BY seq), '[]')
    FROM (
      SELECT seq, at, data FROM session_events
       WHERE session_id = p_session AND kind = 'state' AND NOT data ? 'initial'
         AND seq > greatest(p_after_seq, CASE WHEN p_after IS NOT NULL THEN (
               SELECT seq FROM session_events
                WHERE session_id = p_session AND kind = 'state' AND (data #>> '{event,timestamp}')::float8 < p_after
                ORDER BY seq DESC LIMIT 1) END)
       ORDER BY seq DESC LIMIT p_recent) AS newest
$$;

-- { session_id, at, seq, state, incomplete, events } of a session; `seq`: number of its newest event.
CREATE OR REPLACE FUNCTION read_state_session(p_session text, p_user text, p_after_seq bigint, p_recent bigint, p_after float8)
RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('session_id', c.session_id, 'at', state_time(c.state_updated_at), 'state', loaded.state,
                            'incomplete', loaded.incomplete, 'events', state_events(p_session, p_after_seq, p_recent, p_after),
                            'seq', (SELECT max(seq) FROM session_events WHERE session_id = p_session))
    FROM chat_sessions c CROSS JOIN load_state(p_session, p_user) AS loaded
   WHERE c.session_id = p_session
$$;

CREATE OR REPLACE FUNCTION get_state_session(p_app text, p_user text, p_id text, p_recent bigint, p_after float8)
RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT read_state_session(find_state_session(p_app, p_user, p_id), p_user, 0, p_recent, p_after)
$$;

-- Opens a session in an app, with an id of the caller's (`p_alias`) or without, and its initial state as the first event.
CREATE OR REPLACE FUNCTION create_state_session(
  p_app text, p_user text, p_alias text, p_session text, p_agent text, p_event jsonb, p_changes jsonb
) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  IF p_alias IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_user || '/' || p_alias, 0));
    IF EXISTS (SELECT FROM session_aliases WHERE user_id = p_user AND app = p_app AND alias = p_alias) THEN
      RETURN '{"code": "SessionExists"}';
    END IF;
  END IF;
  PERFORM open_session(p_session, p_user, p_agent, NULL, NULL, '{}', NULL);
  UPDATE chat_sessions SET app = p_app WHERE session_id = p_session AND app <> p_app;
  INSERT INTO session_aliases (user_id, app, alias, session_id) SELECT p_user, p_app, p_alias, p_session WHERE p_alias IS NOT NULL;
  IF p_changes <> '[]' THEN
    PERFORM log_state(p_session, 'user', p_event, change_states(p_app, p_session, p_user, p_changes), '{"initial": true}', NULL);
  END IF;
  RETURN read_state_session(p_session, p_user, 0, NULL, NULL);
END $$;

-- Appends an event of state with its changes, once per event id; a repeat may have another time stamp. `p_seen` is what the
-- writer knows of the session: { at, seq, versions, recent }. Where `versions` is false,
-- changes carry no versions of their own: then keys of the session may be written if nothing happened in it since `at`, and
-- other keys only if they do not exist. Returns { seq, at, set, deleted, versions }, and as `fresh` the session if the writer
-- has missed something, or if the event is a `repeat`, with at most `recent` of the events since `seq` (null: all); or
-- { code: SessionNotFound | EventConflict }.
CREATE OR REPLACE FUNCTION append_state_event(
  p_app text, p_user text, p_id text, p_event jsonb, p_changes jsonb, p_seen jsonb, p_actor text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(find_state_session(p_app, p_user, p_id));
  v_session text := v_chat.session_id;
  v_command text := 'event:' || (p_event ->> 'id');
  v_known jsonb;
  v_changes jsonb := p_changes;
  v_is_current boolean := state_time(v_chat.state_updated_at) = (p_seen ->> 'at')::bigint;
  v_done jsonb;
BEGIN
  IF v_session IS NULL THEN RETURN '{"code": "SessionNotFound"}'; END IF;
  SELECT data INTO v_known FROM session_events WHERE session_id = v_session AND command_id = v_command;
  IF (v_known -> 'event') - 'timestamp' <> p_event - 'timestamp' THEN
    RETURN '{"code": "EventConflict"}';
  ELSIF v_known IS NOT NULL THEN
    RETURN jsonb_build_object('repeat', true, 'fresh', read_state_session(
      v_session, p_user, (p_seen ->> 'seq')::bigint, (p_seen ->> 'recent')::bigint, NULL));
  END IF;
  IF NOT (p_seen ->> 'versions')::boolean THEN
    SELECT coalesce(jsonb_agg(CASE WHEN change ? 'increment' OR v_is_current AND change ->> 'scope' = 'session' THEN change
                                   ELSE change || '{"seen": 0}' END), '[]')
      INTO v_changes FROM jsonb_array_elements(p_changes) AS change;
  END IF;
  v_done := change_states(v_chat.app, v_session, p_user, v_changes);
  v_done := v_done || log_state(v_session, p_actor, p_event, v_done, '{}', v_command);
  IF p_seen IS NOT NULL AND NOT v_is_current THEN
    RETURN v_done || jsonb_build_object('fresh', read_state_session(
      v_session, p_user, (p_seen ->> 'seq')::bigint, (p_seen ->> 'recent')::bigint, NULL));
  END IF;
  RETURN v_done;
END $$;

-- Keeps what events of sessions that are being erased changed in the scopes that outlive them. Every row has the user, also one
-- with `app:` changes only: erasing the user finds it by that, whatever its author is called.
CREATE OR REPLACE FUNCTION keep_scope_events(p_sessions text[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO scope_events (version, app, user_id, at, author, data)
  SELECT (e.data ->> 'version')::bigint, c.app, s.user_id, e.at,
         e.data #>> '{event,author}', kept.data
    FROM session_events e JOIN chat_sessions c USING (session_id) JOIN sessions s USING (session_id)
    CROSS JOIN LATERAL (
      SELECT jsonb_build_object(
        'set', (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(e.data -> 'set') WHERE key ~ '^(user|app):'),
        'deleted', (SELECT coalesce(jsonb_agg(name), '[]') FROM jsonb_array_elements_text(e.data -> 'deleted') AS name
                     WHERE name ~ '^(user|app):')) AS data) AS kept
   WHERE e.session_id = ANY (p_sessions) AND e.kind = 'state' AND e.data ? 'version'
     AND kept.data <> '{"set": {}, "deleted": []}'
  ON CONFLICT DO NOTHING
$$;
