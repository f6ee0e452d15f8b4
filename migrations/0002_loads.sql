-- The newest load of a session by its workflow, by which an older one is told: see load_session.
ALTER TABLE chat_sessions
  ADD COLUMN load_execution text,    -- Temporal's run id
  ADD COLUMN load_number    integer, -- counts the loads of this execution
  ADD COLUMN load_asked_at  bigint;  -- when the workflow asked, by Temporal's clock, in epoch milliseconds
