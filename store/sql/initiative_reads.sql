-- Initiatives as their API shows them.

-- A time in UTC, to the second, as ISO 8601.
CREATE OR REPLACE FUNCTION iso_second(p_at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;

CREATE OR REPLACE FUNCTION show_initiative(p_row initiatives) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'initiative_id', p_row.initiative_id, 'user_id', p_row.user_id, 'title', p_row.title, 'status', p_row.status,
    'next_action', p_row.next_action, 'resume_context', p_row.resume_context, 'project_id', p_row.project_id,
    'workspace_root', p_row.workspace_root, 'review', p_row.review, 'version', p_row.version, 'created_at', iso_second(p_row.created_at),
    'updated_at', iso_second(p_row.updated_at))
$$;

CREATE OR REPLACE FUNCTION show_task(p_row initiative_tasks) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'task_id', p_row.task_id, 'phase', p_row.phase, 'plan', p_row.plan, 'wave', p_row.wave, 'number', p_row.number,
    'name', p_row.name, 'status', p_row.status, 'assigned_to', p_row.assigned_to, 'assigned_at', iso_second(p_row.assigned_at),
    'last_progress_at', iso_second(p_row.last_progress_at), 'note', p_row.note, 'completed_at', iso_second(p_row.completed_at))
$$;

CREATE OR REPLACE FUNCTION show_decision(p_row initiative_decisions) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT to_jsonb(p_row) - '{initiative_id,number}'::text[]
$$;

CREATE OR REPLACE FUNCTION show_work_session(p_row session_history) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT to_jsonb(p_row) - '{initiative_id,number,resumed_by,last_sign_at}'::text[]
      || jsonb_build_object('started', iso_second(p_row.started), 'ended', iso_second(p_row.ended))
$$;

-- With its tasks as [{ task_id, name }].
CREATE OR REPLACE FUNCTION show_blocker(p_row initiative_blockers) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT to_jsonb(p_row) - '{initiative_id,number}'::text[] || jsonb_build_object(
      'identified_at', iso_second(p_row.identified_at), 'resolved_at', iso_second(p_row.resolved_at),
      'blocked_tasks', coalesce(jsonb_agg(task) FILTER (WHERE part = 'blocked'), '[]'),
      'workaround_tasks', coalesce(jsonb_agg(task) FILTER (WHERE part = 'workaround'), '[]'))
    FROM (SELECT b.part, jsonb_build_object('task_id', t.task_id, 'name', t.name) AS task
            FROM initiative_blocker_tasks b JOIN initiative_tasks t USING (initiative_id, task_id)
           WHERE b.initiative_id = p_row.initiative_id AND b.blocker = p_row.id
           ORDER BY t.phase, t.plan, t.wave, t.number) AS named
$$;

