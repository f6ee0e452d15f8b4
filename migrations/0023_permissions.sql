-- Permission rules of projects, and runs that wait for an answer. The rules of a session are in chat_sessions.permissions.
CREATE TABLE project_permissions (
  project_id text NOT NULL REFERENCES projects,
  rule_id    text NOT NULL,
  n          bigint NOT NULL GENERATED ALWAYS AS IDENTITY, -- the order in which they were made
  permission text NOT NULL,
  pattern    text NOT NULL CHECK (octet_length(pattern) <= 8192),
  action     text NOT NULL CHECK (action IN ('allow', 'deny', 'ask')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (project_id, rule_id)
);

-- A session without anybody to ask: what asks is denied.
ALTER TABLE chat_sessions ADD COLUMN headless boolean NOT NULL DEFAULT false;

-- What a run in the state `waiting` waits for: { tool_call_id, for: approval | output, since, until? }.
ALTER TABLE chat_runs ADD COLUMN waiting jsonb;
-- How long it has waited so far, in milliseconds: this does not count as its time.
ALTER TABLE chat_runs ADD COLUMN waited_ms bigint NOT NULL DEFAULT 0;
-- What the page gave as the outcome of a tool call that it carried out, { tool_call_id, output | error }, until it is settled.
ALTER TABLE chat_runs ADD COLUMN given jsonb;
