-- What the workflows of initiatives ask for: they know ids, statuses and times, and supervise work sessions.

-- When a chat session last worked, or a subagent of it: now if it has an open run or subagents at work; null: never.
CREATE OR REPLACE FUNCTION last_worked(p_session text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN has_open_run(p_session) OR has_open_tasks(p_session) THEN clock_timestamp()
              ELSE greatest(
                (SELECT finished_at FROM chat_runs
                  WHERE session_id = p_session AND state <> 'cancelled' ORDER BY seq DESC LIMIT 1),
                (SELECT max(delivered_at) FROM tasks WHERE parent_id = p_session)) END
$$;

-- The active work sessions that are supervised: those that hold uncompleted tasks, and of chat sessions also those that hold none.
-- `sign` is the last sign of life: its beginning, an assignment, a start, a report or a completion; of one that holds nothing also
-- work of its chat session. `due_at` is when it is ended unless it gives another one: its last sign is p_progress_ms old, and if it
-- holds a task, that was given p_assignment_ms ago.
CREATE OR REPLACE FUNCTION watched_sessions(p_initiative text, p_assignment_ms bigint, p_progress_ms bigint)
RETURNS TABLE (work_session text, holds boolean, sign timestamptz, due_at timestamptz) LANGUAGE sql STABLE AS $$
  SELECT s.id, held.since IS NOT NULL, last.sign,
         greatest(held.since + make_interval(secs => p_assignment_ms / 1000.0),
                  last.sign + make_interval(secs => p_progress_ms / 1000.0))
    FROM session_history s
    CROSS JOIN LATERAL (
      SELECT min(assigned_at) AS since FROM initiative_tasks
       WHERE initiative_id = p_initiative AND assigned_to = s.id AND status <> 'completed') AS held
    CROSS JOIN LATERAL (
      SELECT CASE WHEN held.since IS NULL THEN greatest(s.last_sign_at, last_worked(s.session_id)) ELSE s.last_sign_at END AS sign
    ) AS last
   WHERE s.initiative_id = p_initiative AND s.status = 'active' AND (held.since IS NOT NULL OR s.session_id IS NOT NULL)
$$;

-- A time that a workflow only compares: microseconds, as text.
CREATE OR REPLACE FUNCTION exact_time(p_at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT (extract(epoch FROM p_at) * 1000000)::bigint::text
$$;

-- What the workflow of an initiative knows of it; null: there is none. `watched` is the work session that is due first, with its
-- sign of life; `due_at` in milliseconds since 1970 and `due_in_ms` from now, both by this clock.
CREATE OR REPLACE FUNCTION initiative_mark(p_initiative text, p_assignment_ms bigint, p_progress_ms bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'user_id', i.user_id, 'project_id', i.project_id, 'status', i.status,
    'event_seq', (SELECT seq FROM initiative_events e WHERE e.initiative_id = p_initiative ORDER BY seq DESC LIMIT 1),
    'watched', (
      SELECT jsonb_build_object(
               'work_session', work_session, 'sign', exact_time(sign), 'due_at', (extract(epoch FROM due_at) * 1000)::bigint,
               'due_in_ms', greatest(0, ceil(extract(epoch FROM due_at - clock_timestamp()) * 1000))::bigint)
        FROM watched_sessions(p_initiative, p_assignment_ms, p_progress_ms) AS each ORDER BY each.due_at, work_session LIMIT 1))
    FROM initiatives i WHERE i.initiative_id = p_initiative
$$;

-- The outcome of a recorded command, and the initiative's mark. Of a command that is not recorded p_args, which are ids only, are
-- carried out for an operator; of a recorded one they are compared by p_digest. Null: it has texts, which only the client stores.
CREATE OR REPLACE FUNCTION apply_for_workflow(
  p_initiative text, p_command text, p_args jsonb, p_command_id text, p_assignment_ms bigint, p_progress_ms bigint,
  p_digest bytea DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
  v_owner text := (SELECT user_id FROM initiatives WHERE initiative_id = p_initiative);
  v_outcome jsonb;
BEGIN
  IF v_owner IS NULL THEN RETURN NULL; END IF;
  IF p_args IS NOT NULL THEN
    v_outcome := apply_initiative_command(p_initiative, v_owner, p_command, p_args, 'operator', p_command_id, p_digest);
  ELSE
    SELECT data -> 'outcome' INTO v_outcome
      FROM initiative_events WHERE initiative_id = p_initiative AND command_id = p_command_id;
    v_outcome := coalesce(v_outcome, '{"ok": false, "code": "BadRequest"}');
  END IF;
  RETURN v_outcome || jsonb_build_object('mark', initiative_mark(p_initiative, p_assignment_ms, p_progress_ms));
END $$;

-- For the supervisor: ends a work session, as crashed if it holds tasks. Not unless its last sign of life is still p_sign and it is
-- due: its timer may be from before the settings were raised. Which came first, the end or a report, is decided by the initiative's
-- lock. Returns the mark; null: there is no such initiative.
CREATE OR REPLACE FUNCTION reset_stale(
  p_initiative text, p_session text, p_sign text, p_assignment_ms bigint, p_progress_ms bigint
) RETURNS jsonb LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
BEGIN
  PERFORM apply_initiative_command(
      p_initiative, user_id, 'crash_session',
      jsonb_build_object('id', p_session, 'sign', p_sign, 'assignment_ms', p_assignment_ms, 'progress_ms', p_progress_ms),
      'supervisor', format('crash_session:%s:%s', p_session, p_sign))
    FROM initiatives WHERE initiative_id = p_initiative;
  RETURN initiative_mark(p_initiative, p_assignment_ms, p_progress_ms);
END $$;

-- Records why the workflow of an initiative cannot go on, or with null that it does again. False: nothing changed.
CREATE OR REPLACE FUNCTION note_stuck_initiative(p_initiative text, p_cause text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE initiatives SET stuck_at = CASE WHEN p_cause IS NOT NULL THEN clock_timestamp() END
   WHERE initiative_id = p_initiative AND (stuck_at IS NOT NULL) <> (p_cause IS NOT NULL);
  IF NOT FOUND THEN RETURN false; END IF;
  PERFORM log_initiative(p_initiative, CASE WHEN p_cause IS NULL THEN 'unstuck' ELSE 'stuck' END, 'system',
                         jsonb_strip_nulls(jsonb_build_object('cause', p_cause)), 'stuck:' || gen_random_uuid());
  RETURN true;
END $$;

-- Claims initiatives with a work session that its workflow should have ended two seconds ago, for ten seconds: the workflow was
-- terminated, its timer was lost, or it was never told of the assignment.
CREATE OR REPLACE FUNCTION claim_stale_initiatives(p_assignment_ms bigint, p_progress_ms bigint, p_limit integer) RETURNS jsonb
LANGUAGE sql AS $$
  WITH watched AS (
    SELECT initiative_id FROM initiative_tasks
     WHERE assigned_to IS NOT NULL AND status <> 'completed'
       AND assigned_at < clock_timestamp() - make_interval(secs => p_assignment_ms / 1000.0) - interval '2 seconds'
    UNION
    SELECT initiative_id FROM session_history
     WHERE status = 'active' AND session_id IS NOT NULL
       AND last_sign_at < clock_timestamp() - make_interval(secs => p_progress_ms / 1000.0) - interval '2 seconds'
  ), due AS (
    SELECT i.initiative_id FROM initiatives i JOIN watched USING (initiative_id)
     WHERE (i.swept_at IS NULL OR i.swept_at < clock_timestamp() - interval '10 seconds')
       AND EXISTS (SELECT FROM watched_sessions(i.initiative_id, p_assignment_ms, p_progress_ms)
                    WHERE due_at < clock_timestamp() - interval '2 seconds')
     ORDER BY i.swept_at NULLS FIRST LIMIT p_limit FOR NO KEY UPDATE OF i SKIP LOCKED
  ), claimed AS (
    UPDATE initiatives i SET swept_at = clock_timestamp() FROM due WHERE i.initiative_id = due.initiative_id
    RETURNING i.initiative_id, i.user_id, i.project_id, i.status
  )
  SELECT coalesce(jsonb_agg(to_jsonb(claimed)), '[]') FROM claimed
$$;

-- Claims initiatives whose status changed two seconds ago and has not been found in Temporal since, longest overdue first; they are
-- due again in ten seconds. Stuck ones are due when they go on. `check` tells whether the status has changed since. The planner
-- settings are those of claim_due_runs().
CREATE OR REPLACE FUNCTION claim_changed_initiatives(p_limit integer) RETURNS jsonb LANGUAGE sql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH due AS (
    SELECT ctid FROM initiatives WHERE check_at <= now() AND stuck_at IS NULL
     ORDER BY check_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE initiatives i SET check_at = clock_timestamp() + interval '10 seconds' FROM due WHERE i.ctid = due.ctid
    RETURNING i.initiative_id, i.user_id, i.project_id, i.status, exact_time(i.check_at) AS check
  )
  SELECT coalesce(jsonb_agg(to_jsonb(claimed)), '[]') FROM claimed
$$;

-- Notes that Temporal shows the status of initiatives as they were claimed, [{ initiative_id, check }]: not of those whose status has
-- changed since. SKIP LOCKED: one that is in use is claimed again. The planner settings are those of claim_due_runs().
CREATE OR REPLACE FUNCTION end_initiative_checks(p_shown jsonb) RETURNS void LANGUAGE sql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH shown AS (
    SELECT i.ctid FROM jsonb_array_elements(p_shown) AS each
      JOIN initiatives i ON i.initiative_id = each ->> 'initiative_id' AND exact_time(i.check_at) = each ->> 'check'
       FOR NO KEY UPDATE OF i SKIP LOCKED
  )
  UPDATE initiatives i SET check_at = NULL FROM shown WHERE i.ctid = shown.ctid
$$;
