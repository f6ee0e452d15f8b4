-- Ids of the agents that the worker has, the default first: hosts compare them with their own.
ALTER TABLE worker_leases ADD COLUMN agents text[];

ALTER TABLE chat_runs
  ADD COLUMN attributes    jsonb, -- what the sign-in hook passed on with the message, for prompts and tools
  ADD COLUMN prompt_digest text;  -- of the turn's system prompt, where its agent's prompt is a function
