import { randomUUID } from 'node:crypto';
import type { Bench, Figure } from '../figure.ts';
import { rest, turn } from '../turn.ts';
import { walPosition } from '../wal-position.ts';

const TURNS = 20;
const ROWS = 1_000;

/** What noting who did a step adds to a plain turn, beside what it writes in all. */
export const workLog: Figure = {
  name: 'work-log',
  onRequest: { withinMs: 60_000 },
  measure: async (bench) => {
    const ofTurn = await walOfTurn(bench);
    const bytes = await walOfRow(bench);
    return [
      { name: 'WAL of a plain turn', value: ofTurn, unit: 'B' },
      {
        name: 'of it, the row of work_log with its indexes',
        value: bytes,
        unit: 'B',
        detail: `${Math.round((100 * bytes) / ofTurn)} %`,
      },
    ];
  },
};

async function walOfTurn({ system }: Bench): Promise<number> {
  const sessionId = await system.client.open();
  await turn(system, sessionId);
  // The first change of a page after a checkpoint writes the whole page.
  await system.db.query('CHECKPOINT');
  await turn(system, sessionId);
  await rest();
  const before = await walPosition(system.db);
  for (let n = 0; n < TURNS; n += 1) {
    await turn(system, sessionId);
    await rest();
  }
  return ((await walPosition(system.db)) - before) / TURNS;
}

/** Measured over many rows in one transaction, without its commit: a settlement has a transaction in any case. */
async function walOfRow({ system: { db } }: Bench): Promise<number> {
  const work = JSON.stringify({ worker: randomUUID(), attempt: 1, ms: 500, first_ms: 20 });
  const note = (rows: number) =>
    db.query(`SELECT note_work($1, n, 0, '', '{1,1,1}', $2) FROM generate_series(1, $3) AS n`, [
      `bench-${randomUUID()}`,
      work,
      rows,
    ]);
  await note(ROWS);
  const before = await walPosition(db);
  await note(ROWS);
  return ((await walPosition(db)) - before) / ROWS;
}
