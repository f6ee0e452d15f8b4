-- In which language messages are indexed for the search, and how far those that were indexed in another way are indexed again.
CREATE TABLE search_index (
  is_only       boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  language      text NOT NULL, -- a text search configuration of Postgres
  again_session text,          -- the last row of message_search that was indexed again; null: all are
  again_message text
);
INSERT INTO search_index (language, again_session, again_message)
SELECT 'simple', first, first FROM (SELECT CASE WHEN EXISTS (SELECT FROM message_search) THEN '' END AS first);

-- search_messages and snippet_of stay, because older hosts call them during an update; a later migration drops them.
