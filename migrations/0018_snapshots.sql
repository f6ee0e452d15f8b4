-- The snapshot of the session's files that a worker is to restore after it went back (fields: store/sql/snapshots.sql); null: none.
ALTER TABLE chat_sessions ADD COLUMN restore jsonb;
