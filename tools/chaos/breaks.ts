// Promises broken on purpose, to see that a campaign finds it. Nothing of it is in the product: functions of the
// campaign's own database are replaced by weaker ones, or its workers put together otherwise.
import path from 'node:path';
import type pg from 'pg';
import type { Break } from './options.ts';
import type { WorldOptions } from './world.ts';

/** What a break changes of a campaign's world. */
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

/** An attempt that was overtaken goes on writing. */
async function dropFence(db: pg.Pool): Promise<void> {
  await weaken(db, 'append_stream', 'AND fence = p_fence', '');
  await weaken(db, 'settle_step', 'AND fence = p_fence', '');
  await weaken(db, 'finish_tool', 'AND fence = p_fence', '');
}

/** What was done is not known any more when it is asked for again: neither of commands nor of tools. */
async function dropReceipts(db: pg.Pool): Promise<void> {
  const known = 'EXISTS (SELECT FROM session_events WHERE session_id = p_session AND command_id = p_command_id)';
  await weaken(db, 'receipt', "data -> 'outcome'", 'NULL::jsonb');
  await weaken(db, 'append_event', 'p_data, p_command_id', `p_data, CASE WHEN NOT ${known} THEN p_command_id END`);
  await weaken(db, 'begin_tool', "v_state.pending_tool ->> 'tool_call_id' = p_pending ->> 'tool_call_id'", 'false');
}

/** Replaces a function by itself with other words in one place. */
async function weaken(db: pg.Pool, name: string, words: string, others: string): Promise<void> {
  const { rows } = await db.query<{ text: string }>(`SELECT pg_get_functiondef($1::regproc) AS text`, [name]);
  const { text } = rows[0]!;
  if (text.split(words).length !== 2)
    throw new Error(`${name}() does not hold "${words}" once: the break has to follow it`);
  await db.query(text.replace(words, () => others));
}
