-- What a restore asks of a session: whether it has made its project itself. Without the index it reads all events of one that has not.
DROP INDEX CONCURRENTLY IF EXISTS session_events_made_project;
CREATE INDEX CONCURRENTLY session_events_made_project ON session_events (session_id)
 WHERE kind = 'transition' AND actor = 'tool' AND data ? 'project_id';
