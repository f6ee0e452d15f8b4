-- A session's alias is looked up by the session where a user's sessions are listed to the user's tabs.
CREATE INDEX session_aliases_by_session ON session_aliases (session_id);
