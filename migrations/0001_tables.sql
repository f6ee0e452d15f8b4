-- The state of sessions. Exactly these seven columns (S1); a row stays under 1 KB.
CREATE TABLE sessions (
  session_id   text PRIMARY KEY CHECK (session_id ~ '^ses_[0-9a-f]{12}[0-9A-Za-z]{14}$'),
  user_id      text NOT NULL CHECK (octet_length(user_id) BETWEEN 1 AND 128),
  project_id   text CHECK (octet_length(project_id) BETWEEN 1 AND 64),
  phase        text NOT NULL CHECK (phase IN ('chatting', 'building', 'verifying', 'done')),
  pending_tool jsonb CHECK (
    jsonb_typeof(pending_tool) = 'object'
    AND pending_tool ?& ARRAY['tool_call_id', 'name', 'message_id', 'step', 'started_at']
    AND pending_tool - ARRAY['tool_call_id', 'name', 'message_id', 'step', 'started_at'] = '{}'
    AND jsonb_typeof(pending_tool -> 'step') = 'number'
    AND NOT jsonb_path_exists(pending_tool - 'step', '$.* ? (@.type() != "string")')
    AND octet_length(pending_tool::text) <= 512
  ),
  cancel_token text CHECK (octet_length(cancel_token) BETWEEN 1 AND 64),
  updated_at   timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);
CREATE INDEX sessions_by_user ON sessions (user_id, session_id);
CREATE INDEX sessions_by_project ON sessions (project_id) WHERE project_id IS NOT NULL;

-- The state machine. `npm run migrate` fills it from domain/phases.ts; nothing else writes it.
CREATE TABLE phase_transitions (
  phase text NOT NULL,
  event text NOT NULL,
  next  text NOT NULL,
  PRIMARY KEY (phase, event)
);

-- The settings and usage sums of a session's chat. Its row is the session lock (lock_session).
CREATE TABLE chat_sessions (
  session_id        text PRIMARY KEY REFERENCES sessions,
  agent             text NOT NULL,
  workspace_root    text,
  model             text,
  parent_id         text,
  parent_message_id text,
  permissions       jsonb NOT NULL DEFAULT '[]',
  metadata          jsonb NOT NULL DEFAULT '{}',
  prompt_tokens     bigint NOT NULL DEFAULT 0,
  completion_tokens bigint NOT NULL DEFAULT 0,
  reasoning_tokens  bigint NOT NULL DEFAULT 0,
  cache_read        bigint NOT NULL DEFAULT 0,
  cache_write       bigint NOT NULL DEFAULT 0,
  total_tokens      bigint NOT NULL DEFAULT 0,
  cost_usd          numeric,
  epoch             integer NOT NULL DEFAULT 0, -- increased by every load by a workflow: the first part of a fence
  load_execution    text,                       -- the newest load (load_session): Temporal's run id,
  load_number       integer,                    -- number of the load in this execution,
  load_asked_at     bigint,                     -- when the workflow asked: Temporal's clock, epoch milliseconds
  paused_at         timestamptz,                -- an error stopped the queue; the next message clears it
  closed_at         timestamptz,
  archived_at       timestamptz,
  stuck_at          timestamptz,                -- since when the deployed code cannot replay its workflow
  created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);
CREATE INDEX chat_sessions_stuck ON chat_sessions (session_id) WHERE stuck_at IS NOT NULL;

CREATE TABLE chat_messages (
  id         text NOT NULL CHECK (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  session_id text NOT NULL REFERENCES chat_sessions,
  position   bigint NOT NULL,
  role       text NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
  metadata   jsonb NOT NULL DEFAULT '{}',
  hidden_at  timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, id),
  UNIQUE (session_id, position)
);

-- `data` is a part of the AI SDK's UIMessage. While a part streams, its newest text is in part_deltas.
CREATE TABLE chat_parts (
  id           text NOT NULL,
  message_id   text NOT NULL,
  session_id   text NOT NULL,
  index        integer NOT NULL,
  type         text NOT NULL,
  data         jsonb NOT NULL,
  tool_call_id text,
  tool_state   text CHECK (
    tool_state IN ('input-streaming', 'input-available', 'approval-requested', 'approval-responded',
                   'output-available', 'output-error', 'output-denied')
  ),
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, id),
  UNIQUE (session_id, message_id, index),
  UNIQUE (session_id, tool_call_id)
);

-- Streamed text; rows are inserted and deleted, never updated. `start` is the offset in the part's text, in UTF-16 units.
CREATE TABLE part_deltas (
  session_id text NOT NULL,
  part_id    text NOT NULL,
  start      integer NOT NULL,
  text       text NOT NULL,
  PRIMARY KEY (session_id, part_id, start)
);

