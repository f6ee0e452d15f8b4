-- System prompts. Each section is stored once by its digest; `system_prompts` lists the sections of a session's prompts.

-- Stores a prompt of a session, whose digest is in hex. False: the session has been erased, nothing is stored.
CREATE OR REPLACE FUNCTION keep_prompt(p_session text, p_digest text, p_sections text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM chat_sessions WHERE session_id = p_session FOR KEY SHARE;
  IF NOT FOUND THEN RETURN false; END IF;
  -- Shared with other writers, exclusive for drop_sections(): a section cannot be dropped between these two inserts.
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('prompt_sections', 0));
  INSERT INTO prompt_sections (digest, body)
  SELECT DISTINCT sha256(convert_to(body, 'UTF8')), body FROM unnest(p_sections) AS body
  ON CONFLICT DO NOTHING;
  INSERT INTO system_prompts (session_id, digest, sections)
  SELECT p_session, decode(p_digest, 'hex'), array_agg(sha256(convert_to(body, 'UTF8')) ORDER BY n)
    FROM unnest(p_sections) WITH ORDINALITY AS given(body, n)
  ON CONFLICT DO NOTHING;
  RETURN true;
END $$;

-- Stores the prompt of a turn before its first model call, so that every later attempt has the same: an earlier one stays.
-- Returns the digest of the turn's prompt. Null: another attempt has the run, or the session has been erased.
CREATE OR REPLACE FUNCTION keep_turn_prompt(
  p_session text, p_run integer, p_fence integer[], p_digest text, p_sections text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_digest text;
BEGIN
  IF NOT keep_prompt(p_session, p_digest, p_sections) THEN RETURN NULL; END IF;
  UPDATE chat_runs SET prompt_digest = coalesce(prompt_digest, p_digest), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running'
  RETURNING prompt_digest INTO v_digest;
  RETURN v_digest;
END $$;

-- Deletes those of the given sections that no prompt uses.
CREATE OR REPLACE FUNCTION drop_sections(p_sections bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('prompt_sections', 0));
  DELETE FROM prompt_sections s
   WHERE digest = ANY (p_sections)
     AND NOT EXISTS (SELECT FROM system_prompts WHERE sections @> ARRAY[s.digest]);
END $$;
