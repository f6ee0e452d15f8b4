-- Commands of the position, decisions and work sessions (initiatives.sql says how they are called).

-- p_args: { position?: { phase, plan, task, wave?, status?, phase_name?, plan_name? }, next_action?, resume_context? }. The position
-- names an uncompleted task; its status may be set to open or in_progress unless a work session holds the task. Of resume_context
-- the given members are replaced.
CREATE OR REPLACE FUNCTION ini_update_state(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_position jsonb := p_args -> 'position';
  v_task initiative_tasks;
  v_refusal jsonb;
BEGIN
  IF v_position IS NOT NULL THEN
    SELECT * INTO v_task FROM initiative_tasks
     WHERE initiative_id = p_initiative AND phase = (v_position ->> 'phase')::integer
       AND plan = (v_position ->> 'plan')::integer AND name = v_position ->> 'task';
    v_refusal := coalesce(refuse_place(p_initiative, v_position), refuse_position(v_task, v_position));
    IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
    UPDATE initiative_state SET current_task = v_task.task_id WHERE initiative_id = p_initiative;
    UPDATE initiative_tasks SET status = v_position ->> 'status'
     WHERE initiative_id = p_initiative AND task_id = v_task.task_id AND v_position ->> 'status' IN ('open', 'in_progress')
       AND status <> v_position ->> 'status';
  END IF;
  UPDATE initiatives
     SET next_action = coalesce(p_args ->> 'next_action', next_action),
         resume_context = resume_context || coalesce(p_args -> 'resume_context', '{}'),
         -- What a review has accepted was accepted of another context.
         reviewed = CASE WHEN resume_context = resume_context || coalesce(p_args -> 'resume_context', '{}') THEN reviewed END
   WHERE initiative_id = p_initiative;
  RETURN jsonb_build_object('kind', 'state_updated', 'outcome', '{}'::jsonb,
    'data', jsonb_strip_nulls(jsonb_build_object('task_id', v_task.task_id)));
END $$;

-- Why a position names no plan; null: it does.
CREATE OR REPLACE FUNCTION refuse_place(p_initiative text, p_position jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_phases integer := (SELECT max(phase) FROM initiative_phases WHERE initiative_id = p_initiative);
  v_plans integer := (SELECT max(plan) FROM initiative_plans
                       WHERE initiative_id = p_initiative AND phase = (p_position ->> 'phase')::integer);
BEGIN
  IF v_plans IS NULL THEN RETURN bad_argument('position.phase', format('a phase from 1 to %s', v_phases)); END IF;
  IF (p_position ->> 'plan')::integer > v_plans THEN
    RETURN bad_argument('position.plan', format('a plan from 1 to %s, those of this phase', v_plans));
  END IF;
  RETURN NULL;
END $$;

-- Why the position cannot be at a task; null: it can.
CREATE OR REPLACE FUNCTION refuse_position(p_task initiative_tasks, p_position jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_status text := p_position ->> 'status';
  v_phase text := (SELECT name FROM initiative_phases
                    WHERE initiative_id = p_task.initiative_id AND phase = p_task.phase);
  v_plan text := (SELECT name FROM initiative_plans
                   WHERE initiative_id = p_task.initiative_id AND phase = p_task.phase AND plan = p_task.plan);
  v_now text := (SELECT s.status FROM initiative_state s
                  WHERE s.initiative_id = p_task.initiative_id AND s.current_task = p_task.task_id);
BEGIN
  IF p_task.task_id IS NULL THEN
    RETURN bad_argument('position.task', 'the name of a task of this phase and plan');
  ELSIF p_task.status = 'completed' THEN
    RETURN bad_argument('position.task', 'a task that is not completed');
  ELSIF (p_position ->> 'wave')::integer <> p_task.wave THEN
    RETURN bad_argument('position.wave', format('%s, the wave of this task', p_task.wave));
  ELSIF p_position ->> 'phase_name' <> v_phase THEN
    RETURN bad_argument('position.phase_name', 'the name of this phase, which does not change');
  ELSIF p_position ->> 'plan_name' <> v_plan THEN
    RETURN bad_argument('position.plan_name', 'the name of this plan, which does not change');
  ELSIF v_status IS NULL OR v_status = p_task.status OR v_status = v_now THEN
    RETURN NULL;
  ELSIF (v_status, p_task.status) NOT IN (('open', 'in_progress'), ('in_progress', 'open')) THEN
    RETURN bad_argument('position.status', format(
      '%s: it follows from tasks and blockers, and only open and in_progress can be set', coalesce(v_now, p_task.status)));
  ELSIF p_task.assigned_to IS NOT NULL THEN
    RETURN jsonb_build_object('code', 'TaskAssigned', 'assigned_to', p_task.assigned_to);
  END IF;
  RETURN NULL;
END $$;

-- p_args: { decision_id, kind?, date?, context, decision, reason, alternatives_considered?, reversible? }
CREATE OR REPLACE FUNCTION ini_add_decision(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO initiative_decisions
    (initiative_id, decision_id, number, kind, date, context, decision, reason, alternatives_considered, reversible)
  SELECT p_initiative, p_args ->> 'decision_id', coalesce(max(number), 0) + 1, p_args ->> 'kind',
         coalesce((p_args ->> 'date')::date, (clock_timestamp() AT TIME ZONE 'UTC')::date), p_args ->> 'context',
         p_args ->> 'decision', p_args ->> 'reason', coalesce(p_args -> 'alternatives_considered', '[]'),
         (p_args ->> 'reversible')::boolean
    FROM initiative_decisions WHERE initiative_id = p_initiative;
  RETURN jsonb_build_object('kind', 'decision_made', 'outcome', jsonb_build_object('decision_id', p_args -> 'decision_id'));
END $$;

-- p_args: { agent, session_id?, working_on?, attends? }. The first work session after a crashed one is told about it in its notes; not
-- one that `attends`, which takes no tasks. Of those a chat session has one: null if it is active. None begins in a chat session that
-- is over: end_work_of() has been there.
CREATE OR REPLACE FUNCTION ini_start_session(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat text := p_args ->> 'session_id';
  v_n integer := (SELECT coalesce(max(number), 0) + 1 FROM session_history WHERE initiative_id = p_initiative);
  v_id text := 'session-' || lpad(v_n::text, greatest(3, length(v_n::text)), '0');
  v_attends boolean := coalesce((p_args ->> 'attends')::boolean, false);
  v_crashed text := (SELECT id FROM session_history
                      WHERE initiative_id = p_initiative AND status = 'crashed' AND resumed_by IS NULL AND NOT v_attends
                      ORDER BY number LIMIT 1);
BEGIN
  IF v_attends AND active_work_session(p_initiative, v_chat) IS NOT NULL THEN RETURN NULL; END IF;
  IF v_chat IS NOT NULL AND NOT EXISTS (
       SELECT FROM sessions s JOIN initiatives i USING (user_id)
        WHERE s.session_id = v_chat AND i.initiative_id = p_initiative) THEN
    RETURN '{"code": "SessionNotFound"}';
  END IF;
  IF chat_is_over(v_chat) THEN RETURN illegal_event('chat_session', 'over', 'start_session'); END IF;
  INSERT INTO session_history (initiative_id, id, number, agent, session_id, working_on, notes)
  VALUES (p_initiative, v_id, v_n, p_args ->> 'agent', v_chat, p_args ->> 'working_on', 'Resuming from ' || v_crashed || ' crash');
  UPDATE session_history SET resumed_by = v_id WHERE initiative_id = p_initiative AND id = v_crashed;
  RETURN jsonb_build_object('kind', 'session_started', 'outcome', jsonb_build_object('id', v_id),
    'data', jsonb_strip_nulls(jsonb_build_object('resumes', v_crashed)));
END $$;

-- Whether a chat session is closed, or that of a subagent that has ended.
CREATE OR REPLACE FUNCTION chat_is_over(p_session text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM chat_sessions WHERE session_id = p_session AND closed_at IS NOT NULL)
      OR EXISTS (SELECT FROM tasks WHERE child_id = p_session AND ended_at IS NOT NULL)
$$;

-- For an erasure of a user's chat sessions, which STATE.md then does not name any more: another version of their initiatives. Waits for
-- work sessions that are being started in them; no other can be started then.
CREATE OR REPLACE FUNCTION forget_chats(p_chats text[], p_user text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_initiative text;
BEGIN
  PERFORM FROM sessions WHERE session_id = ANY (p_chats) ORDER BY session_id FOR UPDATE;
  PERFORM end_work_of(p_chats, 'The chat session was erased');
  FOR v_initiative IN SELECT DISTINCT initiative_id FROM session_history WHERE session_id = ANY (p_chats) ORDER BY 1 LOOP
    CONTINUE WHEN NOT lock_initiative(v_initiative, p_user, false);
    UPDATE initiatives SET version = version + 1, updated_at = clock_timestamp() WHERE initiative_id = v_initiative;
    PERFORM log_initiative(v_initiative, 'chat_erased', 'system', '{}', 'chat_erased:' || gen_random_uuid());
  END LOOP;
END $$;

-- Ends the active work sessions of chat sessions that are over; their notes say why. Waits for those that are being started in the
-- initiatives that the chat sessions have joined.
CREATE OR REPLACE FUNCTION end_work_of(p_chats text[], p_notes text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_active record;
BEGIN
  PERFORM lock_initiative(initiative_id, user_id, false)
     FROM (SELECT initiative_id, user_id FROM initiatives
            WHERE initiative_id IN (
                    SELECT initiative_id FROM session_history WHERE session_id = ANY (p_chats)
                    UNION SELECT i.initiative_id FROM chat_sessions c JOIN sessions s USING (session_id)
                            JOIN initiatives i ON i.initiative_id = c.metadata ->> 'initiative_id' AND i.user_id = s.user_id
                           WHERE c.session_id = ANY (p_chats))
            ORDER BY initiative_id) AS theirs;
  FOR v_active IN
    SELECT h.initiative_id, i.user_id, h.id FROM session_history h JOIN initiatives i USING (initiative_id)
     WHERE h.session_id = ANY (p_chats) AND h.status = 'active' ORDER BY h.initiative_id, h.number
  LOOP
    PERFORM apply_initiative_command(
      v_active.initiative_id, v_active.user_id, 'end_session', jsonb_build_object('id', v_active.id, 'notes', p_notes),
      'system', 'end_session:' || gen_random_uuid());
  END LOOP;
END $$;

-- Trigger: a subagent is over, in whatever way.
CREATE OR REPLACE FUNCTION end_work_of_child() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM end_work_of(ARRAY[NEW.child_id], 'The subagent has ended');
  RETURN NULL;
END $$;

-- The issue of a work session that has used more than half of its context.
CREATE OR REPLACE FUNCTION half_used() RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT '["More than half of the context was used"]'::jsonb
$$;

-- Notes a sign of life of a work session. Kept here and not only on its tasks: a blocker clears the times of a task that it takes away.
CREATE OR REPLACE FUNCTION note_sign(p_initiative text, p_session text) RETURNS void LANGUAGE sql AS $$
  UPDATE session_history SET last_sign_at = clock_timestamp() WHERE initiative_id = p_initiative AND id = p_session
$$;

-- The active work session of a chat session; null: it has none.
CREATE OR REPLACE FUNCTION active_work_session(p_initiative text, p_chat text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT id FROM session_history
   WHERE initiative_id = p_initiative AND session_id = p_chat AND status = 'active' ORDER BY number DESC LIMIT 1
$$;

-- Why a work session is handed off whose context is full.
CREATE OR REPLACE FUNCTION full_reason() RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT 'Context limit reached'
$$;

-- The work session that a user's chat session has in an initiative, or had last: { id, is_active, context_usage, is_full,
-- usage_before }, is_full: it was ended because its context was full, usage_before: what was noted last of the one before it; null: none.
CREATE OR REPLACE FUNCTION newest_work_session(p_initiative text, p_user text, p_chat text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
           'id', s.id, 'is_active', s.status = 'active', 'context_usage', s.context_usage,
           'is_full', s.handoff_reason IS NOT DISTINCT FROM full_reason(),
           'usage_before', (SELECT context_usage FROM session_history
                             WHERE initiative_id = p_initiative AND session_id = p_chat AND number < s.number
                             ORDER BY number DESC LIMIT 1))
    FROM session_history s JOIN initiatives i USING (initiative_id)
   WHERE s.initiative_id = p_initiative AND i.user_id = p_user AND s.session_id = p_chat
   ORDER BY s.status = 'active' DESC, s.number DESC LIMIT 1
$$;

-- Notes how much of its context the active work session of a chat session uses; p_full: ends it. False: there is none.
CREATE OR REPLACE FUNCTION note_context(
  p_initiative text, p_user text, p_chat text, p_usage double precision, p_full boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_id text := active_work_session(p_initiative, p_chat);
  v_args jsonb := jsonb_build_object('id', v_id, 'context_usage', p_usage);
BEGIN
  IF v_id IS NULL THEN RETURN false; END IF;
  RETURN (CASE WHEN p_full THEN apply_initiative_command(
                 p_initiative, p_user, 'end_session', v_args || jsonb_build_object('handoff_reason', full_reason()), 'system',
                 'end_session:context:' || v_id)
               ELSE apply_initiative_command(
                 p_initiative, p_user, 'note_context', v_args, 'system', 'note_context:' || gen_random_uuid())
          END ->> 'ok')::boolean;
END $$;

-- p_args: { id, context_usage }
CREATE OR REPLACE FUNCTION ini_note_context(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_usage double precision := p_args ->> 'context_usage';
BEGIN
  UPDATE session_history
     SET context_usage = v_usage,
         issues = issues || CASE WHEN v_usage < 0.5 OR issues @> half_used() THEN '[]' ELSE half_used() END
   WHERE initiative_id = p_initiative AND id = p_args ->> 'id';
  RETURN jsonb_build_object('kind', 'context_noted', 'outcome', jsonb_build_object('id', p_args -> 'id'));
END $$;

-- The tasks that a work session has completed, as texts.
CREATE OR REPLACE FUNCTION completed_titles(p_initiative text, p_session text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(task_title(t) ORDER BY t.completed_at), '[]') FROM initiative_tasks t
   WHERE t.initiative_id = p_initiative AND t.assigned_to = p_session AND t.status = 'completed'
$$;

-- p_args: { id, completed?, issues?, context_usage?, handoff_reason?, notes? }. Gives its tasks back. `completed` defaults to the
-- tasks that it has completed.
CREATE OR REPLACE FUNCTION ini_end_session(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_id text := p_args ->> 'id';
  v_refusal jsonb := refuse_work_session(p_initiative, v_id, 'end');
  v_usage double precision := p_args ->> 'context_usage';
BEGIN
  IF v_refusal IS NOT NULL THEN RETURN v_refusal; END IF;
  UPDATE session_history
     SET status = 'ended', ended = clock_timestamp(), context_usage = coalesce(v_usage, context_usage),
         completed = coalesce(p_args -> 'completed', completed_titles(p_initiative, v_id)),
         issues = issues || coalesce(p_args -> 'issues', '[]')
           || CASE WHEN v_usage > 0.5 AND NOT issues @> half_used() THEN half_used() ELSE '[]' END,
         handoff_reason = p_args ->> 'handoff_reason',
         notes = nullif(concat_ws(E'\n', notes, p_args ->> 'notes'), '')
   WHERE initiative_id = p_initiative AND id = v_id;
  RETURN jsonb_build_object('kind', 'session_ended', 'outcome', jsonb_build_object('id', v_id),
    'data', jsonb_build_object('released', release_tasks(p_initiative, v_id), 'handoff', p_args ->> 'handoff_reason' IS NOT NULL));
END $$;

-- For the supervisor. p_args: { id, sign, assignment_ms, progress_ms }: ends a work session as crashed, and gives its tasks back; one
-- that holds none has only ended. Null: it is over, has given a sign of life since, or is not due by these times.
CREATE OR REPLACE FUNCTION ini_crash_session(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_id text := p_args ->> 'id';
  v_holds boolean := (
    SELECT holds FROM watched_sessions(p_initiative, (p_args ->> 'assignment_ms')::bigint, (p_args ->> 'progress_ms')::bigint)
     WHERE work_session = v_id AND exact_time(sign) = p_args ->> 'sign' AND due_at <= clock_timestamp());
BEGIN
  IF v_holds IS NULL THEN RETURN NULL; END IF;
  IF NOT v_holds THEN
    RETURN ini_end_session(p_initiative, jsonb_build_object('id', v_id, 'notes', 'No sign of life, no task held'));
  END IF;
  UPDATE session_history
     SET status = 'crashed', ended = clock_timestamp(), completed = completed_titles(p_initiative, v_id),
         notes = nullif(concat_ws(E'\n', notes, 'Agent unresponsive, task reset'), '')
   WHERE initiative_id = p_initiative AND id = v_id;
  RETURN jsonb_build_object('kind', 'session_crashed', 'outcome', jsonb_build_object('id', v_id),
    'data', jsonb_build_object('released', release_tasks(p_initiative, v_id)));
END $$;
