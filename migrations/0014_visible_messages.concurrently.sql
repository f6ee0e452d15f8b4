-- What is visible, without reading what is hidden; and which answers were aborted, without reading all runs.
DROP INDEX CONCURRENTLY IF EXISTS chat_messages_visible;
CREATE INDEX CONCURRENTLY chat_messages_visible ON chat_messages (session_id, position) WHERE hidden_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS chat_runs_aborted;
CREATE INDEX CONCURRENTLY chat_runs_aborted ON chat_runs (session_id, answer_id) WHERE state = 'aborted';
