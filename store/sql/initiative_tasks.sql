-- Commands of tasks (initiatives.sql says how they are called).

-- A task that a work session must hold, or why not: TaskNotFound, or TaskAssigned where another one or nobody holds it.
CREATE OR REPLACE FUNCTION held_task(p_initiative text, p_args jsonb, OUT task initiative_tasks, OUT refusal jsonb)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  SELECT * INTO task FROM initiative_tasks WHERE initiative_id = p_initiative AND task_id = p_args ->> 'task_id';
  refusal := CASE WHEN task.task_id IS NULL THEN '{"code": "TaskNotFound"}'::jsonb
                  WHEN task.assigned_to IS DISTINCT FROM p_args ->> 'work_session' THEN
                    jsonb_build_object('code', 'TaskAssigned', 'assigned_to', task.assigned_to) END;
END $$;

-- Why a work session cannot be given a task; null: it can.
CREATE OR REPLACE FUNCTION refuse_work_session(p_initiative text, p_id text, p_event text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_status text := (SELECT status FROM session_history WHERE initiative_id = p_initiative AND id = p_id);
BEGIN
  RETURN CASE WHEN v_status IS NULL THEN '{"code": "WorkSessionNotFound"}'::jsonb
              WHEN v_status <> 'active' THEN illegal_event('work_session', v_status, p_event) END;
END $$;

CREATE OR REPLACE FUNCTION task_result(p_kind text, p_args jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('kind', p_kind, 'data', jsonb_build_object('work_session', p_args -> 'work_session'),
                            'outcome', jsonb_build_object('task_id', p_args -> 'task_id'))
$$;

-- p_args: { work_session, unstarted? }. Assigns the next open task of the position's wave, and if there is none one that was set to
-- in_progress and that nobody holds: else the wave would never end. Null: there is neither. SKIP LOCKED: those who ask at once, under
-- the shared lock of the initiative, are given different tasks. `unstarted`: a task that the work session holds and has not started
-- comes first: its agent may have forgotten it.
CREATE OR REPLACE FUNCTION ini_assign_task(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_refusal jsonb := refuse_work_session(p_initiative, p_args ->> 'work_session', 'assign');
  v_at initiative_state;
  v_task text;
BEGIN
  v_refusal := coalesce(v_refusal, refuse_flagged(p_initiative));
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  IF (p_args ->> 'unstarted')::boolean THEN
    SELECT task_id INTO v_task FROM initiative_tasks
     WHERE initiative_id = p_initiative AND assigned_to = p_args ->> 'work_session'
       AND (status = 'open' OR status = 'in_progress' AND last_progress_at IS NULL)
     ORDER BY phase, plan, wave, number LIMIT 1;
    IF FOUND THEN
      PERFORM note_sign(p_initiative, p_args ->> 'work_session');
      RETURN task_result('task_assigned', p_args || jsonb_build_object('task_id', v_task));
    END IF;
  END IF;
  SELECT * INTO v_at FROM initiative_state WHERE initiative_id = p_initiative;
  SELECT task_id INTO v_task FROM initiative_tasks
   WHERE initiative_id = p_initiative AND phase = v_at.current_phase AND plan = v_at.current_plan
     AND wave = v_at.current_wave AND status = 'open' AND assigned_to IS NULL
   ORDER BY initiative_id, phase, plan, wave, number LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    SELECT task_id INTO v_task FROM initiative_tasks
     WHERE initiative_id = p_initiative AND phase = v_at.current_phase AND plan = v_at.current_plan
       AND wave = v_at.current_wave AND status = 'in_progress' AND assigned_to IS NULL
     ORDER BY initiative_id, phase, plan, wave, number LIMIT 1 FOR UPDATE SKIP LOCKED;
  END IF;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE initiative_tasks SET assigned_to = p_args ->> 'work_session', assigned_at = clock_timestamp(), last_progress_at = NULL
   WHERE initiative_id = p_initiative AND task_id = v_task;
  PERFORM note_sign(p_initiative, p_args ->> 'work_session');
  RETURN task_result('task_assigned', p_args || jsonb_build_object('task_id', v_task));
END $$;

-- p_args: { task_id, work_session }. Starts a task that the work session holds or nobody holds; also one that was set to in_progress,
-- as long as nobody has started it or reported on it.
CREATE OR REPLACE FUNCTION ini_start_task(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_held record := held_task(p_initiative, p_args);
  v_task initiative_tasks := v_held.task;
  v_refusal jsonb := coalesce(refuse_work_session(p_initiative, p_args ->> 'work_session', 'start'), refuse_flagged(p_initiative));
BEGIN
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  IF v_task.task_id IS NULL OR v_task.assigned_to IS NOT NULL AND v_held.refusal IS NOT NULL THEN RETURN v_held.refusal; END IF;
  IF next_status('task', v_task.status, 'start') IS NULL
     AND (v_task.status <> 'in_progress' OR v_task.last_progress_at IS NOT NULL) THEN
    RETURN illegal_event('task', v_task.status, 'start');
  END IF;
  UPDATE initiative_tasks
     SET status = 'in_progress', assigned_to = p_args ->> 'work_session',
         assigned_at = coalesce(assigned_at, clock_timestamp()), last_progress_at = clock_timestamp()
   WHERE initiative_id = p_initiative AND task_id = v_task.task_id;
  UPDATE session_history SET working_on = task_title(v_task), last_sign_at = clock_timestamp()
   WHERE initiative_id = p_initiative AND id = p_args ->> 'work_session';
  RETURN task_result('task_started', p_args);
END $$;

-- "Phase 2, Plan 1: a name"
CREATE OR REPLACE FUNCTION task_title(p_task initiative_tasks) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT format('Phase %s, Plan %s: %s', p_task.phase, p_task.plan, p_task.name)
$$;

-- p_args: { task_id, work_session, note? }
CREATE OR REPLACE FUNCTION ini_report_progress(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_held record := held_task(p_initiative, p_args);
  v_task initiative_tasks := v_held.task;
BEGIN
  IF v_held.refusal IS NOT NULL THEN RETURN v_held.refusal; END IF;
  IF v_task.status = 'completed' THEN RETURN illegal_event('task', v_task.status, 'progress'); END IF;
  PERFORM note_sign(p_initiative, p_args ->> 'work_session');
  UPDATE initiative_tasks SET last_progress_at = clock_timestamp(), note = coalesce(p_args ->> 'note', note)
   WHERE initiative_id = p_initiative AND task_id = v_task.task_id;
  RETURN task_result('task_progress', p_args);
END $$;

-- p_args: { task_id, work_session, note? }
CREATE OR REPLACE FUNCTION ini_complete_task(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_held record := held_task(p_initiative, p_args);
  v_task initiative_tasks := v_held.task;
BEGIN
  IF v_held.refusal IS NOT NULL THEN RETURN v_held.refusal; END IF;
  IF next_status('task', v_task.status, 'complete') IS NULL THEN RETURN illegal_event('task', v_task.status, 'complete'); END IF;
  PERFORM note_sign(p_initiative, p_args ->> 'work_session');
  UPDATE initiative_tasks
     SET status = 'completed', completed_at = clock_timestamp(), last_progress_at = clock_timestamp(),
         note = coalesce(p_args ->> 'note', note)
   WHERE initiative_id = p_initiative AND task_id = v_task.task_id;
  RETURN task_result('task_completed', p_args);
END $$;

-- Puts the uncompleted tasks of a work session back to open. Returns their ids.
CREATE OR REPLACE FUNCTION release_tasks(p_initiative text, p_session text) RETURNS jsonb LANGUAGE sql AS $$
  WITH released AS (
    UPDATE initiative_tasks SET status = 'open', assigned_to = NULL, assigned_at = NULL, last_progress_at = NULL
     WHERE initiative_id = p_initiative AND assigned_to = p_session AND status IN ('open', 'in_progress')
    RETURNING task_id
  )
  SELECT coalesce(jsonb_agg(task_id ORDER BY task_id), '[]') FROM released
$$;
