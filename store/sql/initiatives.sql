-- Initiatives. apply_initiative_command() carries out a command in one transaction and one round trip: it locks the initiative,
-- looks for a repeat, calls the command's own function
--
--   ini_<name>(p_initiative text, p_args jsonb) RETURNS jsonb
--
-- and logs an event with the outcome. That function checks before it writes, and returns a refusal, { "code": <error code>, ... },
-- or { "kind": <kind of the event>, "data": <ids and statuses>, "outcome": <ids> }, or null: there was nothing to do. The
-- functions are in initiative_tasks.sql, initiative_blockers.sql, initiative_records.sql and initiative_reviews.sql. receipts.sql has
-- what these commands share with those of sessions.

-- Trigger: a status changes only as domain/initiatives/machines.ts allows.
CREATE OR REPLACE FUNCTION guard_initiative_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM initiative_transitions
                  WHERE machine = TG_ARGV[0] AND status = OLD.status AND next = NEW.status) THEN
    RAISE EXCEPTION 'a % that is % cannot become %', TG_ARGV[0], OLD.status, NEW.status USING ERRCODE = 'PD001';
  END IF;
  RETURN NEW;
END $$;

-- Trigger: the log is append-only.
CREATE OR REPLACE FUNCTION guard_initiative_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('perdure.writer', true) = 'erase' THEN RETURN OLD; END IF;
  RAISE EXCEPTION 'initiative_events is append-only' USING ERRCODE = 'PD001';
END $$;

