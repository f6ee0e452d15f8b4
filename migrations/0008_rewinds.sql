-- The rewinds that can be undone, oldest first (store/sql/rewind.sql); null: none. The next message of the user clears them.
ALTER TABLE chat_sessions ADD COLUMN rewinds jsonb;

-- For undoing a rewind, and for a rewind to before a compaction. Visible messages are not in it, so turns do not pay for it.
CREATE INDEX chat_messages_hidden ON chat_messages (session_id, position) WHERE hidden_at IS NOT NULL;
