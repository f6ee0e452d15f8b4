-- Which worker settled a step or a tool call, under which fence, and how long it took. `tool_call_id` is empty for a step.
CREATE TABLE work_log (
  session_id text NOT NULL,
  run_seq integer NOT NULL,
  step integer NOT NULL,
  tool_call_id text NOT NULL,
  worker uuid NOT NULL,
  fence integer[] NOT NULL,
  -- Of a step the number of the attempt after failures of the provider, from 1.
  attempt integer NOT NULL,
  ms integer NOT NULL,
  -- From the call of the model to its first chunk.
  first_ms integer,
  ended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, run_seq, step, tool_call_id)
);