CREATE OR REPLACE FUNCTION show_state(p_initiative text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('updated_at', iso_second(s.updated_at), 'progress', s.progress, 'position', jsonb_build_object(
           'phase', s.current_phase, 'phase_name', p.name, 'plan', s.current_plan, 'plan_name', l.name, 'task_id', t.task_id,
           'task', t.name, 'wave', s.current_wave, 'status', s.status))
    FROM initiative_state s
    JOIN initiative_phases p ON p.initiative_id = s.initiative_id AND p.phase = s.current_phase
    JOIN initiative_plans l ON l.initiative_id = s.initiative_id AND l.phase = s.current_phase AND l.plan = s.current_plan
    JOIN initiative_tasks t ON t.initiative_id = s.initiative_id AND t.task_id = s.current_task
   WHERE s.initiative_id = p_initiative
$$;

-- The phases with their plans and tasks.
CREATE OR REPLACE FUNCTION show_phases(p_initiative text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  WITH plans AS (
    SELECT l.phase, jsonb_agg(jsonb_build_object(
             'plan', l.plan, 'name', l.name, 'body', l.body, 'summary', l.summary, 'status', l.status, 'tasks', t.tasks)
             ORDER BY l.plan) AS plans
      FROM initiative_plans l
      JOIN (SELECT phase, plan, jsonb_agg(show_task(t) ORDER BY wave, number) AS tasks
              FROM initiative_tasks t WHERE initiative_id = p_initiative GROUP BY phase, plan) AS t USING (phase, plan)
     WHERE l.initiative_id = p_initiative GROUP BY l.phase
  )
  SELECT jsonb_agg(jsonb_build_object('phase', phase, 'name', name, 'status', status, 'plans', plans) ORDER BY phase)
    FROM initiative_phases JOIN plans USING (phase) WHERE initiative_id = p_initiative
$$;

-- A user's initiative with all that belongs to it, as of one moment; null: there is none.
CREATE OR REPLACE FUNCTION read_initiative(p_initiative text, p_user text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'initiative', show_initiative(i), 'state', show_state(p_initiative), 'phases', show_phases(p_initiative),
    'decisions', (SELECT coalesce(jsonb_agg(show_decision(d) ORDER BY number), '[]')
                    FROM initiative_decisions d WHERE initiative_id = p_initiative),
    'blockers', (SELECT coalesce(jsonb_agg(show_blocker(b) ORDER BY number), '[]')
                   FROM initiative_blockers b WHERE initiative_id = p_initiative),
    'sessions', (SELECT coalesce(jsonb_agg(show_work_session(s) ORDER BY number), '[]')
                   FROM session_history s WHERE initiative_id = p_initiative))
    FROM initiatives i WHERE i.initiative_id = p_initiative AND i.user_id = p_user
$$;

-- The beginning of a text, long enough for a prompt, which folds its white space and shows at most 300 characters.
CREATE OR REPLACE FUNCTION brief_text(p_text text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT left(ltrim(p_text, E' \t\r\n'), 1000)
$$;

-- What the prompt of a session says about a user's initiative; null: there is none. Its texts are cut.
CREATE OR REPLACE FUNCTION initiative_brief(p_initiative text, p_user text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'title', i.title, 'status', i.status, 'next_action', brief_text(i.next_action), 'review', i.review IS NOT NULL,
    'position', show_state(p_initiative) -> 'position',
    'decisions', jsonb_build_object(
      'count', (SELECT count(*) FROM initiative_decisions WHERE initiative_id = p_initiative),
      'items', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                         'date', date, 'context', brief_text(context), 'decision', brief_text(decision),
                         'reason', brief_text(reason)) ORDER BY number), '[]')
                  FROM (SELECT * FROM initiative_decisions
                         WHERE initiative_id = p_initiative ORDER BY number DESC LIMIT 20) AS newest)),
    'blockers', jsonb_build_object(
      'count', (SELECT count(*) FROM initiative_blockers WHERE initiative_id = p_initiative AND status = 'active'),
      'items', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'description', brief_text(description)) ORDER BY number), '[]')
                  FROM (SELECT * FROM initiative_blockers
                         WHERE initiative_id = p_initiative AND status = 'active' ORDER BY number DESC LIMIT 20) AS newest)))
    FROM initiatives i WHERE i.initiative_id = p_initiative AND i.user_id = p_user
$$;

-- A user's initiative with its state and the number of its newest event, as of one moment, and its events after p_after (null: none)
-- up to then, at most p_limit, without refusals; null: there is no such initiative. Reading on after the newest event misses none:
-- assignments whose events have smaller numbers have committed by then, and all other commands append one after the other.
CREATE OR REPLACE FUNCTION read_initiative_changes(p_initiative text, p_user text, p_after bigint, p_limit integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_now jsonb;
BEGIN
  BEGIN
    PERFORM pg_advisory_xact_lock(initiative_log_lock(p_initiative))
       FROM initiatives WHERE initiative_id = p_initiative AND user_id = p_user;
    v_now := (
      SELECT jsonb_build_object(
        'initiative', show_initiative(i), 'state', show_state(p_initiative),
        'newest', (SELECT seq FROM initiative_events WHERE initiative_id = p_initiative ORDER BY seq DESC LIMIT 1))
        FROM initiatives i WHERE i.initiative_id = p_initiative AND i.user_id = p_user);
    -- Rolled back, the block gives the lock back at once.
    RAISE EXCEPTION 'the newest event is known' USING ERRCODE = 'PD006';
  EXCEPTION WHEN SQLSTATE 'PD006' THEN NULL;
  END;
  RETURN v_now || jsonb_build_object('changes', (
    SELECT coalesce(jsonb_agg(jsonb_build_object(
             'seq', seq, 'at', iso_second(at), 'kind', kind, 'actor', actor,
             'data', data - '{command,outcome}'::text[] || coalesce(data -> 'outcome', '{}') - 'ok') ORDER BY seq), '[]')
      FROM (SELECT * FROM initiative_events
             WHERE initiative_id = p_initiative AND seq > p_after AND seq <= (v_now ->> 'newest')::bigint AND kind <> 'refused'
             ORDER BY seq LIMIT p_limit) AS e));
END $$;

-- A page of a user's initiatives with their state, newest first. `p_after` is the last id of the previous page.
CREATE OR REPLACE FUNCTION list_initiatives(p_user text, p_after text, p_limit integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('initiative', show_initiative(page), 'state', show_state(page.initiative_id))
                            ORDER BY page.initiative_id DESC), '[]')
    FROM (SELECT * FROM initiatives
           WHERE user_id = p_user AND (p_after IS NULL OR initiative_id < p_after)
           ORDER BY initiative_id DESC LIMIT p_limit) AS page
$$;
