-- Instruction files that tools wrote (store/sql/instructions.sql). Paths are relative to the folder of workspaces.

CREATE TABLE written_instructions (
  path text COLLATE "C" PRIMARY KEY
);

-- The instruction files that the tools in progress found when they began.
CREATE TABLE watched_instructions (
  session_id   text NOT NULL,
  tool_call_id text NOT NULL,
  root         text NOT NULL,  -- the session's workspace
  before       jsonb NOT NULL, -- { path: stamp }
  started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, tool_call_id)
);

-- The workspaces in which tools have run.
CREATE TABLE tool_workspaces (
  root  text COLLATE "C" PRIMARY KEY,
  since timestamptz NOT NULL DEFAULT clock_timestamp()
);
