-- When a work session last gave a sign of life. Those that are active when this is applied are given one then.
ALTER TABLE session_history ADD COLUMN last_sign_at timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX session_history_active ON session_history (initiative_id) WHERE status = 'active';

-- A placeholder until the same migration run replaces it with store/sql.
CREATE FUNCTION end_work_of_child() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE TRIGGER end_work AFTER UPDATE OF ended_at ON tasks
  FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION end_work_of_child();
