-- How many sessions are above this one; 0: a user opened it.
ALTER TABLE chat_sessions ADD COLUMN depth integer NOT NULL DEFAULT 0;

-- Subagents: one row per call of `task` that has opened a session (store/sql/tasks.sql). A child outlasts its row in
-- chat_sessions here, so that its parent can be told of an erasure.
CREATE TABLE tasks (
  child_id     text PRIMARY KEY,
  parent_id    text NOT NULL,
  run_seq      integer NOT NULL, -- the parent's run
  tool_call_id text NOT NULL,
  agent        text NOT NULL,
  background   boolean NOT NULL,
  token_limit  bigint NOT NULL,  -- of the parent's turn, with its children
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at     timestamptz,      -- the child has answered, or has been ended
  delivered_at timestamptz,      -- nothing is to be injected any more; of a foreground child: it has ended
  message_id   text,             -- the parent's message with the result
  due_at       timestamptz,      -- when the sweeper tells the parent; null: it knows, or there is nothing to tell
  UNIQUE (parent_id, tool_call_id)
);
CREATE INDEX tasks_of_run ON tasks (parent_id, run_seq);
CREATE INDEX tasks_open ON tasks (parent_id) WHERE delivered_at IS NULL;
CREATE INDEX tasks_due ON tasks (due_at) WHERE due_at IS NOT NULL;

CREATE FUNCTION note_task_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE TRIGGER task_over AFTER UPDATE OF state ON chat_runs
  FOR EACH ROW WHEN (NEW.state IN ('finished', 'aborted', 'error', 'cancelled')) EXECUTE FUNCTION note_task_over();
