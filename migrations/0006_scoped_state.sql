-- State belongs to an app, and every key has a version, which the fence of store/sql/state.sql compares.

CREATE SEQUENCE state_versions;

ALTER TABLE chat_sessions
  ADD COLUMN app text NOT NULL DEFAULT 'perdure' CHECK (octet_length(app) BETWEEN 1 AND 128),
  ADD COLUMN state_updated_at timestamptz NOT NULL DEFAULT clock_timestamp(); -- increased by every event of state
CREATE INDEX chat_sessions_by_app ON chat_sessions (app, session_id) WHERE app <> 'perdure';

ALTER TABLE session_aliases ADD COLUMN app text NOT NULL DEFAULT 'perdure';
ALTER TABLE session_aliases DROP CONSTRAINT session_aliases_pkey, ADD PRIMARY KEY (user_id, app, alias);

ALTER TABLE scoped_state
  ADD COLUMN app text NOT NULL DEFAULT 'perdure',
  ADD COLUMN version bigint NOT NULL DEFAULT nextval('state_versions'),
  ADD COLUMN bytes integer; -- length of name and value, as the limit of a scope counts it
UPDATE scoped_state SET bytes = octet_length(key) + octet_length(value::text);
ALTER TABLE scoped_state DROP CONSTRAINT scoped_state_pkey, ADD PRIMARY KEY (app, scope, owner, key);

-- What events of erased sessions changed in the scopes that outlive them. Together with session_events of kind "state" they
-- give the state of every user and app.
CREATE TABLE scope_events (
  version bigint PRIMARY KEY,
  app     text NOT NULL,
  user_id text,            -- null: nothing of `user:` in it, or the user was erased
  at      timestamptz NOT NULL,
  author  text,
  data    jsonb NOT NULL   -- { set, deleted }
);
CREATE INDEX scope_events_by_user ON scope_events (user_id, version) WHERE user_id IS NOT NULL;

CREATE INDEX session_events_state ON session_events (session_id, seq) WHERE kind = 'state';
