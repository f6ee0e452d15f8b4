-- Full-text search (store/sql/search.sql). The words of messages whose turn is over, each with its user, so that one index finds
-- the matches of one user.
CREATE TABLE message_search (
  session_id text NOT NULL,
  message_id text NOT NULL,
  user_id    text NOT NULL,
  created_at timestamptz NOT NULL, -- the message's
  words      tsvector NOT NULL,
  PRIMARY KEY (session_id, message_id)
);
CREATE INDEX message_search_words ON message_search USING gin (words);
CREATE INDEX message_search_newest ON message_search (user_id, created_at);

-- Positions of a session whose messages are to be indexed. A turn only adds a row here.
CREATE TABLE search_queue (
  n             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  user_id       text NOT NULL,
  session_id    text NOT NULL,
  from_position bigint NOT NULL,
  to_position   bigint NOT NULL
);
CREATE INDEX search_queue_by_user ON search_queue (user_id, session_id);

INSERT INTO search_queue (user_id, session_id, from_position, to_position)
SELECT user_id, session_id, 0, 9223372036854775807 FROM sessions;
