-- Files that users attach to messages. A branch has attachments of its own with the same ids, which share their content.
CREATE TABLE attachment_contents (
  content_id   text PRIMARY KEY,
  place        text NOT NULL CHECK (place IN ('postgres', 's3')), -- in attachment_chunks, or an object of this name
  unused_since timestamptz DEFAULT clock_timestamp() -- null: an attachment has this content
);
CREATE INDEX attachment_contents_unused ON attachment_contents (unused_since) WHERE unused_since IS NOT NULL;

CREATE TABLE attachment_chunks (
  content_id text NOT NULL,
  n          integer NOT NULL, -- from 0, in the order of the bytes
  bytes      bytea NOT NULL,
  PRIMARY KEY (content_id, n)
);
-- Images and PDFs are compressed already.
ALTER TABLE attachment_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE attachments (
  session_id    text NOT NULL,
  attachment_id text NOT NULL,
  content_id    text NOT NULL,
  digest        bytea NOT NULL, -- SHA-256 of the content
  media_type    text NOT NULL,
  filename      text,
  size          bigint NOT NULL, -- in bytes
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (session_id, attachment_id)
);
-- A content is stored once in a session.
CREATE UNIQUE INDEX attachments_by_digest ON attachments (session_id, digest);
CREATE INDEX attachments_by_content ON attachments (content_id);
