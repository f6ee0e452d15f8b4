// Another execution that has always just claimed what a session's workflow is about to claim.
import type pg from 'pg';
import { expect } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';

/** From now on every claim of a session's runs is refused as lost. Returns how that ends. */
export async function loseClaims(db: pg.Pool, sessionId: string): Promise<() => Promise<void>> {
  const name = `lost_claims_${sessionId}`;
  await db.query(`
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.fence := ARRAY[1000000, 0, 0];
      RETURN NEW;
    END $$;
    CREATE TRIGGER ${name} BEFORE INSERT OR UPDATE ON chat_runs FOR EACH ROW
    WHEN (NEW.session_id = '${sessionId}') EXECUTE FUNCTION ${name}()`);
  return async () => void (await db.query(`DROP FUNCTION ${name} CASCADE`));
}

/** Until the workflow waits because its claims are lost. */
export async function untilItWaits({ handle }: TestSession): Promise<void> {
  await eventually(async () => {
    const { events } = await handle.fetchHistory();
    const summaries = (events ?? []).map(({ userMetadata }) => String(userMetadata?.summary?.data ?? ''));
    expect(summaries).toContain('"waits after lost claims"');
  });
}
