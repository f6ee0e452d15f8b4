-- Export and import of a session as JSON lines: one of the session, then one of each attachment that its messages refer to, followed
-- by those of its content, then one of each message, followed by those of its parts in order. Ids of messages, parts and attachments
-- stay as they are: they are unique within a session.

-- A time with its microseconds, in UTC.
CREATE OR REPLACE FUNCTION exported_time(p_at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- The line of a session, without its sums, and the position at which its export ends; null: it does not exist.
CREATE OR REPLACE FUNCTION export_session(p_session text, OUT line text, OUT last bigint) LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'kind', 'session', 'version', 1, 'agent', agent, 'model', model, 'metadata', metadata,
           'created_at', exported_time(created_at), 'updated_at', exported_time(updated_at),
           'archived_at', exported_time(archived_at), 'messages', n)::text, last
    FROM chat_sessions,
         (SELECT count(*) AS n, coalesce(max(position), 0) AS last FROM chat_messages WHERE session_id = p_session) AS messages
   WHERE session_id = p_session
$$;

-- The lines of the attachments that the messages of a session refer to, and where their contents are.
CREATE OR REPLACE FUNCTION export_attachments(p_session text)
RETURNS TABLE (line text, content_id text, place text, size bigint) LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  SELECT jsonb_build_object(
           'kind', 'attachment', 'id', a.attachment_id, 'digest', encode(a.digest, 'hex'), 'media_type', a.media_type,
           'filename', a.filename, 'size', a.size, 'created_at', exported_time(a.created_at))::text, c.content_id, c.place, a.size
    FROM attachments a JOIN attachment_contents c USING (content_id)
   WHERE a.session_id = p_session AND 'perdure:' || a.attachment_id IN (SELECT file_urls(p_session))
   ORDER BY a.created_at, a.attachment_id
$$;

-- The line of a message. `run` says how its run ended, if it is an answer; an open run counts as aborted. Ids of snapshots belong
-- to the hook of this installation and stay here.
CREATE OR REPLACE FUNCTION message_line(p_message chat_messages) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'kind', 'message', 'id', p_message.id, 'position', p_message.position, 'role', p_message.role,
           'metadata', p_message.metadata - 'snapshot_id', 'hidden_at', exported_time(p_message.hidden_at),
           'created_at', exported_time(p_message.created_at), 'updated_at', exported_time(p_message.updated_at),
           'run', (SELECT CASE WHEN state IN ('finished', 'error') THEN state ELSE 'aborted' END
                     FROM chat_runs
                    WHERE session_id = p_message.session_id AND answer_id = p_message.id AND message_id = (
                          SELECT id FROM chat_messages
                           WHERE session_id = p_message.session_id AND position < p_message.position AND role = 'user'
                           ORDER BY position DESC LIMIT 1)))::text
$$;

CREATE OR REPLACE FUNCTION part_line(p_session text, p_part text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'kind', 'part', 'id', id, 'message_id', message_id, 'index', index, 'type', type, 'data', data,
           'tool_call_id', tool_call_id, 'tool_state', tool_state,
           'created_at', exported_time(created_at), 'updated_at', exported_time(updated_at))::text
    FROM chat_parts_live WHERE session_id = p_session AND id = p_part
$$;

-- The lines of a part whose own would be too long for an import: without its data, whose JSON follows in lines of half a MiB. Cut as
-- bytes: to find the characters of a text, Postgres counts from its beginning.
CREATE OR REPLACE FUNCTION long_part_lines(p_line text) RETURNS SETOF text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_line jsonb := p_line::jsonb;
  v_data bytea := convert_to((v_line -> 'data')::text, 'UTF8');
  v_length integer := length(v_data);
  v_from integer := 0;
  v_to integer;
BEGIN
  RETURN NEXT (v_line || '{"data": null}')::text;
  WHILE v_from < v_length LOOP
    v_to := least(v_from + 524288, v_length);
    -- Not within a character.
    WHILE v_to < v_length AND get_byte(v_data, v_to) & 192 = 128 LOOP v_to := v_to - 1; END LOOP;
    RETURN NEXT jsonb_build_object('kind', 'content', 'data', convert_from(substr(v_data, v_from + 1, v_to - v_from), 'UTF8'))::text;
    v_from := v_to;
  END LOOP;
