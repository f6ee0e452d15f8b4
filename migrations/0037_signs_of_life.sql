-- When a work session last gave a sign of life. Those that are active when this is applied are given one then.
-- A default that is stable rewrites no row.
ALTER TABLE session_history ADD COLUMN last_sign_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE session_history ALTER COLUMN last_sign_at SET DEFAULT clock_timestamp();
CREATE INDEX session_history_active ON session_history (initiative_id) WHERE status = 'active';
CREATE INDEX session_history_silent ON session_history (last_sign_at) WHERE status = 'active' AND session_id IS NOT NULL;

-- Does nothing until the same migration run replaces it with store/sql: workers are at work meanwhile, and the supervisor ends what is
-- left over.
CREATE FUNCTION end_work_of_child() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RETURN NULL; END $$;
-- At the end of the transaction: one that ends several subagents locks them all before their initiative.
CREATE CONSTRAINT TRIGGER end_work AFTER UPDATE OF ended_at ON tasks DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION end_work_of_child();
