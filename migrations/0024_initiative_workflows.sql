-- When a sweeper has last woken the workflow of an initiative, because it had not ended a stale assignment.
ALTER TABLE initiatives ADD COLUMN swept_at timestamptz;

CREATE INDEX initiative_tasks_assigned ON initiative_tasks (assigned_at)
  WHERE assigned_to IS NOT NULL AND status <> 'completed';
