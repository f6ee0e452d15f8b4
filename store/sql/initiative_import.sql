-- Imports of the folder .planning/: what the client has read of its files becomes a new initiative.

-- Creates an initiative and brings it to where the files say it is. p_input: that of create_initiative(), and { position, completed:
-- [task_id], summaries: [{ phase, plan, summary }], resume_context, blockers, sessions }. Returns { initiative_id }, of a repeat
-- that of the first import.
CREATE OR REPLACE FUNCTION import_initiative(
  p_initiative text, p_user text, p_input jsonb, p_key text, p_command_id text, p_digest bytea DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_made jsonb := create_initiative(p_initiative, p_user, p_input, p_key, p_command_id || '/create', p_digest);
BEGIN
  IF v_made ->> 'initiative_id' IS DISTINCT FROM p_initiative THEN RETURN v_made; END IF;
  UPDATE initiatives SET resume_context = resume_context || (p_input -> 'resume_context') WHERE initiative_id = p_initiative;
  PERFORM import_progress(p_initiative, p_input);
  PERFORM import_blockers(p_initiative, p_input -> 'blockers');
  PERFORM import_work_sessions(p_initiative, p_user, p_input -> 'sessions');
  UPDATE initiative_state SET current_task = p_input ->> 'position' WHERE initiative_id = p_initiative;
  PERFORM refresh_statuses(p_initiative);
  PERFORM log_initiative(p_initiative, 'imported', 'user', '{}', p_command_id);
  RETURN v_made;
END $$;

-- Completes tasks, by the steps that the task's machine allows, and the plans that have a summary.
CREATE OR REPLACE FUNCTION import_progress(p_initiative text, p_input jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_step text;
BEGIN
  FOREACH v_step IN ARRAY '{in_progress,completed}'::text[] LOOP
    UPDATE initiative_tasks SET status = v_step
     WHERE initiative_id = p_initiative AND task_id IN (SELECT jsonb_array_elements_text(p_input -> 'completed'));
  END LOOP;
  UPDATE initiative_plans p SET status = 'completed', summary = given.summary
    FROM jsonb_to_recordset(p_input -> 'summaries') AS given(phase integer, plan integer, summary text)
   WHERE p.initiative_id = p_initiative AND (p.phase, p.plan) = (given.phase, given.plan);
END $$;

CREATE OR REPLACE FUNCTION import_blockers(p_initiative text, p_blockers jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO initiative_blockers
    (initiative_id, id, number, status, description, identified_at, affects, workaround, resolution, resolved_at)
  SELECT p_initiative, id, substr(id, 7)::integer, status, description, identified_at, affects, workaround, resolution,
         CASE WHEN status = 'resolved' THEN coalesce(resolved_at, clock_timestamp()) END
    FROM jsonb_to_recordset(p_blockers) AS given(
           id text, status text, description text, identified_at timestamptz, affects jsonb, workaround text, resolution text,
           resolved_at timestamptz);
  INSERT INTO initiative_blocker_tasks
  SELECT p_initiative, given ->> 'id', jsonb_array_elements_text(given -> 'blocked_tasks'), 'blocked'
    FROM jsonb_array_elements(p_blockers) AS given
  UNION ALL
  SELECT p_initiative, given ->> 'id', jsonb_array_elements_text(given -> 'workaround_tasks'), 'workaround'
    FROM jsonb_array_elements(p_blockers) AS given;
  UPDATE initiative_tasks SET status = 'blocked'
   WHERE initiative_id = p_initiative AND task_id IN (
           SELECT task_id FROM initiative_blocker_tasks t JOIN initiative_blockers b ON b.initiative_id = t.initiative_id AND b.id = t.blocker
            WHERE t.initiative_id = p_initiative AND t.part = 'blocked' AND b.status = 'active')
$$;

-- A chat session is kept if it is the user's own. A crashed work session that a later one has resumed is told of no more.
CREATE OR REPLACE FUNCTION import_work_sessions(p_initiative text, p_user text, p_sessions jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO session_history
    (initiative_id, id, number, agent, session_id, status, started, ended, working_on, context_usage, completed, issues,
     handoff_reason, notes)
  SELECT p_initiative, id, substr(id, 9)::integer, agent,
         (SELECT s.session_id FROM sessions s WHERE s.session_id = given.session_id AND s.user_id = p_user), status, started,
         coalesce(ended, clock_timestamp()), working_on, context_usage, coalesce(completed, '[]'), coalesce(issues, '[]'),
         handoff_reason, notes
    FROM jsonb_to_recordset(p_sessions) AS given(
           id text, agent text, session_id text, status text, started timestamptz, ended timestamptz, working_on text,
           context_usage double precision, completed jsonb, issues jsonb, handoff_reason text, notes text);
  UPDATE session_history s SET resumed_by = later.id FROM session_history later
   WHERE s.initiative_id = p_initiative AND s.status = 'crashed' AND later.initiative_id = p_initiative
     AND later.number > s.number AND later.notes LIKE 'Resuming from ' || s.id || ' crash%'
$$;
