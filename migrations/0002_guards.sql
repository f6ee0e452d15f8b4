-- Promises that hold against any UPDATE, a superuser's in psql included. A writer function carries the setting
-- `perdure.writer` with the name of its column for as long as it runs; the triggers below look for it.

CREATE FUNCTION guard_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  writer text := coalesce(current_setting('perdure.writer', true), '');
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.phase <> 'chatting' OR num_nonnulls(NEW.project_id, NEW.pending_tool, NEW.cancel_token) > 0 THEN
      RAISE EXCEPTION 'a session begins at chatting with no project, pending tool or cancel token'
        USING ERRCODE = 'PD001';
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.session_id <> OLD.session_id OR NEW.user_id <> OLD.user_id THEN
    RAISE EXCEPTION 'sessions.session_id and sessions.user_id never change' USING ERRCODE = 'PD001';
  END IF;
  IF NEW.phase <> OLD.phase AND (writer <> 'phase' OR NOT EXISTS (
       SELECT FROM phase_transitions WHERE phase = OLD.phase AND next = NEW.phase)) THEN
    RAISE EXCEPTION 'sessions.phase changes only through write_phase()' USING ERRCODE = 'PD001';
  END IF;
  IF NEW.project_id IS DISTINCT FROM OLD.project_id AND (writer <> 'project_id' OR OLD.project_id IS NOT NULL) THEN
    RAISE EXCEPTION 'sessions.project_id is written once, through write_project_id()' USING ERRCODE = 'PD001';
  END IF;
  IF NEW.pending_tool IS DISTINCT FROM OLD.pending_tool AND writer <> 'pending_tool' THEN
    RAISE EXCEPTION 'sessions.pending_tool changes only through write_pending_tool()' USING ERRCODE = 'PD001';
  END IF;
  IF NEW.cancel_token IS DISTINCT FROM OLD.cancel_token
     AND (writer <> 'cancel_token' OR NEW.cancel_token IS NULL) THEN
    RAISE EXCEPTION 'sessions.cancel_token changes only through write_cancel_token() and is never cleared'
      USING ERRCODE = 'PD001';
  END IF;
  IF NEW.updated_at <> OLD.updated_at AND writer = '' THEN
    RAISE EXCEPTION 'sessions.updated_at is written by the writers of the other columns' USING ERRCODE = 'PD001';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION guard_sessions();

CREATE FUNCTION guard_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    RAISE EXCEPTION 'chat_messages is append-only' USING ERRCODE = 'PD001';
  END IF;
  IF (NEW.id, NEW.session_id, NEW.position, NEW.role, NEW.created_at)
     IS DISTINCT FROM (OLD.id, OLD.session_id, OLD.position, OLD.role, OLD.created_at) THEN
    RAISE EXCEPTION 'of a message only hidden_at, metadata and updated_at may change' USING ERRCODE = 'PD001';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON chat_messages FOR EACH ROW EXECUTE FUNCTION guard_messages();

CREATE FUNCTION guard_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'session_events is append-only' USING ERRCODE = 'PD001';
END $$;
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON session_events FOR EACH ROW EXECUTE FUNCTION guard_events();

-- The one writer of each column of `sessions`. Each needs the session's lock (see lock_session) held by its caller.

-- phase: called by every command and tool that raises an event. Null where the table knows no such transition.
CREATE FUNCTION write_phase(p_session text, p_event text) RETURNS text
LANGUAGE sql SET perdure.writer = 'phase' AS $$
  UPDATE sessions s
     SET phase = t.next, updated_at = clock_timestamp()
    FROM phase_transitions t
   WHERE s.session_id = p_session AND t.phase = s.phase AND t.event = p_event
  RETURNING s.phase
$$;

-- project_id: called by begin_tool (a tool that opens a new project) and open_existing. False where another is locked.
CREATE FUNCTION write_project_id(p_session text, p_project text) RETURNS boolean
LANGUAGE plpgsql SET perdure.writer = 'project_id' AS $$
BEGIN
  UPDATE sessions
     SET project_id = p_project, updated_at = clock_timestamp()
   WHERE session_id = p_session AND project_id IS NULL;
  RETURN FOUND OR EXISTS (SELECT FROM sessions WHERE session_id = p_session AND project_id = p_project);
END $$;

-- pending_tool: set by begin_tool, cleared by finish_tool and end_run.
CREATE FUNCTION write_pending_tool(p_session text, p_pending jsonb) RETURNS void
LANGUAGE sql SET perdure.writer = 'pending_tool' AS $$
  UPDATE sessions
     SET pending_tool = p_pending, updated_at = clock_timestamp()
   WHERE session_id = p_session AND pending_tool IS DISTINCT FROM p_pending
$$;

-- cancel_token: called by cancel_session on every accepted cancel.
CREATE FUNCTION write_cancel_token(p_session text, p_token text) RETURNS void
LANGUAGE sql SET perdure.writer = 'cancel_token' AS $$
  UPDATE sessions SET cancel_token = p_token, updated_at = clock_timestamp() WHERE session_id = p_session
$$;
