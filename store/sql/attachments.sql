-- Attachments: files of users, and their contents, which branches share.

-- What callers see of an attachment.
CREATE OR REPLACE FUNCTION attachment_view(p_attachment attachments) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object(
    'attachment_id', p_attachment.attachment_id, 'content_id', p_attachment.content_id,
    'media_type', p_attachment.media_type, 'filename', p_attachment.filename, 'size', p_attachment.size)
$$;

-- Gives a session a stored content as an attachment, or finds the attachment that has the same bytes already: the content stays
-- unused then. Null: there is no such session.
CREATE OR REPLACE FUNCTION attach(
  p_session text, p_attachment text, p_content text, p_digest text, p_media_type text, p_filename text, p_size bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  -- An erasure deletes either the attachment, too, or the session first.
  PERFORM FROM chat_sessions WHERE session_id = p_session FOR KEY SHARE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO attachments (session_id, attachment_id, content_id, digest, media_type, filename, size)
  VALUES (p_session, p_attachment, p_content, decode(p_digest, 'hex'), p_media_type, p_filename, p_size)
  ON CONFLICT (session_id, digest) DO NOTHING;
  IF FOUND THEN
    UPDATE attachment_contents SET unused_since = NULL WHERE content_id = p_content;
    IF NOT FOUND THEN RAISE EXCEPTION 'the content % was deleted before it was attached', p_content; END IF;
  END IF;
  RETURN (SELECT attachment_view(a) FROM attachments a
           WHERE session_id = p_session AND digest = decode(p_digest, 'hex'));
END $$;

-- The URLs of attachments in the file parts of a session and in the outputs of its tools; without `data:` URLs, which may be long.
CREATE OR REPLACE FUNCTION file_urls(p_session text) RETURNS SETOF text LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  SELECT data ->> 'url' FROM chat_parts WHERE session_id = p_session AND type = 'file' AND data ->> 'url' LIKE 'perdure:%'
  UNION ALL
  SELECT jsonb_path_query(data, '$.output.content[*].url ? (@ starts with "perdure:")') #>> '{}'
    FROM chat_parts WHERE session_id = p_session AND tool_state = 'output-available'
$$;

-- Gives a copy of a session the attachments that its messages refer to.
CREATE OR REPLACE FUNCTION copy_attachments(p_session text, p_copy text) RETURNS void LANGUAGE sql SET enable_seqscan = off AS $$
  INSERT INTO attachments (session_id, attachment_id, content_id, digest, media_type, filename, size, created_at)
  SELECT p_copy, attachment_id, content_id, digest, media_type, filename, size, created_at
    FROM attachments
   WHERE session_id = p_session
     AND 'perdure:' || attachment_id IN (SELECT file_urls(p_copy))
$$;

-- Deletes the attachments of sessions. Contents that no other session has are left to a worker, which deletes one at a time
-- (claim_unused_contents): together they may be larger than what one statement deletes in its time.
CREATE OR REPLACE FUNCTION drop_attachments(p_sessions text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_contents text[] := ARRAY(SELECT DISTINCT content_id FROM attachments WHERE session_id = ANY (p_sessions));
BEGIN
  IF v_contents = '{}' THEN RETURN; END IF;
  -- Of two erasures with the same content the second one sees what the first has deleted.
  PERFORM FROM attachment_contents WHERE content_id = ANY (v_contents) ORDER BY content_id FOR UPDATE;
  DELETE FROM attachments WHERE session_id = ANY (p_sessions);
  UPDATE attachment_contents AS content SET unused_since = '-infinity'
   WHERE content_id = ANY (v_contents) AND NOT EXISTS (SELECT FROM attachments WHERE content_id = content.content_id);
END $$;

-- Claims contents that no attachment has for a minute: those of erased sessions, and of uploads that did not end within an hour.
CREATE OR REPLACE FUNCTION claim_unused_contents(p_limit integer) RETURNS jsonb LANGUAGE sql AS $$
  WITH claimed AS (
    UPDATE attachment_contents SET unused_since = now() - interval '59 minutes'
     WHERE content_id IN (SELECT content_id FROM attachment_contents
                           WHERE unused_since < now() - interval '1 hour'
                           ORDER BY unused_since LIMIT p_limit FOR UPDATE SKIP LOCKED)
    RETURNING content_id, place
  )
  SELECT coalesce(jsonb_agg(to_jsonb(claimed)), '[]') FROM claimed
$$;

-- Deletes the rows of an unused content.
CREATE OR REPLACE FUNCTION drop_content(p_content text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM attachment_contents WHERE content_id = p_content AND unused_since IS NOT NULL;
  IF FOUND THEN DELETE FROM attachment_chunks WHERE content_id = p_content; END IF;
END $$;
