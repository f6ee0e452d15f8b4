-- chat_runs.check_at says when the sweeper checks a run next. Only the run that a session can continue with has one: its
-- first open run, unless the session is stuck, or the run is queued and the queue is paused. All others are parked (null),
-- so a sweep reads only what is due, through the index chat_runs_due. The triggers at the end of 0001_tables.sql keep
-- check_at up to date; store/sweep.ts moves it forward when it claims a check.

-- A queued run is checked after 2 s, and so is one that a head start began: its workflow may never be woken. A running one is
-- checked after 30 s, and then only if nothing was written to it meanwhile. One that waits is checked after 2 s if a head start has
-- come to its call, until its workflow has, too: that shows that the session waits, and has the timer. From then on one that waits
-- for a page is checked 2 s after that is too late, because its workflow may have been terminated; one that waits for an answer is
-- not.
CREATE OR REPLACE FUNCTION next_check(p_run chat_runs) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
  IF p_run.state NOT IN ('queued', 'running', 'waiting')
     OR p_run.state = 'waiting' AND p_run.head_start_at IS NULL AND NOT p_run.waiting ? 'until' THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT CASE WHEN p_run.state = 'waiting' AND p_run.head_start_at IS NULL
                THEN (p_run.waiting ->> 'until')::timestamptz ELSE clock_timestamp() END
           + CASE WHEN p_run.state = 'running' AND p_run.head_start_at IS NULL THEN interval '30 seconds'
                  ELSE interval '2 seconds' END
      FROM chat_sessions c
     WHERE c.session_id = p_run.session_id AND c.stuck_at IS NULL
       AND (p_run.state <> 'queued' OR c.paused_at IS NULL)
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

-- Claims the runs whose check is due, at most `p_limit` queued, running and waiting ones each, longest overdue first; SKIP
-- LOCKED divides them among the workers. Returns those to wake, with a `state`. It is queued if the run was queued 2 s ago with
-- no open run before it, or if a head start began it, or came to the call that it waits for, 2 s ago and no workflow has since:
-- as far as that knows, it is queued. It is running, which is woken unless its workflow runs, if nothing was written to the run
-- for 30 s, or if it has waited too long for a page. A run is due again after 10 s if its `state` is queued, else after 30 s, or
-- after as long as it has been silent, up to 5 min: each check of a running one is a call to Temporal, and a tool may take hours.
-- The planner settings force an ordered index scan whatever the statistics say: a bitmap would contain every due row and all
-- dead index entries.
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
  ), waiting AS (
    SELECT ctid FROM chat_runs WHERE state = 'waiting' AND check_at <= now()
     ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE chat_runs r
       SET check_at = CASE WHEN r.state = 'queued' OR r.head_start_at IS NOT NULL THEN now() + interval '10 seconds'
                           WHEN r.updated_at > now() - interval '30 seconds' THEN r.updated_at + interval '30 seconds'
                           ELSE now() + least(greatest(now() - r.updated_at, interval '30 seconds'), interval '5 minutes') END
      FROM (TABLE queued UNION ALL TABLE running UNION ALL TABLE waiting) AS due
     WHERE r.ctid = due.ctid
    RETURNING r.*
  )
  SELECT r.session_id, r.seq, r.message_id, r.model,
         CASE WHEN r.head_start_at IS NOT NULL THEN 'queued' WHEN r.state = 'waiting' THEN 'running' ELSE r.state END,
         s.user_id, s.project_id, s.phase, c.agent
    FROM claimed r JOIN chat_sessions c USING (session_id) JOIN sessions s USING (session_id)
   WHERE r.state IN ('queued', 'waiting') OR r.head_start_at IS NOT NULL OR r.updated_at <= now() - interval '30 seconds'
$$;

-- Postpones the checks of queued runs by 10 s, for a worker in which they wait; of several workers in which a run waits one does
-- so every 5 s. SKIP LOCKED: a worker waits for no row, because what has it locked begins, ends or postpones the run.
CREATE OR REPLACE FUNCTION postpone_checks(p_sessions text[], p_runs integer[]) RETURNS TABLE (session text, run integer)
LANGUAGE sql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH due AS (
    SELECT r.ctid
      FROM unnest(p_sessions, p_runs) AS waiting(session_id, seq)
      JOIN chat_runs r ON r.session_id = waiting.session_id AND r.seq = waiting.seq
     WHERE r.state = 'queued' AND r.check_at < now() + interval '5 seconds'
       FOR UPDATE OF r SKIP LOCKED
  )
  UPDATE chat_runs r SET check_at = now() + interval '10 seconds' FROM due WHERE r.ctid = due.ctid
  RETURNING r.session_id, r.seq
$$;

-- Counts open runs by state, and stuck sessions and initiatives, up to `p_limit` each; `oldest_s` is how long the oldest run
-- that could start has been queued, in seconds. Ordered index scans: a scrape costs the same however many runs are parked.
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
         + (SELECT count(*) FROM (
              SELECT FROM initiatives WHERE stuck_at IS NOT NULL ORDER BY initiative_id LIMIT p_limit) AS found)
$$;
