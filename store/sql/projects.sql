-- Ownership of projects, and locking a session to one.

-- Assigns a project to its first user. False: it belongs to another user.
CREATE OR REPLACE FUNCTION own_project(p_project text, p_user text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO projects (project_id, user_id) VALUES (p_project, p_user) ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM projects WHERE project_id = p_project AND user_id = p_user);
END $$;

-- Locks a session to a project; null: done. Refusals, in this order: InvalidTransition, ProjectAlreadyLocked, ProjectNotFound
-- (it belongs to another user).
CREATE OR REPLACE FUNCTION lock_project(p_session text, p_project text, p_event text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_state sessions;
BEGIN
  SELECT * INTO v_state FROM sessions WHERE session_id = p_session;
  IF NOT EXISTS (SELECT FROM phase_transitions WHERE phase = v_state.phase AND event = p_event) THEN
    RETURN invalid_transition(p_session, p_event);
  ELSIF v_state.project_id IS NOT NULL AND v_state.project_id <> p_project THEN
    RETURN jsonb_build_object('code', 'ProjectAlreadyLocked', 'locked_project_id', v_state.project_id);
  ELSIF NOT own_project(p_project, v_state.user_id) THEN
    RETURN '{"code": "ProjectNotFound"}';
  ELSIF NOT write_project_id(p_session, p_project) THEN
    RETURN '{"code": "ProjectAlreadyLocked"}';
  END IF;
  RETURN NULL;
END $$;
