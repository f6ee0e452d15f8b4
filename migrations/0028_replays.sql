-- The newest replay of a session's histories that somebody asked for in the console, and what came of it (worker/replays.ts).
CREATE TABLE replays (
  session_id  text PRIMARY KEY,
  asked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The worker that has claimed it last, and how often one has.
  worker      uuid,
  claimed_at  timestamptz,
  attempts    integer NOT NULL DEFAULT 0,
  finished_at timestamptz,
  -- { executions, problem }, when it is finished.
  result      jsonb
);
CREATE INDEX replays_open ON replays (asked_at) WHERE finished_at IS NULL;
