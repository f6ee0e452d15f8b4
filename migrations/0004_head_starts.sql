-- From before the first release: a worker of the code before it fails turns that a newer worker has begun.

-- Of the run's newest step or tool call, if a worker began it as a head start (claim_run): when that worker last reported that
-- it is in progress and has no activity yet; -infinity: it has ended. Null: it has an activity.
ALTER TABLE chat_runs ADD COLUMN head_start_at timestamptz;
