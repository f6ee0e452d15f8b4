-- Retention. Each call deletes at most `p_limit` rows; SKIP LOCKED lets workers share the work.

-- Deletes old refusals, except a session's newest event, whose number must not be assigned again. Returns how many.
CREATE OR REPLACE FUNCTION sweep_refusals(p_older_ms double precision, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET perdure.writer = 'retention' AS $$
DECLARE
  v_count integer;
BEGIN
  DELETE FROM session_events WHERE ctid = ANY (ARRAY(
    SELECT e.ctid FROM session_events e
     WHERE kind = 'refused' AND at < clock_timestamp() - p_older_ms * interval '1 millisecond'
       AND seq < (SELECT max(seq) FROM session_events newest WHERE newest.session_id = e.session_id)
     ORDER BY at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;

-- Deletes old tool outputs and expired cached results. Returns how many of both.
CREATE OR REPLACE FUNCTION sweep_outputs(p_older_ms double precision, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_outputs integer;
  v_cached integer;
BEGIN
  DELETE FROM tool_outputs WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM tool_outputs WHERE created_at < clock_timestamp() - p_older_ms * interval '1 millisecond'
     ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_outputs = ROW_COUNT;
  DELETE FROM tool_cache WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM tool_cache WHERE expires_at <= clock_timestamp()
     ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_cached = ROW_COUNT;
  RETURN v_outputs + v_cached;
END $$;
