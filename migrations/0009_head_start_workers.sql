-- The worker of a head start, once that has reported: as long as the worker's lease is not found lost, the head start is in
-- progress. Null: it has not reported yet.
ALTER TABLE chat_runs ADD COLUMN head_start_worker uuid;
