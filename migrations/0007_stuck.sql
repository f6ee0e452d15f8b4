-- When a session was found whose workflow the deployed code cannot carry on; null: it goes on.
ALTER TABLE chat_sessions ADD COLUMN stuck_at timestamptz;
CREATE INDEX chat_sessions_stuck ON chat_sessions (session_id) WHERE stuck_at IS NOT NULL;

-- Notes in the row and in the log that a session is stuck, and why; with null, that it goes on again. False: it was known.
CREATE FUNCTION note_stuck(p_session text, p_cause text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_session(p_session);
  UPDATE chat_sessions
     SET stuck_at = CASE WHEN p_cause IS NOT NULL THEN clock_timestamp() END, updated_at = clock_timestamp()
   WHERE session_id = p_session AND (stuck_at IS NOT NULL) <> (p_cause IS NOT NULL);
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM append_event(p_session, CASE WHEN p_cause IS NULL THEN 'unstuck' ELSE 'stuck' END, 'system',
                       jsonb_strip_nulls(jsonb_build_object('cause', p_cause)), NULL);
  RETURN true;
END $$;
