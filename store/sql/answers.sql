-- Reads answers for followers.

-- Reads several answers, each from a cursor on: its run, its metadata, its parts and their deltas, all in one snapshot.
-- `p_requests` are { place, session_id, user_id, run, index, units }: the parts from `index` on, and for a part named in
-- `units` the deltas from that offset on. Returns a row for each request whose user has such a run. Instead of the parts,
-- an answer has "too_large" if they have more than `p_max_bytes` (null: no limit); the size of a part's data is that of its
-- stored form, which may be compressed, because anything else would read all of it. Of an answer whose worker saves by turns
-- nothing is returned while its run goes on.
CREATE OR REPLACE FUNCTION read_answers(p_requests jsonb, p_max_bytes integer) RETURNS TABLE (place integer, answer json)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  RETURN QUERY
  SELECT q.place, json_build_object(
           'user_message_id', r.message_id, 'message_id', r.answer_id, 'metadata', m.metadata, 'run_state', r.state,
           'error_code', r.error_code, 'error_message', r.error_message, 'retry', r.retry,
           'progress', CASE WHEN is_shown THEN r.progress END,
           'compaction', r.compaction - 'fence',
           -- What is in progress may be a call that waits for a child.
           'questions', CASE WHEN r.progress #> '{data,session_id}' IS NOT NULL THEN waits_below(r.session_id) END,
           'position', CASE WHEN r.state = 'queued' THEN (
              SELECT count(*) FROM chat_runs a
               WHERE a.session_id = r.session_id AND a.seq < r.seq AND a.state IN ('queued', 'running', 'waiting')) END,
           'paused', r.state = 'queued' AND (
              SELECT c.paused_at IS NOT NULL FROM chat_sessions c WHERE c.session_id = r.session_id),
           'too_large', size.bytes > p_max_bytes,
           'parts', CASE WHEN size.bytes > p_max_bytes OR NOT is_shown THEN NULL ELSE (
              SELECT json_agg(json_build_object(
                       'id', p.id, 'index', p.index, 'data', p.data, 'text', d.text, 'text_start', d.start)
                     ORDER BY p.index)
                FROM chat_parts p
                LEFT JOIN LATERAL (
                  SELECT string_agg(d.text, '' ORDER BY d.start) AS text, min(d.start) AS start
                    FROM part_deltas d
                   WHERE d.session_id = p.session_id AND d.part_id = p.id
                     AND d.start >= coalesce((q.units ->> p.id)::integer, 0)
                ) d ON true
               WHERE p.session_id = r.session_id AND p.message_id = r.answer_id AND p.index >= q.index) END)
    FROM jsonb_to_recordset(p_requests)
      AS q(place integer, session_id text, user_id text, run integer, index integer, units jsonb)
    JOIN chat_runs r ON r.session_id = q.session_id AND r.seq = q.run
    LEFT JOIN chat_messages m ON m.session_id = r.session_id AND m.id = r.answer_id
    CROSS JOIN LATERAL (SELECT r.state <> 'running' OR m.metadata ->> 'save_on' IS DISTINCT FROM 'turn' AS is_shown) shown
    LEFT JOIN LATERAL (
      SELECT sum(pg_column_size(p.data) + coalesce(d.bytes, 0)) AS bytes
        FROM chat_parts p
        LEFT JOIN LATERAL (
          SELECT sum(octet_length(d.text)) AS bytes
            FROM part_deltas d
           WHERE d.session_id = p.session_id AND d.part_id = p.id
             AND d.start >= coalesce((q.units ->> p.id)::integer, 0)
        ) d ON true
       WHERE p.session_id = r.session_id AND p.message_id = r.answer_id AND p.index >= q.index
    ) size ON p_max_bytes IS NOT NULL
   -- A subquery, because a join with sessions could be used to find the session's runs, which would all be read.
   WHERE (SELECT s.user_id FROM sessions s WHERE s.session_id = q.session_id) = q.user_id;
END $$;
