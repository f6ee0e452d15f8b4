-- Trigger functions for invariants that hold for every UPDATE, even by a superuser. A column's writer (sessions.sql) runs
-- with the setting `perdure.writer` = the name of the column, which these functions check.

CREATE OR REPLACE FUNCTION guard_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION guard_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF current_setting('perdure.writer', true) = 'erase' THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'chat_messages is append-only' USING ERRCODE = 'PD001';
  END IF;
  IF (NEW.id, NEW.session_id, NEW.position, NEW.role, NEW.created_at)
     IS DISTINCT FROM (OLD.id, OLD.session_id, OLD.position, OLD.role, OLD.created_at) THEN
    RAISE EXCEPTION 'of a message only hidden_at, metadata and updated_at may change' USING ERRCODE = 'PD001';
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION guard_events() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  writer text := coalesce(current_setting('perdure.writer', true), '');
BEGIN
  IF TG_OP = 'DELETE' AND (writer = 'erase' OR writer = 'retention' AND OLD.kind = 'refused') THEN RETURN OLD; END IF;
  RAISE EXCEPTION 'session_events is append-only' USING ERRCODE = 'PD001';
END $$;
