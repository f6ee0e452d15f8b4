-- When a sweeper next compares the status in the row of an initiative with the one that its workflow shows; null: they have been found
-- equal since it changed last. Initiatives from before are compared once their status changes.
ALTER TABLE initiatives ADD COLUMN check_at timestamptz;
ALTER TABLE initiatives ALTER COLUMN check_at SET DEFAULT clock_timestamp() + interval '2 seconds';
CREATE INDEX initiatives_due ON initiatives (check_at) WHERE check_at IS NOT NULL AND stuck_at IS NULL;
-- Tasks that were set to in_progress and that nobody holds: hardly any.
CREATE INDEX initiative_tasks_unheld ON initiative_tasks (initiative_id, phase, plan, wave, number)
  WHERE status = 'in_progress' AND assigned_to IS NULL;
