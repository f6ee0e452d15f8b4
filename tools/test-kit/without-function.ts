import type pg from 'pg';

/**
 * Takes a function of the database away: statements that call it fail with a permanent error. Returns what gives it back; calling
 * that again does nothing.
 */
export async function withoutFunction(db: pg.Pool, name: string): Promise<() => Promise<void>> {
  await db.query(`ALTER FUNCTION ${name} RENAME TO ${name}_away`);
  let isAway = true;
  return async () => {
    if (isAway) await db.query(`ALTER FUNCTION ${name}_away RENAME TO ${name}`);
    isAway = false;
  };
}
