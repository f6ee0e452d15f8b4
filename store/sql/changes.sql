-- Finds changes whose pointers on the bus were lost.

-- Returns those of some sessions that differ from the version that the caller knows: `p_states` and `p_streams` are what
-- this function returned before, or ''. `state` differs after any change of a session's rows, including its runs; it is '-'
-- for a session that does not exist. `stream` differs when the answer of the running run `run` has grown: it covers the
-- parts since the last settled step, and their deltas.
--
-- xmin is the transaction that wrote a row, xmax of chat_sessions the last one that locked it (lock_session). Every change
-- of a session without an open run takes that lock, so the rows of ended runs need not be read.
CREATE OR REPLACE FUNCTION changed_sessions(p_sessions text[], p_states text[], p_streams text[])
RETURNS TABLE (session_id text, state text, stream text, run integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  RETURN QUERY
  SELECT known.session_id, coalesce(now.state, '-'), coalesce(now.stream, ''), now.run
    FROM unnest(p_sessions, p_states, p_streams) AS known(session_id, state, stream)
    LEFT JOIN LATERAL (
      SELECT concat_ws(' ', s.xmin, c.xmin, c.xmax, open.versions) AS state, answer.stream, answer.run
        FROM sessions s JOIN chat_sessions c USING (session_id)
        LEFT JOIN LATERAL (
          SELECT string_agg(r.xmin::text, ' ' ORDER BY r.seq) AS versions
            FROM chat_runs r
           WHERE r.session_id = s.session_id AND r.state IN ('queued', 'running', 'waiting')
        ) open ON true
        LEFT JOIN LATERAL (
          SELECT r.seq AS run, (
                   SELECT string_agg(concat_ws(':', p.xmin, (
                            SELECT max(d.start) FROM part_deltas d
                             WHERE d.session_id = p.session_id AND d.part_id = p.id)), ' ' ORDER BY p.index)
                     FROM chat_parts p
                    WHERE p.session_id = r.session_id AND p.message_id = r.answer_id AND p.index >= r.settled_parts
                 ) AS stream
            FROM chat_runs r
           WHERE open.versions IS NOT NULL AND r.session_id = s.session_id AND r.state IN ('running', 'waiting')
        ) answer ON true
       WHERE s.session_id = known.session_id
    ) now ON true
   WHERE coalesce(now.state, '-') <> known.state OR coalesce(now.stream, '') <> known.stream;
END $$;
