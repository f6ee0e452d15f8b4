// Negative controls: promises broken on purpose, to show that a campaign detects it. The product is not changed:
// functions of the campaign's database are replaced by weaker ones, or its workers use another entry.
import path from 'node:path';
import type pg from 'pg';
import type { Break } from './options.ts';
import type { WorldOptions } from './world.ts';

/** The changes that a break makes to the system. */
export function breakOf(name: Break | undefined): Pick<WorldOptions, 'prepare' | 'workerEntry'> {
  switch (name) {
    case undefined:
      return {};
    case 'fence':
      return { prepare: dropFence };
    case 'receipt':
      return { prepare: dropReceipts };
    case 'publish':
      return { workerEntry: path.join(import.meta.dirname, 'hasty-main.ts') };
  }
}

/** Writes no longer check the fence. */
async function dropFence(db: pg.Pool): Promise<void> {
  await weaken(db, 'append_stream', 'AND fence = p_fence', '');
  await weaken(db, 'settle_step', 'AND fence = p_fence', '');
  await weaken(db, 'finish_tool', 'AND fence = p_fence', '');
}

/** Neither commands nor tool calls find their recorded outcome. */
async function dropReceipts(db: pg.Pool): Promise<void> {
  const known = 'EXISTS (SELECT FROM session_events WHERE session_id = p_session AND command_id = p_command_id)';
  await weaken(db, 'begin_command', 'AND command_id = p_command_id', 'AND false');
  await weaken(db, 'append_event', 'p_data, p_command_id', `p_data, CASE WHEN NOT ${known} THEN p_command_id END`);
  await weaken(db, 'begin_tool', "v_state.pending_tool ->> 'tool_call_id' = p_pending ->> 'tool_call_id'", 'false');
}

/** Replaces one expression in a function. */
async function weaken(db: pg.Pool, name: string, words: string, others: string): Promise<void> {
  const { rows } = await db.query<{ text: string }>(`SELECT pg_get_functiondef($1::regproc) AS text`, [name]);
  const { text } = rows[0]!;
  if (text.split(words).length !== 2)
    throw new Error(`${name}() was expected to contain "${words}" once: adapt this break to the function`);
  await db.query(text.replace(words, () => others));
}
