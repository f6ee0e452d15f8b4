-- Full-text search over a user's own messages. What is to be indexed is queued when a turn is over (close_run,
-- cancel_queued_run), and for copies and imports (queue_search); so streaming does not pay for it. Workers index it
-- (index_messages), and a search first indexes some of what its user has in the queue.

-- The text of a message that is searched: of a long one the beginning, about 200,000 characters. What follows is not read. Accents
-- are part of their letters, however they were typed.
CREATE OR REPLACE FUNCTION message_text(p_session text, p_message text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_data jsonb;
  v_texts text[] := '{}';
  v_left integer := 200000;
  v_text text;
BEGIN
  FOR v_data IN
    SELECT data FROM chat_parts WHERE session_id = p_session AND message_id = p_message AND type = 'text' ORDER BY index
  LOOP
    v_texts := v_texts || left(coalesce(v_data ->> 'text', ''), v_left);
    v_left := v_left - length(v_texts[cardinality(v_texts)]) - 1;
    EXIT WHEN v_left <= 0;
  END LOOP;
  v_text := array_to_string(v_texts, E'\n\n');
  RETURN CASE WHEN octet_length(v_text) = length(v_text) OR v_text IS NFC NORMALIZED THEN v_text ELSE normalize(v_text, NFC) END;
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
-- 10,000 bytes in it, or 1 for an entry of the queue without messages. It stops at about `p_limit`, so that the transaction
-- stays short. 0: nothing is queued but what other indexers have locked; it does not wait for them, nor for turns: it locks a
-- session against its erasure only, and the language against a change. Without `p_user`, where nothing is queued, it indexes again what
-- was indexed in another way.
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
    PERFORM FROM search_index FOR KEY SHARE;
    PERFORM FROM chat_sessions WHERE session_id = v_queued.session_id FOR KEY SHARE;
    FOR v_message IN
      SELECT * FROM chat_messages
       WHERE session_id = v_queued.session_id AND position BETWEEN v_queued.from_position AND v_queued.to_position
       ORDER BY position LIMIT p_limit - v_read
    LOOP
      v_text := message_text(v_message.session_id, v_message.id);
      PERFORM index_text(v_queued.user_id, v_message, v_text);
      v_read := v_read + 1 + octet_length(v_text) / 10000;
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
  IF p_user IS NULL AND v_read < p_limit THEN RETURN v_read + index_again(p_limit - v_read); END IF;
  RETURN v_read;
END $$;

-- Indexes messages again after the language, or the way in which words are found, has changed, and returns what it has done, as
-- index_messages. One indexer does so at a time.
CREATE OR REPLACE FUNCTION index_again(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_index search_index;
  v_found record;
  v_text text;
  v_words tsvector;
  v_read integer := 0;
BEGIN
  SELECT * INTO v_index FROM search_index WHERE again_session IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN 0; END IF;
  -- A row that is locked is being indexed, or erased.
  FOR v_found IN
    SELECT session_id, message_id, user_id FROM message_search
     WHERE (session_id, message_id) > (v_index.again_session, v_index.again_message)
     ORDER BY session_id, message_id LIMIT p_limit FOR UPDATE SKIP LOCKED
  LOOP
    v_text := message_text(v_found.session_id, v_found.message_id);
    v_words := words_of(v_found.user_id, v_text);
    UPDATE message_search SET words = v_words
     WHERE session_id = v_found.session_id AND message_id = v_found.message_id AND words <> v_words;
    v_read := v_read + 1 + octet_length(v_text) / 10000;
    EXIT WHEN v_read >= p_limit;
  END LOOP;
  UPDATE search_index SET (again_session, again_message) = (
    SELECT v_found.session_id, v_found.message_id WHERE v_read >= p_limit);
  RETURN v_read;
END $$;

-- Indexes messages in a language from now on, and again those that were indexed in another one. Returns null, or, if Postgres has no
-- text search configuration of this name, the names of those that it has; then nothing is changed.
CREATE OR REPLACE FUNCTION use_search_language(p_language text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_known text[] := ARRAY(SELECT cfgname::text FROM pg_ts_config WHERE pg_ts_config_is_visible(oid) ORDER BY 1);
BEGIN
  IF p_language <> ALL (v_known) THEN RETURN v_known; END IF;
  -- Waits for those that index in the other language: they may not commit after their rows have been passed.
  PERFORM FROM search_index WHERE language <> p_language FOR UPDATE;
  UPDATE search_index SET language = p_language, again_session = '', again_message = '' WHERE language <> p_language;
  RETURN NULL;
END $$;

-- Indexes the text of a message, or again if it has changed since.
CREATE OR REPLACE FUNCTION index_text(p_user text, p_message chat_messages, p_text text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO message_search AS stored (session_id, message_id, user_id, created_at, words)
  SELECT p_message.session_id, p_message.id, p_user, p_message.created_at, words_of(p_user, p_text)
   WHERE p_text <> ''
  ON CONFLICT (session_id, message_id) DO UPDATE SET words = excluded.words WHERE stored.words <> excluded.words
$$;

-- The best matches among a user's messages, best first: the text of each, or of a long one 3,000 characters, and `matches` as
-- matches_in. If `p_limit` of the user's newest 200 messages match, and at least 20, only those are ranked: a frequent word must not
-- read all messages. Otherwise the newest 1,000 of all matches are, which the index finds.
CREATE OR REPLACE FUNCTION find_messages(p_user text, p_query text, p_limit integer)
RETURNS TABLE (session_id text, message_id text, role text, hidden boolean, created_at timestamptz, text text, matches jsonb)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  v_language regconfig := search_language();
  v_query tsquery;
  v_own tsquery;
  v_typed text[];
  v_phrases tsvector[];
  v_found record;
BEGIN
  SELECT websearch_to_tsquery(v_language, coalesce(string_agg(operand, ' '), '')),
         array_agg(DISTINCT typed) FILTER (WHERE is_wanted),
         array_agg(DISTINCT to_tsvector(v_language, words)) FILTER (WHERE is_wanted)
    INTO v_query, v_typed, v_phrases FROM query_operands(p_query);
  IF numnode(v_query) = 0 THEN RETURN; END IF;
  v_own := ('''' || user_word(p_user) || '''')::tsquery && v_query;
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
    SELECT m.session_id, m.id, m.role, m.hidden_at IS NOT NULL, m.created_at, shown.part, shown.matches
      FROM (SELECT * FROM unnest(v_found.sessions, v_found.messages, v_found.ranks) AS found(session_id, message_id, rank)
             ORDER BY rank DESC LIMIT p_limit) AS best
      JOIN chat_messages m ON m.session_id = best.session_id AND m.id = best.message_id,
           matches_in(message_text(m.session_id, m.id), v_language, v_typed, v_phrases) AS shown
     ORDER BY best.rank DESC, m.created_at DESC;
END $$;
