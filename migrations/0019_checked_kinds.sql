-- Reads chat_runs under a lock that lets its readers and writers go on.
ALTER TABLE chat_runs VALIDATE CONSTRAINT chat_runs_kind_check;