END $$;

-- The next lines of an export after (position, part), up to the position `p_last`, until they have 1 MiB or are those of
-- 1,000 messages. The part of a message's own line is -1. Line by line: 50 of them may have many MiB. Without statistics, Postgres
-- would sort all messages to find the one before another.
CREATE OR REPLACE FUNCTION export_lines(p_session text, p_position bigint, p_part integer, p_last bigint)
RETURNS TABLE (at bigint, part integer, line text) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
  v_message chat_messages;
  v_part record;
  v_left integer := 1048576;
BEGIN
  FOR v_message IN
    SELECT * FROM chat_messages
     WHERE session_id = p_session AND position >= p_position AND position <= p_last
     ORDER BY position LIMIT 1000
  LOOP
    at := v_message.position;
    FOR v_part IN
      SELECT -1 AS index, NULL AS id WHERE at > p_position
      UNION ALL
      SELECT index, id FROM chat_parts
       WHERE session_id = p_session AND message_id = v_message.id AND (at > p_position OR index > p_part)
       ORDER BY index
    LOOP
      part := v_part.index;
      line := CASE WHEN v_part.id IS NULL THEN message_line(v_message) ELSE part_line(p_session, v_part.id) END;
      v_left := v_left - octet_length(line);
      IF v_part.id IS NULL OR octet_length(line) <= 3 * 1048576 THEN
        RETURN NEXT;
      ELSE
        FOR line IN SELECT long_part_lines(line) LOOP RETURN NEXT; END LOOP;
      END IF;
      IF v_left <= 0 THEN RETURN; END IF;
    END LOOP;
  END LOOP;
END $$;

