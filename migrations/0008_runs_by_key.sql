-- A run is found by its key, a session's runs by that key's first column. Beside it the old index looked as cheap to the
-- planner wherever a table was new to it, and then every look at a run read all runs of its session.

-- What an attempt has left that broke off is not valid.
DROP INDEX CONCURRENTLY IF EXISTS chat_runs_of_message;
CREATE INDEX CONCURRENTLY chat_runs_of_message ON chat_runs (message_id, session_id);
DROP INDEX CONCURRENTLY IF EXISTS chat_runs_by_message;
