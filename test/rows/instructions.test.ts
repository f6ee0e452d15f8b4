// Which instruction files tools wrote, as each turn asks.
import type pg from 'pg';
import { expect, it } from 'vitest';
import { instructionsOfTools } from '../../store/instructions.ts';
import { measuredRows, rows } from './session.ts';

const db = await measuredRows();

/** Asks in a transaction of its own; `read`: rows of `tool_workspaces`. */
async function ask(found: Record<string, string>): Promise<{ written: string[]; read: number; wrote: boolean }> {
  const client: pg.PoolClient = await db.connect();
  try {
    await client.query('BEGIN');
    const written = [...(await instructionsOfTools(client, 'ada/one/below', found))];
    const [row] = await rows(
      client,
      `SELECT seq_tup_read + idx_tup_fetch AS read, pg_current_xact_id_if_assigned() IS NOT NULL AS wrote
         FROM pg_stat_xact_user_tables WHERE relname = 'tool_workspaces'`,
    );
    await client.query('COMMIT');
    return { written: written.toSorted(), read: Number(row!['read']), wrote: row!['wrote'] as boolean };
  } finally {
    client.release();
  }
}

it('P1 what tools wrote is found without reading the workspaces of others, and stored when it is new', async () => {
  await db.query(
    `INSERT INTO tool_workspaces (root) SELECT 'user' || n || '/site' FROM generate_series(1, 20000) AS n`,
  );
  await db.query(`INSERT INTO tool_workspaces (root) VALUES ('ada/one')`);
  await db.query(`INSERT INTO watched_instructions (session_id, tool_call_id, root, before)
                  VALUES ('ses_1', 'call_1', 'ada/one/below', '{"AGENTS.md": "1:2:3:4"}')`);
  await db.query('ANALYZE');
  const now = `1:2:3:${Date.now()}000000`;
  const found = {
    ...{ 'AGENTS.md': '1:2:3:4', 'ada/AGENTS.md': now },
    ...{ 'ada/one/below/AGENTS.md': now, 'ada/two/AGENTS.md': now },
    // In a workspace, and newer or older than its first tool call.
    ...{ 'ada/one/new/AGENTS.md': now, 'ada/one/old/AGENTS.md': '1:2:3:4' },
  };
  const written = ['ada/AGENTS.md', 'ada/one/below/AGENTS.md', 'ada/one/new/AGENTS.md'];
  const first = await ask(found);
  expect(first).toMatchObject({ written, wrote: true });
  expect(first.read).toBeLessThan(10);
  expect(await ask(found)).toMatchObject({ written, wrote: false });
  // What is stored stays when the call is over.
  await db.query('DELETE FROM watched_instructions');
  expect(await ask(found)).toMatchObject({ written, wrote: false });
  expect(await ask({ 'AGENTS.md': '1:2:3:4' })).toMatchObject({ written: [], wrote: false });
});