-- The status after an event; null: the transition is illegal.
CREATE OR REPLACE FUNCTION next_status(p_machine text, p_status text, p_event text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT next FROM initiative_transitions WHERE machine = p_machine AND status = p_status AND event = p_event
$$;

-- The refusal of an illegal transition.
CREATE OR REPLACE FUNCTION illegal_event(p_machine text, p_status text, p_event text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('code', 'InvalidTransition', 'machine', p_machine, 'status', p_status, 'event', p_event)
$$;

-- The refusal of an argument.
CREATE OR REPLACE FUNCTION bad_argument(p_field text, p_expected text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('code', 'BadRequest', 'field', p_field, 'expected', p_expected)
$$;

-- Creates an initiative at its first task. p_input: { title, next_action, phases: [{ name, plans: [{ name, body, tasks:
-- [{ task_id, name, wave }] }] }], decisions, project_id, workspace_root }. Returns { initiative_id }, of a repeat that of the
-- first creation; or a refusal. p_digest is of what the user gave: under the same key, another one is KeyReused.
CREATE OR REPLACE FUNCTION create_initiative(
  p_initiative text, p_user text, p_input jsonb, p_key text, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_known initiatives;
  v_decision jsonb;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('initiative/' || p_user || '/' || p_key, 0)) WHERE p_key IS NOT NULL;
  SELECT * INTO v_known FROM initiatives WHERE user_id = p_user AND creation_key = p_key;
  IF v_known.creation_digest <> p_digest THEN RETURN '{"code": "KeyReused"}'; END IF;
  IF v_known.initiative_id IS NOT NULL THEN RETURN jsonb_build_object('initiative_id', v_known.initiative_id); END IF;
  IF p_input ->> 'project_id' IS NOT NULL AND NOT own_project(p_input ->> 'project_id', p_user) THEN
    RETURN '{"code": "ProjectNotFound"}';
  END IF;
  PERFORM keep_folder(p_input ->> 'workspace_root');
  INSERT INTO initiatives (initiative_id, user_id, title, next_action, project_id, workspace_root, creation_key, creation_digest)
  VALUES (p_initiative, p_user, p_input ->> 'title', coalesce(p_input ->> 'next_action', ''), p_input ->> 'project_id',
          p_input ->> 'workspace_root', p_key, p_digest);
  INSERT INTO initiative_phases (initiative_id, phase, name)
  SELECT p_initiative, n, phase ->> 'name' FROM jsonb_array_elements(p_input -> 'phases') WITH ORDINALITY AS given(phase, n);
  INSERT INTO initiative_plans (initiative_id, phase, plan, name, body)
  SELECT p_initiative, p, n, plan ->> 'name', coalesce(plan ->> 'body', '')
    FROM jsonb_array_elements(p_input -> 'phases') WITH ORDINALITY AS given(phase, p),
         jsonb_array_elements(phase -> 'plans') WITH ORDINALITY AS plans(plan, n);
  INSERT INTO initiative_tasks (initiative_id, task_id, phase, plan, wave, number, name)
  SELECT p_initiative, task ->> 'task_id', p, l, coalesce((task ->> 'wave')::integer, 1), n, task ->> 'name'
    FROM jsonb_array_elements(p_input -> 'phases') WITH ORDINALITY AS given(phase, p),
         jsonb_array_elements(phase -> 'plans') WITH ORDINALITY AS plans(plan, l),
         jsonb_array_elements(plan -> 'tasks') WITH ORDINALITY AS tasks(task, n);
  INSERT INTO initiative_state (initiative_id, current_phase, current_plan, current_task, current_wave, status, progress)
  SELECT initiative_id, phase, plan, task_id, wave, status, '{}'
    FROM initiative_tasks WHERE initiative_id = p_initiative ORDER BY phase, plan, wave, number LIMIT 1;
  FOR v_decision IN SELECT jsonb_array_elements(coalesce(p_input -> 'decisions', '[]')) LOOP
    PERFORM ini_add_decision(p_initiative, v_decision);
  END LOOP;
  PERFORM refresh_statuses(p_initiative);
  PERFORM log_initiative(p_initiative, 'created', 'user', '{}', p_command_id);
  RETURN jsonb_build_object('initiative_id', p_initiative);
END $$;

-- The keys of an initiative's advisory locks.
CREATE OR REPLACE FUNCTION initiative_lock(p_initiative text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtextextended('initiative/commands/' || p_initiative, 0)
$$;
CREATE OR REPLACE FUNCTION initiative_log_lock(p_initiative text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtextextended('initiative/log/' || p_initiative, 0)
$$;

CREATE OR REPLACE FUNCTION log_initiative(
  p_initiative text, p_kind text, p_actor text, p_data jsonb, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS void LANGUAGE sql AS $$
  INSERT INTO initiative_events (initiative_id, kind, actor, data, command_id, args_digest)
  VALUES (p_initiative, p_kind, p_actor, p_data, p_command_id, p_digest)
$$;

-- Locks a user's initiative; false: there is none. Assignments to a work session that is named share the lock with one another, so
-- that many workers can be given tasks at once; all other commands, and take_task(), exclude them and each other. The advisory lock
-- comes first because it is fair: a row that is always locked by some who share it is never free for a command that excludes them.
CREATE OR REPLACE FUNCTION lock_initiative(p_initiative text, p_user text, p_shared boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF p_shared THEN
    PERFORM pg_advisory_xact_lock_shared(initiative_lock(p_initiative))
       FROM initiatives WHERE initiative_id = p_initiative AND user_id = p_user;
    PERFORM FROM initiatives WHERE initiative_id = p_initiative AND user_id = p_user FOR SHARE;
  ELSE
    PERFORM pg_advisory_xact_lock(initiative_lock(p_initiative))
       FROM initiatives WHERE initiative_id = p_initiative AND user_id = p_user;
    PERFORM FROM initiatives WHERE initiative_id = p_initiative AND user_id = p_user FOR NO KEY UPDATE;
  END IF;
  RETURN FOUND;
END $$;

-- Carries out a command of a user's initiative once per command id; a repeat gets the recorded outcome. p_digest is of the arguments
-- that the caller gave: a repeat with another one is KeyReused; null is not compared. Returns the outcome with "ok": true, or a
-- refusal with "ok": false.
CREATE OR REPLACE FUNCTION apply_initiative_command(
  p_initiative text, p_user text, p_command text, p_args jsonb, p_actor text, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_shared boolean := p_command = 'assign_task';
  v_outcome jsonb;
BEGIN
  -- Before the initiative: so do forget_chats() and take_task(), and what ends work sessions with their chat sessions.
  IF p_command = 'start_session' THEN PERFORM FROM sessions WHERE session_id = p_args ->> 'session_id' FOR KEY SHARE; END IF;
  IF NOT lock_initiative(p_initiative, p_user, v_shared) THEN RETURN '{"ok": false, "code": "InitiativeNotFound"}'; END IF;
  -- Those that share the lock would not see each other's receipts.
  IF v_shared THEN PERFORM pg_advisory_xact_lock(hashtextextended(p_initiative || '/' || p_command_id, 0)); END IF;
  SELECT recorded_outcome(data, args_digest, p_digest) INTO v_outcome
    FROM initiative_events WHERE initiative_id = p_initiative AND command_id = p_command_id;
  IF v_outcome IS NOT NULL THEN RETURN v_outcome; END IF;
  RETURN run_initiative_command(p_initiative, p_command, p_args, p_actor, p_command_id, p_digest);
END $$;

-- For an agent: assigns or starts a task as the work session of its chat session, one call after the other. If none is active, one
-- begins in the same transaction, and only if there is the task. p_command is assign_task or start_task, p_args are without the work
-- session. Returns the outcome with "work_session".
CREATE OR REPLACE FUNCTION take_task(
  p_initiative text, p_user text, p_agent text, p_chat text, p_command text, p_args jsonb, p_command_id text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_id text;
  v_begins boolean;
  v_outcome jsonb := '{"ok": true}';
BEGIN
  PERFORM FROM sessions WHERE session_id = p_chat FOR KEY SHARE;
  IF NOT lock_initiative(p_initiative, p_user, false) THEN RETURN '{"ok": false, "code": "InitiativeNotFound"}'; END IF;
  v_id := active_work_session(p_initiative, p_chat);
  -- A repeat needs none.
  v_begins := v_id IS NULL AND NOT EXISTS (
    SELECT FROM initiative_events WHERE initiative_id = p_initiative AND command_id = p_command_id);
  BEGIN
    IF v_begins THEN
      v_outcome := run_initiative_command(
        p_initiative, 'start_session', jsonb_build_object('agent', p_agent, 'session_id', p_chat), 'user', 'start_session:' || p_command_id);
      v_id := v_outcome ->> 'id';
    END IF;
    IF (v_outcome ->> 'ok')::boolean THEN
      v_outcome := apply_initiative_command(
        p_initiative, p_user, p_command, p_args || jsonb_build_object('work_session', v_id), 'user', p_command_id);
    END IF;
    IF v_begins AND (NOT (v_outcome ->> 'ok')::boolean OR v_outcome ? 'nothing') THEN
      RAISE EXCEPTION 'no task was given' USING ERRCODE = 'PD005', DETAIL = v_outcome::text;
    END IF;
  EXCEPTION WHEN SQLSTATE 'PD005' THEN
    GET STACKED DIAGNOSTICS v_outcome = PG_EXCEPTION_DETAIL;
    RETURN v_outcome;
  END;
  RETURN v_outcome || coalesce((
    SELECT jsonb_build_object('work_session', data -> 'work_session')
      FROM initiative_events WHERE initiative_id = p_initiative AND command_id = p_command_id), '{}');
END $$;

-- Under the lock: runs the command's function, brings what follows from it up to date, and logs the event. Its data also has what
-- refresh_statuses() returns.
CREATE OR REPLACE FUNCTION run_initiative_command(
  p_initiative text, p_command text, p_args jsonb, p_actor text, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_result jsonb;
  v_outcome jsonb;
  v_changed jsonb;
BEGIN
  EXECUTE format('SELECT %I($1, $2)', 'ini_' || p_command) INTO v_result USING p_initiative, p_args;
  IF v_result IS NULL THEN RETURN '{"ok": true, "nothing": true}'; END IF;
  v_outcome := outcome_of(v_result);
  IF NOT v_result ? 'code' AND p_command NOT IN ('assign_task', 'report_progress', 'flag_review', 'review') THEN
    v_changed := refresh_statuses(p_initiative);
    UPDATE initiatives SET version = version + 1, updated_at = clock_timestamp() WHERE initiative_id = p_initiative;
  END IF;
  -- Assignments that run at once commit together, so their events become visible in any order. Each holds this lock, shared, from
  -- before its event has a number until it has committed, and read_initiative_changes waits for all of them. All others who append
  -- hold the initiative's row alone.
  IF p_command = 'assign_task' THEN PERFORM pg_advisory_xact_lock_shared(initiative_log_lock(p_initiative)); END IF;
  PERFORM log_initiative(p_initiative, coalesce(v_result ->> 'kind', 'refused'), p_actor,
    coalesce(v_result -> 'data', '{}') || coalesce(v_changed, '{}')
      || jsonb_build_object('command', p_command, 'outcome', v_outcome), p_command_id, p_digest);
  RETURN v_outcome;
END $$;

-- Carries out several commands, [{ command, args }], all or none, if the initiative still has the version that the caller read.
-- Returns { "ok": true }, or the first refusal, with "n": its index.
CREATE OR REPLACE FUNCTION apply_initiative_edit(
  p_initiative text, p_user text, p_version bigint, p_commands jsonb, p_actor text, p_command_id text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_command jsonb;
  v_n integer;
  v_outcome jsonb;
  v_refusal text;
BEGIN
  IF NOT lock_initiative(p_initiative, p_user, false) THEN RETURN '{"ok": false, "code": "InitiativeNotFound"}'; END IF;
  IF NOT EXISTS (SELECT FROM initiatives WHERE initiative_id = p_initiative AND version = p_version) THEN
    RETURN '{"ok": false, "code": "StaleState"}';
  END IF;
  FOR v_command, v_n IN SELECT value, ordinality - 1 FROM jsonb_array_elements(p_commands) WITH ORDINALITY LOOP
    v_outcome := run_initiative_command(
      p_initiative, v_command ->> 'command', v_command -> 'args', p_actor, p_command_id || '/' || v_n);
    IF NOT (v_outcome ->> 'ok')::boolean THEN
      RAISE EXCEPTION 'an update was refused' USING ERRCODE = 'PD005', DETAIL = (v_outcome || jsonb_build_object('n', v_n))::text;
    END IF;
  END LOOP;
  RETURN '{"ok": true}';
EXCEPTION WHEN SQLSTATE 'PD005' THEN
  GET STACKED DIAGNOSTICS v_refusal = PG_EXCEPTION_DETAIL;
  RETURN v_refusal::jsonb;
END $$;

-- Brings up to date what follows from the tasks: plans and phases, the position if its task is completed, the initiative's status,
-- the position's status, and the counters. Returns which statuses have changed: "phases" by their numbers, and "status", that of the
-- initiative.
CREATE OR REPLACE FUNCTION refresh_statuses(p_initiative text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_task initiative_tasks;
  v_next initiative_tasks;
  v_status text;
  v_progress jsonb;
  v_changed jsonb;
BEGIN
  UPDATE initiative_plans p
     SET status = 'completed', summary = (
           SELECT string_agg('- ' || t.name || coalesce(': ' || t.note, ''), E'\n' ORDER BY t.wave, t.number)
             FROM initiative_tasks t WHERE (t.initiative_id, t.phase, t.plan) = (p.initiative_id, p.phase, p.plan))
   WHERE p.initiative_id = p_initiative AND p.status = 'active' AND NOT EXISTS (
           SELECT FROM initiative_tasks t
            WHERE (t.initiative_id, t.phase, t.plan) = (p.initiative_id, p.phase, p.plan) AND t.status <> 'completed');
  WITH changed AS (
    UPDATE initiative_phases p SET status = now.status
      FROM (SELECT phase, CASE WHEN bool_and(status = 'completed') THEN 'completed'
                               WHEN bool_and(status IN ('blocked', 'completed')) THEN 'paused' ELSE 'active' END AS status
              FROM initiative_tasks WHERE initiative_id = p_initiative GROUP BY phase) AS now
     WHERE p.initiative_id = p_initiative AND p.phase = now.phase AND p.status <> now.status
    RETURNING p.phase, p.status
  )
  SELECT jsonb_strip_nulls(jsonb_build_object('phases', jsonb_object_agg(phase, status))) INTO v_changed FROM changed;

  SELECT t.* INTO v_task FROM initiative_state s JOIN initiative_tasks t
      ON t.initiative_id = s.initiative_id AND t.task_id = s.current_task WHERE s.initiative_id = p_initiative;
  IF v_task.status = 'completed' THEN
    SELECT * INTO v_next FROM initiative_tasks
     WHERE initiative_id = p_initiative AND status <> 'completed'
     ORDER BY (phase, plan, wave) <> (v_task.phase, v_task.plan, v_task.wave), phase, plan, wave, number LIMIT 1;
    IF FOUND THEN v_task := v_next; END IF;
  END IF;

  SELECT CASE WHEN bool_and(status = 'completed') THEN 'completed'
              WHEN bool_and(status <> 'active') THEN 'escalated'
              WHEN bool_or(status = 'paused' AND phase = v_task.phase) THEN 'paused' ELSE 'active' END,
         jsonb_build_object('phases_total', count(*), 'phases_completed', count(*) FILTER (WHERE status = 'completed'))
    INTO v_status, v_progress FROM initiative_phases WHERE initiative_id = p_initiative;
  UPDATE initiatives SET status = v_status, check_at = clock_timestamp() + interval '2 seconds'
   WHERE initiative_id = p_initiative AND status <> v_status;
  IF FOUND THEN v_changed := v_changed || jsonb_build_object('status', v_status); END IF;
  SELECT v_progress || jsonb_build_object(
           'current_phase_tasks', count(*), 'current_phase_completed', count(*) FILTER (WHERE status = 'completed'))
    INTO v_progress FROM initiative_tasks
   WHERE initiative_id = p_initiative AND phase = v_task.phase AND v_status <> 'completed';
  UPDATE initiative_state
     SET current_phase = v_task.phase, current_plan = v_task.plan, current_task = v_task.task_id, current_wave = v_task.wave,
         status = CASE WHEN v_status = 'active' THEN v_task.status ELSE v_status END, progress = v_progress,
         updated_at = clock_timestamp()
   WHERE initiative_id = p_initiative;
  RETURN v_changed;
END $$;

-- Deletes a user's initiatives, and queues the end of their workflows.
CREATE OR REPLACE FUNCTION erase_initiatives(p_user text) RETURNS void LANGUAGE sql SET perdure.writer = 'erase' AS $$
  SELECT queue_erasure(initiative_id, NULL) FROM initiatives WHERE user_id = p_user;
  DELETE FROM initiatives WHERE user_id = p_user
$$;
