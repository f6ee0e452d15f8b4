-- chat_runs.check_at says when the sweeper checks a run next. Only the run that a session can continue with has one: its
-- first open run, unless the session is stuck, or the run is queued and the queue is paused. All others are parked (null),
-- so a sweep reads only what is due, through the index chat_runs_due. The triggers at the end of 0001_tables.sql keep
-- check_at up to date; store/sweep.ts moves it forward when it claims a check.

-- A queued run is checked after 2 s; a running one after 30 s, and then only if nothing was written to it meanwhile.
CREATE OR REPLACE FUNCTION next_check(p_run chat_runs) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
  IF p_run.state NOT IN ('queued', 'running') THEN RETURN NULL; END IF;
  RETURN (
    SELECT clock_timestamp() + CASE p_run.state WHEN 'queued' THEN interval '2 seconds' ELSE interval '30 seconds' END
      FROM chat_sessions c
     WHERE c.session_id = p_run.session_id AND c.stuck_at IS NULL
       AND (p_run.state = 'running' OR c.paused_at IS NULL)
       AND NOT EXISTS (
         SELECT FROM chat_runs ahead
          WHERE ahead.session_id = p_run.session_id AND ahead.seq < p_run.seq
            AND ahead.state IN ('queued', 'running', 'waiting')));
END $$;

-- Trigger: a run is new or changes its state.
CREATE OR REPLACE FUNCTION schedule_own_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.check_at := next_check(NEW);
  RETURN NEW;
END $$;

-- Trigger: a run ended, or a session was paused, resumed, or became stuck or unstuck. Parks or unparks the session's first
-- open run; a check that is scheduled already is not postponed.
CREATE OR REPLACE FUNCTION schedule_head_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_head chat_runs;
  v_check_at timestamptz;
BEGIN
  SELECT * INTO v_head FROM chat_runs
   WHERE session_id = NEW.session_id AND state IN ('queued', 'running', 'waiting') ORDER BY session_id, seq LIMIT 1;
  IF NOT FOUND THEN RETURN NULL; END IF;
  v_check_at := next_check(v_head);
  IF (v_check_at IS NULL) <> (v_head.check_at IS NULL) THEN
    UPDATE chat_runs SET check_at = v_check_at WHERE session_id = v_head.session_id AND seq = v_head.seq;
  END IF;
  RETURN NULL;
END $$;

-- Claims the runs whose check is due, at most `p_limit` queued and `p_limit` running ones, longest overdue first; SKIP
-- LOCKED divides them among the workers. Returns those to wake: queued for 2 s with no open run before it, or running
-- without a write for 30 s. A queued run is due again after 10 s, a running one after 30 s. The planner settings force an
-- ordered index scan whatever the statistics say: a bitmap would contain every due row and all dead index entries.
CREATE OR REPLACE FUNCTION claim_due_runs(p_limit integer) RETURNS TABLE (
  session_id text, run_seq integer, message_id text, model text, state text, user_id text, project_id text, phase text,
  agent text
) LANGUAGE sql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH queued AS (
    SELECT ctid FROM chat_runs WHERE state = 'queued' AND check_at <= now()
     ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED
  ), running AS (
    SELECT ctid FROM chat_runs WHERE state = 'running' AND check_at <= now()
     ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE chat_runs r
       SET check_at = CASE WHEN r.state = 'queued' THEN now() + interval '10 seconds'
                           WHEN r.updated_at > now() - interval '30 seconds' THEN r.updated_at + interval '30 seconds'
                           ELSE now() + interval '30 seconds' END
      FROM (TABLE queued UNION ALL TABLE running) AS due
     WHERE r.ctid = due.ctid
    RETURNING r.*
  )
  SELECT r.session_id, r.seq, r.message_id, r.model, r.state, s.user_id, s.project_id, s.phase, c.agent
    FROM claimed r JOIN chat_sessions c USING (session_id) JOIN sessions s USING (session_id)
   WHERE r.state = 'queued' OR r.updated_at <= now() - interval '30 seconds'
$$;

-- Counts open runs by state and stuck sessions, up to `p_limit` each; `oldest_s` is how long the oldest run that could start
-- has been queued, in seconds. Ordered index scans: a scrape costs the same however many runs are parked.
CREATE OR REPLACE FUNCTION open_work(p_limit integer) RETURNS TABLE (
  queued bigint, running bigint, waiting bigint, oldest_s double precision, stuck bigint
) LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
  SELECT (SELECT count(*) FROM (
            SELECT FROM chat_runs WHERE state = 'queued' ORDER BY session_id, seq LIMIT p_limit) AS open),
         (SELECT count(*) FROM (
            SELECT FROM chat_runs WHERE state = 'running' ORDER BY session_id LIMIT p_limit) AS open),
         (SELECT count(*) FROM (
            SELECT FROM chat_runs WHERE state = 'waiting' ORDER BY session_id LIMIT p_limit) AS open),
         (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - created_at)), 0) FROM (
            SELECT created_at FROM chat_runs WHERE state = 'queued' AND check_at IS NOT NULL
             ORDER BY check_at LIMIT p_limit) AS ready),
         (SELECT count(*) FROM (
            SELECT FROM chat_sessions WHERE stuck_at IS NOT NULL ORDER BY session_id LIMIT p_limit) AS found)
$$;
