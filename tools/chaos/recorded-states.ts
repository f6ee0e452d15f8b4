// What the rows of an initiative say at each of its versions, kept by the campaign's own database: a trigger at the end of each
// transaction that makes a version. It counts progress afresh, and uses none of the product's functions.
import type pg from 'pg';

/** What STATE.md has to say at a version. */
export interface RecordedState {
  initiative_id: string;
  version: number;
  state: unknown;
}

const STATE = `
  SELECT jsonb_build_object(
    'title', i.title, 'next_action', i.next_action, 'resume_context', i.resume_context,
    'position', jsonb_build_array(s.current_phase, p.name, s.current_plan, l.name, t.name, s.current_wave, s.status),
    'progress', jsonb_build_array(
      (SELECT count(*) FROM initiative_phases WHERE initiative_id = i.initiative_id),
      (SELECT count(*) FROM (
         SELECT FROM initiative_tasks WHERE initiative_id = i.initiative_id
          GROUP BY phase HAVING bool_and(status = 'completed')) AS done),
      (SELECT count(*) FROM initiative_tasks
        WHERE initiative_id = i.initiative_id AND phase = s.current_phase AND i.status <> 'completed'),
      (SELECT count(*) FROM initiative_tasks
        WHERE initiative_id = i.initiative_id AND phase = s.current_phase AND i.status <> 'completed' AND status = 'completed')),
    'decisions', (SELECT coalesce(jsonb_agg(jsonb_build_array(context, decision, reason) ORDER BY number), '[]')
                    FROM initiative_decisions WHERE initiative_id = i.initiative_id),
    'blockers', (SELECT coalesce(jsonb_agg(jsonb_build_array(id, status, description, workaround) ORDER BY number), '[]')
                   FROM initiative_blockers WHERE initiative_id = i.initiative_id AND status <> 'resolved'),
    'sessions', (SELECT coalesce(jsonb_agg(jsonb_build_array(id, status, session_id, working_on, notes, completed) ORDER BY number), '[]')
                   FROM session_history WHERE initiative_id = i.initiative_id))
    FROM initiatives i
    JOIN initiative_state s USING (initiative_id)
    JOIN initiative_phases p ON p.initiative_id = i.initiative_id AND p.phase = s.current_phase
    JOIN initiative_plans l ON l.initiative_id = i.initiative_id AND l.phase = s.current_phase AND l.plan = s.current_plan
    JOIN initiative_tasks t ON t.initiative_id = i.initiative_id AND t.task_id = s.current_task
   WHERE i.initiative_id = NEW.initiative_id`;

/** Begins to record. */
export async function recordStates(db: pg.Pool): Promise<void> {
  await db.query(`CREATE TABLE recorded_states (
    initiative_id text, version bigint, state jsonb, PRIMARY KEY (initiative_id, version))`);
  await db.query(`CREATE FUNCTION record_state() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO recorded_states SELECT NEW.initiative_id, NEW.version, (${STATE}) ON CONFLICT DO NOTHING;
      RETURN NULL;
    END $$`);
  await db.query(`CREATE CONSTRAINT TRIGGER record_state AFTER INSERT OR UPDATE OF version ON initiatives
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION record_state()`);
}

/** All that was recorded. */
export async function recordedStates(db: pg.Pool): Promise<RecordedState[]> {
  // As a number: versions are few.
  const { rows } = await db.query<RecordedState>(
    'SELECT initiative_id, version::integer AS version, state FROM recorded_states',
  );
  return rows;
}
