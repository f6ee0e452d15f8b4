-- What the console reads: failures of the provider by turn and by time, turns and work by time. The BRIN indexes cost writers
-- next to nothing: rows of both tables are inserted in the order of these times.
DROP INDEX CONCURRENTLY IF EXISTS session_events_failures;
CREATE INDEX CONCURRENTLY session_events_failures ON session_events (session_id, ((data ->> 'run_seq')::integer), seq)
 WHERE kind = 'provider_error';
DROP INDEX CONCURRENTLY IF EXISTS session_events_failed_at;
CREATE INDEX CONCURRENTLY session_events_failed_at ON session_events (at) WHERE kind = 'provider_error';
DROP INDEX CONCURRENTLY IF EXISTS chat_runs_created;
CREATE INDEX CONCURRENTLY chat_runs_created ON chat_runs USING brin (created_at) WITH (pages_per_range = 16, autosummarize = on);
DROP INDEX CONCURRENTLY IF EXISTS work_log_ended;
CREATE INDEX CONCURRENTLY work_log_ended ON work_log USING brin (ended_at) WITH (pages_per_range = 16, autosummarize = on);