-- One row per turn: queue, status and fence.
CREATE TABLE chat_runs (
  session_id         text NOT NULL REFERENCES chat_sessions,
  seq                integer NOT NULL,
  message_id         text NOT NULL,
  answer_id          text NOT NULL,
  model              text,
  state              text NOT NULL DEFAULT 'queued' CHECK (
    state IN ('queued', 'running', 'waiting', 'finished', 'aborted', 'error', 'cancelled')
  ),
  fence              integer[] NOT NULL DEFAULT '{0,0,0}', -- (epoch, ordinal, attempt) of the newest claim
  step               integer NOT NULL DEFAULT 0,           -- steps settled so far
  settled_parts      integer NOT NULL DEFAULT 0,           -- parts of the answer that settled steps own
  last_step          jsonb,                                -- idempotency record of the newest settled step; ids and counts
  tokens             bigint NOT NULL DEFAULT 0,            -- used so far, without cache reads
  retry              jsonb,                                -- { attempt, reason, at } while it waits for a retry
  progress           jsonb,                                -- { tool_call_id, data } of the running tool
  temp               jsonb,                                -- `temp:` state; deleted when the turn ends
  error_code         text,
  error_message      text,
  abort_requested_at timestamptz,
  created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  started_at         timestamptz,
  finished_at        timestamptz,
  check_at           timestamptz,                          -- when the sweeper checks it next; null: parked (sweep.sql)
  updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, seq)
) WITH (fillfactor = 70);
-- The message comes first: on a new table the planner considered an index on (session_id, …) as cheap as the primary key,
-- and each lookup of one run then read all runs of its session.
CREATE INDEX chat_runs_of_message ON chat_runs (message_id, session_id);
CREATE UNIQUE INDEX chat_runs_one_at_a_time ON chat_runs (session_id) WHERE state IN ('running', 'waiting');
CREATE INDEX chat_runs_queue ON chat_runs (session_id, seq) WHERE state IN ('queued', 'running', 'waiting');
CREATE INDEX chat_runs_due ON chat_runs (state, check_at) WHERE check_at IS NOT NULL;

-- The event log of a session: transitions, refusals, commands with their outcomes (one row per command id).
CREATE TABLE session_events (
  session_id text NOT NULL REFERENCES chat_sessions,
  seq        bigint NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  kind       text NOT NULL,
  actor      text NOT NULL,
  data       jsonb NOT NULL DEFAULT '{}',
  command_id text,
  PRIMARY KEY (session_id, seq),
  UNIQUE (session_id, command_id)
);

-- The id that a client chose for a session of its user.
CREATE TABLE session_aliases (
  user_id    text NOT NULL,
  alias      text NOT NULL CHECK (octet_length(alias) BETWEEN 1 AND 128),
  session_id text NOT NULL REFERENCES sessions,
  PRIMARY KEY (user_id, alias)
);
CREATE INDEX session_aliases_by_session ON session_aliases (session_id);

CREATE TABLE projects (
  project_id text PRIMARY KEY CHECK (project_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  user_id    text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE project_todos (
  project_id text NOT NULL REFERENCES projects,
  name       text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 256),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  done_at    timestamptz,
  PRIMARY KEY (project_id, name)
);
CREATE TABLE scoped_state (
  scope      text NOT NULL CHECK (scope IN ('session', 'user', 'app')),
  owner      text NOT NULL, -- the session id, the user id, or '' for the app
  key        text NOT NULL,
  value      jsonb NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (scope, owner, key)
);
CREATE TABLE tool_cache (
  session_id text NOT NULL,
  key        text NOT NULL,
  value      jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (session_id, key)
);
-- The full output of tool calls whose output was truncated for the model.
CREATE TABLE tool_outputs (
  session_id   text NOT NULL,
  tool_call_id text NOT NULL,
  output       text NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, tool_call_id)
);
-- The sections of system prompts, each stored once, and the prompts of each session.
CREATE TABLE prompt_sections (
  digest     text PRIMARY KEY, -- SHA-256 of the body
  body       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE system_prompts (
  session_id text NOT NULL,
  digest     text NOT NULL,   -- SHA-256 of all sections, as in a message's metadata
  sections   text[] NOT NULL, -- digests, in the prompt's order
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, digest)
);
CREATE INDEX system_prompts_by_section ON system_prompts USING gin (sections);

-- Work that erasures left to do outside of Postgres: workflows to terminate, folders to remove. No content.
CREATE TABLE erasures (
  id          bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  workflow_id text,
  folder      text,
  passes      integer NOT NULL DEFAULT 0,
  due_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX erasures_due ON erasures (due_at);

-- For retention, erasure of side chats, and erasure of users.
CREATE INDEX session_events_refused ON session_events (at) WHERE kind = 'refused';
CREATE INDEX tool_cache_expired ON tool_cache (expires_at);
CREATE INDEX tool_outputs_by_age ON tool_outputs (created_at);
CREATE INDEX chat_sessions_by_parent ON chat_sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX projects_by_user ON projects (user_id);

-- A trigger's function must exist before the trigger. These placeholders refuse every write until the same migration run
-- replaces them with store/sql/guards.sql and sweep.sql.
CREATE FUNCTION guard_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE FUNCTION guard_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE FUNCTION guard_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION guard_sessions();
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON chat_messages FOR EACH ROW EXECUTE FUNCTION guard_messages();
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON session_events FOR EACH ROW EXECUTE FUNCTION guard_events();
CREATE FUNCTION schedule_own_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE FUNCTION schedule_head_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE TRIGGER own_check BEFORE INSERT OR UPDATE OF state ON chat_runs
  FOR EACH ROW EXECUTE FUNCTION schedule_own_check();
CREATE TRIGGER head_check AFTER UPDATE OF state ON chat_runs
  FOR EACH ROW WHEN (NEW.state NOT IN ('queued', 'running')) EXECUTE FUNCTION schedule_head_check();
CREATE TRIGGER head_check AFTER UPDATE OF paused_at, stuck_at ON chat_sessions
  FOR EACH ROW WHEN ((NEW.paused_at IS NULL) <> (OLD.paused_at IS NULL) OR (NEW.stuck_at IS NULL) <> (OLD.stuck_at IS NULL))
  EXECUTE FUNCTION schedule_head_check();
