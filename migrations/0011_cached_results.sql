-- What tools keep with ctx.cache, per tool and scope. It replaces tool_cache, which older workers still use.
CREATE TABLE cached_results (
  scope      text NOT NULL CHECK (scope IN ('session', 'user', 'app')),
  owner      text NOT NULL, -- the session id, the user id, or '' for the app
  tool       text NOT NULL,
  key        text NOT NULL,
  value      jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (scope, owner, tool, key)
);
CREATE INDEX cached_results_expired ON cached_results (expires_at);
