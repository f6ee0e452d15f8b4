-- When a sweeper next compares the status in the row of an initiative with the one that its workflow shows; null: they have been found
-- equal since it changed last. Initiatives from before are compared once their status changes.
ALTER TABLE initiatives ADD COLUMN check_at timestamptz;
ALTER TABLE initiatives ALTER COLUMN check_at SET DEFAULT clock_timestamp() + interval '2 seconds';
CREATE INDEX initiatives_due ON initiatives (check_at) WHERE check_at IS NOT NULL;
