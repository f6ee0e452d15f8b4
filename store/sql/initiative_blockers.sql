-- Commands of blockers (initiatives.sql says how they are called).

-- p_args: { description, affects, blocked_tasks? }. Takes the tasks from those who hold them.
CREATE OR REPLACE FUNCTION ini_add_blocker(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[] := ARRAY(SELECT DISTINCT jsonb_array_elements_text(coalesce(p_args -> 'blocked_tasks', '[]')));
  v_n integer := (SELECT coalesce(max(number), 0) + 1 FROM initiative_blockers WHERE initiative_id = p_initiative);
  v_id text := 'block-' || lpad(v_n::text, greatest(3, length(v_n::text)), '0');
  v_found integer;
  v_done integer;
BEGIN
  SELECT count(*), count(*) FILTER (WHERE status = 'completed') INTO v_found, v_done
    FROM initiative_tasks WHERE initiative_id = p_initiative AND task_id = ANY (v_ids);
  IF v_found < cardinality(v_ids) THEN RETURN '{"code": "TaskNotFound"}'; END IF;
  IF v_done > 0 THEN RETURN illegal_event('task', 'completed', 'block'); END IF;
  INSERT INTO initiative_blockers (initiative_id, id, number, description, affects)
  VALUES (p_initiative, v_id, v_n, p_args ->> 'description', coalesce(p_args -> 'affects', '[]'));
  INSERT INTO initiative_blocker_tasks SELECT p_initiative, v_id, unnest(v_ids), 'blocked';
  UPDATE initiative_tasks SET status = 'blocked', assigned_to = NULL, assigned_at = NULL, last_progress_at = NULL
   WHERE initiative_id = p_initiative AND task_id = ANY (v_ids) AND status <> 'blocked';
  RETURN jsonb_build_object('kind', 'blocker_found', 'data', jsonb_build_object('tasks', v_ids),
                            'outcome', jsonb_build_object('id', v_id));
END $$;

-- Unblocks the tasks of a blocker that no active one names. Returns their ids.
CREATE OR REPLACE FUNCTION unblock_tasks(p_initiative text, p_blocker text) RETURNS jsonb LANGUAGE sql AS $$
  WITH unblocked AS (
    UPDATE initiative_tasks t SET status = 'open'
     WHERE t.initiative_id = p_initiative AND t.status = 'blocked'
       AND t.task_id IN (SELECT task_id FROM initiative_blocker_tasks
                          WHERE initiative_id = p_initiative AND blocker = p_blocker AND part = 'blocked')
       AND NOT EXISTS (
         SELECT FROM initiative_blocker_tasks o JOIN initiative_blockers b ON b.initiative_id = o.initiative_id AND b.id = o.blocker
          WHERE o.initiative_id = p_initiative AND o.task_id = t.task_id AND o.part = 'blocked' AND b.status = 'active')
    RETURNING task_id
  )
  SELECT coalesce(jsonb_agg(task_id ORDER BY task_id), '[]') FROM unblocked
$$;

-- A blocker that an event may change, or why not.
CREATE OR REPLACE FUNCTION open_blocker(
  p_initiative text, p_id text, p_event text, OUT blocker initiative_blockers, OUT refusal jsonb
) LANGUAGE plpgsql STABLE AS $$
BEGIN
  SELECT * INTO blocker FROM initiative_blockers WHERE initiative_id = p_initiative AND id = p_id;
  refusal := CASE WHEN blocker.id IS NULL THEN '{"code": "BlockerNotFound"}'::jsonb
                  WHEN next_status('blocker', blocker.status, p_event) IS NULL THEN '{"code": "BlockerResolved"}'::jsonb END;
END $$;

-- p_args: { id, workaround, workaround_tasks?: [{ task_id, name }] }. Adds the tasks to the plan and wave of the first task that it
-- has blocked, or else of the position.
CREATE OR REPLACE FUNCTION ini_bypass_blocker(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_refusal jsonb := (open_blocker(p_initiative, p_args ->> 'id', 'bypass')).refusal;
  v_tasks jsonb := coalesce(p_args -> 'workaround_tasks', '[]');
  v_at initiative_tasks;
BEGIN
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  IF v_tasks <> '[]' THEN
    SELECT t.* INTO v_at FROM initiative_tasks t
     WHERE t.initiative_id = p_initiative AND t.status <> 'completed'
       AND t.task_id IN (SELECT task_id FROM initiative_blocker_tasks
                          WHERE initiative_id = p_initiative AND blocker = p_args ->> 'id' AND part = 'blocked')
     ORDER BY t.phase, t.plan, t.wave, t.number LIMIT 1;
    IF NOT FOUND THEN
      SELECT t.* INTO v_at FROM initiative_state s
        JOIN initiative_tasks t ON t.initiative_id = s.initiative_id AND t.task_id = s.current_task
       WHERE s.initiative_id = p_initiative;
    END IF;
    IF v_at.status = 'completed' THEN RETURN illegal_event('initiative', 'completed', 'bypass'); END IF;
    IF EXISTS (SELECT FROM initiative_tasks
                WHERE initiative_id = p_initiative AND phase = v_at.phase AND plan = v_at.plan
                  AND name IN (SELECT task ->> 'name' FROM jsonb_array_elements(v_tasks) AS task)) THEN
      RETURN bad_argument('workaround_tasks', 'names that no task of this plan has yet');
    END IF;
    IF (SELECT count(*) FROM initiative_tasks WHERE initiative_id = p_initiative) + jsonb_array_length(v_tasks) > 10000 THEN
      RETURN bad_argument('workaround_tasks', 'at most 10000 tasks of an initiative');
    END IF;
    INSERT INTO initiative_tasks (initiative_id, task_id, phase, plan, wave, number, name)
    SELECT p_initiative, task ->> 'task_id', v_at.phase, v_at.plan, v_at.wave, n + (
             SELECT max(number) FROM initiative_tasks
              WHERE initiative_id = p_initiative AND phase = v_at.phase AND plan = v_at.plan), task ->> 'name'
      FROM jsonb_array_elements(v_tasks) WITH ORDINALITY AS given(task, n);
    INSERT INTO initiative_blocker_tasks
    SELECT p_initiative, p_args ->> 'id', task ->> 'task_id', 'workaround' FROM jsonb_array_elements(v_tasks) AS task;
  END IF;
  UPDATE initiative_blockers SET status = 'bypassed', workaround = p_args ->> 'workaround'
   WHERE initiative_id = p_initiative AND id = p_args ->> 'id';
  RETURN jsonb_build_object('kind', 'blocker_bypassed', 'outcome', jsonb_build_object('id', p_args -> 'id'), 'data',
    jsonb_build_object('unblocked', unblock_tasks(p_initiative, p_args ->> 'id'),
                       'added', (SELECT coalesce(jsonb_agg(task -> 'task_id'), '[]') FROM jsonb_array_elements(v_tasks) AS task)));
END $$;

-- p_args: { id, resolution }
CREATE OR REPLACE FUNCTION ini_resolve_blocker(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_refusal jsonb := (open_blocker(p_initiative, p_args ->> 'id', 'resolve')).refusal;
BEGIN
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  UPDATE initiative_blockers SET status = 'resolved', resolution = p_args ->> 'resolution', resolved_at = clock_timestamp()
   WHERE initiative_id = p_initiative AND id = p_args ->> 'id';
  RETURN jsonb_build_object('kind', 'blocker_resolved', 'outcome', jsonb_build_object('id', p_args -> 'id'),
    'data', jsonb_build_object('unblocked', unblock_tasks(p_initiative, p_args ->> 'id')));
END $$;
