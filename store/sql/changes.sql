-- Finds changes whose pointers on the bus were lost.

-- Returns those of some sessions and initiatives that differ from the version that the caller knows: `p_states` and `p_streams` are what
-- this function returned before, or ''. `state` differs after any change of a session's rows, including its runs; it is '-'
-- for a session that does not exist. `stream` differs when the answer of the running run `run` has grown: it covers the
-- parts since the last settled step, and their deltas. The state of an initiative is the number of its newest event.
--
-- xmin is the transaction that wrote a row, xmax of chat_sessions the last one that locked it (lock_session). Every change
-- of a session without an open run takes that lock, so the rows of ended runs need not be read. `user:` and `app:` state, and
-- rules, are written by other sessions, too. So there are marks of these scopes (scope_mark), which change with every key, a mark of
-- the project, which changes with every rule, and a digest of the rules above a child.
CREATE OR REPLACE FUNCTION changed_sessions(p_sessions text[], p_states text[], p_streams text[])
RETURNS TABLE (session_id text, state text, stream text, run integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  v_marks jsonb := (
    SELECT jsonb_object_agg(concat_ws('/', app, scope, owner), mark)
      FROM (SELECT DISTINCT c.app, owned.scope, owned.owner
              FROM unnest(p_sessions) AS known(session_id)
              JOIN sessions s USING (session_id) JOIN chat_sessions c USING (session_id)
             CROSS JOIN LATERAL (VALUES ('user', s.user_id), ('app', '')) AS owned(scope, owner)) AS owned
     CROSS JOIN LATERAL scope_mark(app, scope, owner) AS mark
     WHERE mark <> '0+');
  v_rules jsonb := (
    SELECT jsonb_object_agg(project_id, mark)
      FROM (SELECT p.project_id, concat(count(*), '+', max(p.n)) AS mark
              FROM (SELECT DISTINCT s.project_id
                      FROM unnest(p_sessions) AS known(session_id) JOIN sessions s USING (session_id)) AS shown
              JOIN project_permissions p USING (project_id)
             GROUP BY p.project_id) AS made);
BEGIN
  RETURN QUERY
  SELECT known.session_id, coalesce(now.state, '-'), coalesce(now.stream, ''), now.run
    FROM unnest(p_sessions, p_states, p_streams) AS known(session_id, state, stream)
    LEFT JOIN LATERAL (
      SELECT concat_ws(' ', s.xmin, c.xmin, c.xmax, open.versions,
                       -- What children ask is written to their rows only.
                       CASE WHEN has_open_tasks(s.session_id) THEN md5(waits_below(s.session_id)::text) END,
                       v_marks ->> concat_ws('/', c.app, 'user', s.user_id),
                       v_marks ->> concat_ws('/', c.app, 'app', ''),
                       v_rules ->> s.project_id,
                       CASE WHEN c.depth > 0 THEN md5(rules_above(s.session_id)::text) END) AS state, answer.stream, answer.run
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
   WHERE (coalesce(now.state, '-') <> known.state OR coalesce(now.stream, '') <> known.stream)
     AND known.session_id NOT LIKE 'ini\_%';
  RETURN QUERY
  SELECT known.session_id, coalesce(newest.seq, '-'), '', NULL::integer
    FROM unnest(p_sessions, p_states) AS known(session_id, state)
    LEFT JOIN LATERAL (
      SELECT e.seq::text FROM initiative_events e WHERE e.initiative_id = known.session_id ORDER BY e.seq DESC LIMIT 1
    ) AS newest ON true
   WHERE known.session_id LIKE 'ini\_%' AND coalesce(newest.seq, '-') <> known.state;
END $$;
