-- Since when the deployed code cannot replay the workflow of an initiative, which then supervises nobody.
ALTER TABLE initiatives ADD COLUMN stuck_at timestamptz;
CREATE INDEX initiatives_stuck ON initiatives (initiative_id) WHERE stuck_at IS NOT NULL;