-- Opens the session of an import, at chatting and without a project. `p_line` is that of the session.
CREATE OR REPLACE FUNCTION import_session(p_session text, p_user text, p_line jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM open_session(p_session, p_user, p_line ->> 'agent', NULL, p_line ->> 'model', p_line -> 'metadata', NULL);
  UPDATE chat_sessions
     SET created_at = (p_line ->> 'created_at')::timestamptz, updated_at = (p_line ->> 'updated_at')::timestamptz,
         archived_at = (p_line ->> 'archived_at')::timestamptz
   WHERE session_id = p_session;
END $$;

-- Metadata as an import stores it. A rewind's number is one of another event log.
CREATE OR REPLACE FUNCTION imported_metadata(p_metadata jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_metadata #>> '{hidden_by,id}' LIKE 'event:%'
              THEN jsonb_set(p_metadata, '{hidden_by,id}', to_jsonb('imported:' || (p_metadata #>> '{hidden_by,id}')))
              ELSE p_metadata END - 'snapshot_id'
$$;

-- Stores lines of attachments, with the `content_id` of what was stored for each, and of messages and parts. An answer with a `run`
-- gets a run of the user message before it, in that state and with the answer's steps.
CREATE OR REPLACE FUNCTION import_lines(p_session text, p_lines text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
  v_lines jsonb[] := p_lines::jsonb[];
  v_contents text[] := ARRAY(SELECT line ->> 'content_id' FROM unnest(v_lines) AS line WHERE line ->> 'kind' = 'attachment');
  v_used bigint;
BEGIN
  IF v_contents <> '{}' THEN
    INSERT INTO attachments (session_id, attachment_id, content_id, digest, media_type, filename, size, created_at)
    SELECT p_session, line ->> 'id', line ->> 'content_id', decode(line ->> 'digest', 'hex'), line ->> 'media_type',
           line ->> 'filename', (line ->> 'size')::bigint, (line ->> 'created_at')::timestamptz
      FROM unnest(v_lines) AS line WHERE line ->> 'kind' = 'attachment';
    UPDATE attachment_contents SET unused_since = NULL WHERE content_id = ANY (v_contents);
    GET DIAGNOSTICS v_used = ROW_COUNT;
    IF v_used <> cardinality(v_contents) THEN
      RAISE EXCEPTION USING MESSAGE = 'a content was deleted before it was attached', ERRCODE = 'serialization_failure';
    END IF;
  END IF;
  INSERT INTO chat_messages (id, session_id, position, role, metadata, hidden_at, created_at, updated_at)
  SELECT line ->> 'id', p_session, (line ->> 'position')::bigint, line ->> 'role', imported_metadata(line -> 'metadata'),
         (line ->> 'hidden_at')::timestamptz, (line ->> 'created_at')::timestamptz, (line ->> 'updated_at')::timestamptz
    FROM unnest(v_lines) AS line WHERE line ->> 'kind' = 'message';
  INSERT INTO chat_parts (id, message_id, session_id, index, type, data, tool_call_id, tool_state, created_at, updated_at)
  SELECT line ->> 'id', line ->> 'message_id', p_session, (line ->> 'index')::integer, line ->> 'type', line -> 'data',
         line ->> 'tool_call_id', line ->> 'tool_state',
         (line ->> 'created_at')::timestamptz, (line ->> 'updated_at')::timestamptz
    FROM unnest(v_lines) AS line WHERE line ->> 'kind' = 'part';
  INSERT INTO chat_runs (session_id, seq, message_id, answer_id, state, step, created_at, started_at, finished_at)
  SELECT p_session, (SELECT coalesce(max(seq), 0) FROM chat_runs WHERE session_id = p_session)
                    + row_number() OVER (ORDER BY (line ->> 'position')::bigint), u.id, line ->> 'id', line ->> 'run',
         coalesce(jsonb_array_length(line #> '{metadata,steps}'), 0), u.created_at, u.created_at,
         (line ->> 'updated_at')::timestamptz
    FROM unnest(v_lines) AS line
    JOIN LATERAL (SELECT * FROM chat_messages
                   WHERE session_id = p_session AND position < (line ->> 'position')::bigint AND role = 'user'
                   ORDER BY position DESC LIMIT 1) AS u ON true
   WHERE line ->> 'kind' = 'message' AND line ->> 'role' = 'assistant' AND line ->> 'run' IS NOT NULL;
END $$;

-- Stores lines of an import, in UTF-8, each after its number and a space. Line 1 is that of the session, which it opens.
CREATE OR REPLACE FUNCTION import_batch(p_session text, p_user text, p_lines bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_lines text[] := ARRAY(SELECT substr(line, strpos(line, ' ') + 1)
                            FROM unnest(string_to_array(convert_from(p_lines, 'UTF8'), E'\n')) AS line);
BEGIN
  IF substr(p_lines, 1, 2) = '1 '::bytea THEN PERFORM import_session(p_session, p_user, v_lines[1]::jsonb); END IF;
  PERFORM import_lines(p_session, v_lines);
END $$;

-- Ends an import: its sums, its index, and an event. What providers counted elsewhere does not say how much of the window the
-- conversation fills here. Or returns the id of a message that is hidden by one that does not follow it, unless it is a summary
-- that was discarded.
CREATE OR REPLACE FUNCTION finish_import(p_session text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_foreign text := (
    SELECT m.id FROM chat_messages m
     WHERE m.session_id = p_session AND m.metadata #>> '{hidden_by,cause}' IN ('edit', 'compaction')
       AND m.metadata -> 'hidden_by' <> jsonb_build_object('cause', 'compaction', 'id', m.id)
       AND NOT EXISTS (SELECT FROM chat_messages by WHERE by.session_id = p_session AND by.id = m.metadata #>> '{hidden_by,id}'
                          AND by.position > m.position)
     LIMIT 1);
BEGIN
  IF v_foreign IS NOT NULL THEN RETURN v_foreign; END IF;
  PERFORM sum_usage(p_session);
  PERFORM recount_window(p_session);
  PERFORM queue_search(p_session, 0, (SELECT coalesce(max(position), 0) FROM chat_messages WHERE session_id = p_session));
  PERFORM append_event(p_session, 'imported', 'user', jsonb_build_object('messages', (
    SELECT count(*) FROM chat_messages WHERE session_id = p_session)), NULL);
  RETURN NULL;
END $$;

-- An attachment of a session that its messages do not refer to; null: there is none.
CREATE OR REPLACE FUNCTION unnamed_attachment(p_session text) RETURNS text LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  SELECT attachment_id FROM attachments
   WHERE session_id = p_session
     AND 'perdure:' || attachment_id NOT IN (SELECT file_urls(p_session))
   LIMIT 1
$$;
