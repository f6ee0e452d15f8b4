-- Retention. Each call deletes at most `p_limit` rows; SKIP LOCKED lets workers share the work. Ages are compared with now(),
-- because an index scan cannot end at a volatile clock_timestamp(): it would read all younger rows.

-- Reads the first `p_limit` old refusals after the time `p_after` and deletes them, except a session's newest event, whose
-- number must not be assigned again. Those stay, so that a sweep continues after what it has read: returns the time of the
-- last one, or null at the end.
CREATE OR REPLACE FUNCTION sweep_refusals(p_older_ms double precision, p_limit integer, p_after timestamptz)
RETURNS timestamptz LANGUAGE sql SET perdure.writer = 'retention' AS $$
  WITH old AS (
    SELECT e.ctid, e.at, e.seq < (
             SELECT max(seq) FROM session_events newest WHERE newest.session_id = e.session_id) AS is_followed
      FROM session_events e
     WHERE kind = 'refused' AND at > p_after AND at < now() - p_older_ms * interval '1 millisecond'
     ORDER BY at LIMIT p_limit FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM session_events WHERE ctid = ANY (ARRAY(SELECT ctid FROM old WHERE is_followed))
  )
  SELECT max(at) FROM old
$$;

-- Deletes old tool outputs and expired cached results. Returns how many of both.
CREATE OR REPLACE FUNCTION sweep_outputs(p_older_ms double precision, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_outputs integer;
  v_cached integer;
  v_results integer;
BEGIN
  DELETE FROM tool_outputs WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM tool_outputs WHERE created_at < now() - p_older_ms * interval '1 millisecond'
     ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_outputs = ROW_COUNT;
  DELETE FROM tool_cache WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM tool_cache WHERE expires_at <= now()
     ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_cached = ROW_COUNT;
  DELETE FROM cached_results WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM cached_results WHERE expires_at <= now()
     ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_results = ROW_COUNT;
  RETURN v_outputs + v_cached + v_results;
END $$;
