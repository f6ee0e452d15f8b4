-- Full-text search over a user's own messages. What is to be indexed is queued when a turn is over (close_run,
-- cancel_queued_run), and for copies and imports (queue_search); so streaming does not pay for it. Workers index it
-- (index_messages), and a search first indexes some of what its user has in the queue.

-- The word that stands for a user in message_search.words. No text contains it, because of its first character.
CREATE OR REPLACE FUNCTION user_word(p_user text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT chr(1) || md5(p_user)
$$;

-- The text of a message that is searched: of a long one the beginning, about 200,000 characters. What follows is not read.
CREATE OR REPLACE FUNCTION message_text(p_session text, p_message text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_data jsonb;
  v_texts text[] := '{}';
  v_left integer := 200000;
BEGIN
  FOR v_data IN
    SELECT data FROM chat_parts WHERE session_id = p_session AND message_id = p_message AND type = 'text' ORDER BY index
  LOOP
    v_texts := v_texts || left(coalesce(v_data ->> 'text', ''), v_left);
    v_left := v_left - length(v_texts[cardinality(v_texts)]) - 1;
    EXIT WHEN v_left <= 0;
  END LOOP;
  RETURN array_to_string(v_texts, E'\n\n');
END $$;

-- Queues the messages between two positions of a session, if there are any.
CREATE OR REPLACE FUNCTION queue_search(p_session text, p_from bigint, p_to bigint) RETURNS void LANGUAGE sql AS $$
  INSERT INTO search_queue (user_id, session_id, from_position, to_position)
  SELECT user_id, session_id, p_from, p_to FROM sessions
   WHERE session_id = p_session
     AND EXISTS (SELECT FROM chat_messages WHERE session_id = p_session AND position BETWEEN p_from AND p_to)
$$;

-- Queues a message and its answers.
CREATE OR REPLACE FUNCTION queue_turn(p_session text, p_message text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO search_queue (user_id, session_id, from_position, to_position)
  SELECT (SELECT user_id FROM sessions WHERE session_id = p_session), p_session, position, position + 999
    FROM chat_messages WHERE session_id = p_session AND id = p_message
$$;

-- Indexes queued messages, of one user if `p_user` is given, and returns what it has done: 1 for a message and 1 more for each
-- 10,000 characters in it, or 1 for an entry of the queue without messages. It stops at about `p_limit`, so that the transaction
-- stays short. 0: nothing is queued but what other indexers have locked; it does not wait for them, nor for turns: it locks a
-- session against its erasure only.
CREATE OR REPLACE FUNCTION index_messages(p_user text, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_queued search_queue;
  v_message chat_messages;
  v_text text;
  v_read integer := 0;
BEGIN
  WHILE v_read < p_limit LOOP
    IF p_user IS NULL THEN
      SELECT * INTO v_queued FROM search_queue ORDER BY n LIMIT 1 FOR UPDATE SKIP LOCKED;
    ELSE
      SELECT * INTO v_queued FROM search_queue WHERE user_id = p_user ORDER BY session_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    EXIT WHEN v_queued.n IS NULL;
    PERFORM FROM chat_sessions WHERE session_id = v_queued.session_id FOR KEY SHARE;
    FOR v_message IN
      SELECT * FROM chat_messages
       WHERE session_id = v_queued.session_id AND position BETWEEN v_queued.from_position AND v_queued.to_position
       ORDER BY position LIMIT p_limit - v_read
    LOOP
      v_text := message_text(v_message.session_id, v_message.id);
      PERFORM index_text(v_queued.user_id, v_message, v_text);
      v_read := v_read + 1 + length(v_text) / 10000;
      EXIT WHEN v_read >= p_limit;
    END LOOP;
    IF v_message.id IS NULL THEN
      v_read := v_read + 1;
      DELETE FROM search_queue WHERE n = v_queued.n;
    ELSIF v_read < p_limit THEN
      DELETE FROM search_queue WHERE n = v_queued.n;
    ELSE
      UPDATE search_queue SET from_position = v_message.position + 1 WHERE n = v_queued.n;
    END IF;
  END LOOP;
  RETURN v_read;
END $$;

-- Indexes the text of a message, or again if it has changed since.
CREATE OR REPLACE FUNCTION index_text(p_user text, p_message chat_messages, p_text text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO message_search AS stored (session_id, message_id, user_id, created_at, words)
  SELECT p_message.session_id, p_message.id, p_user, p_message.created_at, words_of(p_user, p_text)
   WHERE p_text <> ''
  ON CONFLICT (session_id, message_id) DO UPDATE SET words = excluded.words WHERE stored.words <> excluded.words
$$;

-- The words of a user's text. Where they do not fit into a tsvector (1 MiB: words with hyphens are in it as a whole and in parts), those
-- of its first half, and so on.
CREATE OR REPLACE FUNCTION words_of(p_user text, p_text text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_length integer := length(p_text);
BEGIN
  LOOP
    BEGIN
      RETURN array_to_tsvector(ARRAY[user_word(p_user)]) || to_tsvector('simple', left(p_text, v_length));
    EXCEPTION WHEN program_limit_exceeded THEN
      v_length := v_length / 2;
    END;
  END LOOP;
END $$;

-- The part of a text around its matches, or all of a short one, with matching words between the characters 2 and 3. Of a long text only 10,000
-- characters are read, from a little before the first match.
CREATE OR REPLACE FUNCTION snippet_of(p_text text, p_query tsquery) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT ts_headline('simple', substr(p_text, greatest(1, first - 200), 10000), p_query,
                     'StartSel=' || chr(2) || ', StopSel=' || chr(3) || CASE
                       WHEN length(p_text) <= 300 THEN ', HighlightAll=true'
                       ELSE ', MaxWords=30, MinWords=15, MaxFragments=2' END)
    FROM (SELECT CASE WHEN length(p_text) > 10000 THEN (
                   SELECT coalesce(min(nullif(strpos(lower(p_text), word[1]), 0)), 1)
                     FROM regexp_matches(p_query::text, '''([^'']+)''', 'g') AS word) ELSE 1 END AS first) AS start
$$;

-- The best matches among a user's messages, best first. If `p_limit` of the user's newest 200 messages match, and at least 20, only
-- those are ranked: a frequent word must not read all messages. Otherwise the newest 1,000 of all matches are, which the index finds.
CREATE OR REPLACE FUNCTION search_messages(p_user text, p_query text, p_limit integer)
RETURNS TABLE (session_id text, message_id text, role text, hidden boolean, created_at timestamptz, snippet text)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  v_query tsquery := websearch_to_tsquery('simple', p_query);
  v_own tsquery := ('''' || user_word(p_user) || '''')::tsquery && v_query;
  v_found record;
BEGIN
  IF numnode(v_query) = 0 THEN RETURN; END IF;
  PERFORM index_messages(p_user, 200);
  SELECT count(*) AS n, array_agg(session_id) AS sessions, array_agg(message_id) AS messages,
         array_agg(ts_rank(words, v_query, 1)) AS ranks INTO v_found
    FROM (SELECT * FROM message_search WHERE user_id = p_user ORDER BY created_at DESC LIMIT 200) AS newest
   WHERE words @@ v_query;
  IF v_found.n < greatest(p_limit, 20) THEN
    SELECT count(*) AS n, array_agg(session_id) AS sessions, array_agg(message_id) AS messages,
           array_agg(ts_rank(words, v_query, 1)) AS ranks INTO v_found
      FROM (SELECT * FROM (SELECT * FROM message_search WHERE words @@ v_own OFFSET 0) AS matches
             WHERE user_id = p_user ORDER BY created_at DESC LIMIT 1000) AS newest;
  END IF;
  RETURN QUERY
    SELECT m.session_id, m.id, m.role, m.hidden_at IS NOT NULL, m.created_at,
           snippet_of(message_text(m.session_id, m.id), v_query)
      FROM (SELECT * FROM unnest(v_found.sessions, v_found.messages, v_found.ranks) AS found(session_id, message_id, rank)
             ORDER BY rank DESC LIMIT p_limit) AS best
      JOIN chat_messages m ON m.session_id = best.session_id AND m.id = best.message_id
     ORDER BY best.rank DESC, m.created_at DESC;
END $$;
