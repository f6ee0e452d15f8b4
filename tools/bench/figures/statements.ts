import { setTimeout as delay } from 'node:timers/promises';
import type { Figure, Result } from '../figure.ts';
import type { System } from '../servers.ts';
import { nameOf, withLogging } from '../statement-log.ts';
import { rest, turn, type TurnAsk } from '../turn.ts';

const TURNS = 20;
/** One for all streams of the worker, or one for a batch that is written alone. */
const FLUSHES = ['append_streams', 'append_stream'];
/** Limit, not counting one per flush. */
const BESIDE_FLUSHES = 6;

/** Kind of a statement: for the turn, a NOTIFY, for a reader, or other. */
type Kind = 'turn' | 'pointer' | 'reader' | 'housekeeping';
type Counts = Record<Kind, Map<string, number>>;

/** Captures: application name, prepared statement's name if any, and first line (may be empty). */
const LOGGED = /^([^|\n]*)\|LOG: {2}(?:execute (.*?)|statement): (.*)/gm;

function countsOf(log: string): Counts {
  const counts: Counts = { turn: new Map(), pointer: new Map(), reader: new Map(), housekeeping: new Map() };
  for (const [, who = '', prepared = '', text] of log.matchAll(LOGGED)) {
    if (who === 'bench') continue;
    const name = nameOf(text || prepared);
    const kind = counts[kindOf(who, name)];
    kind.set(name, (kind.get(name) ?? 0) + 1);
  }
  return counts;
}

/**
 * Statements that are repeated whether there are turns or not: sweeping, checking for stuck sessions, erasing, deleting what has
 * expired, indexing, replaying, and renewing the lease.
 */
const REPEATED =
  /^(?:claim_due_runs|claim_erasures|claim_unused_contents|drop_content|index_messages|renew_lease|sweep_\w+|pg_advisory\w*|SELECT session_id FROM chat_se.*|SELECT 1|UPDATE replays SET.*)$/;

/** The connections of a worker: its pool, and the one of its lease, on which it lists its activities. */
const OF_WORKER: ReadonlySet<string> = new Set(['worker', 'perdure lease']);

/** A host's only statement for a turn accepts the message; a worker's are all for turns, except its repeated tasks'. */
function kindOf(who: string, name: string): Kind {
  if (name === 'pg_notify') return 'pointer';
  if (REPEATED.test(name)) return 'housekeeping';
  return OF_WORKER.has(who) || name === 'accept_message' ? 'turn' : 'reader';
}

async function resultsOf(system: System, name: string, ask: TurnAsk): Promise<Result[]> {
  const sessionId = await system.client.open();
  await turn(system, sessionId, ask);
  await rest();
  // Every statement, on all connections except the benchmark's own.
  const log = await withLogging(system, { log_line_prefix: '%a|', log_statement: 'all' }, async () => {
    for (let n = 0; n < TURNS; n += 1) {
      await turn(system, sessionId, ask);
      await rest();
    }
    // Statements still in flight belong to the last turn.
    await delay(200);
  });
  const counts = countsOf(log);
  const perTurn = (kind: Kind) => [...counts[kind].values()].reduce((sum, count) => sum + count, 0) / TURNS;
  const named = (kind: Kind) =>
    [...counts[kind]].map(([each, count]) => `${each} ${(count / TURNS).toFixed(2)}`).join(', ');
  const flushes = FLUSHES.reduce((sum, flush) => sum + (counts.turn.get(flush) ?? 0), 0) / TURNS;
  return [
    {
      name: `statements of ${name}, excluding flushes`,
      value: perTurn('turn') - flushes,
      unit: '',
      target: { atMost: BESIDE_FLUSHES },
      detail: `${flushes} flushes; ${named('turn')}`,
    },
    { name: 'its pointers for readers (NOTIFY)', value: perTurn('pointer'), unit: '' },
    { name: 'statements of one reader', value: perTurn('reader'), unit: '', detail: named('reader') },
  ];
}

export const statements: Figure = {
  name: 'statements',
  measure: async ({ system }) => [
    ...(await resultsOf(system, 'a plain turn with 60 chunks', { chunks: 60 })),
    ...(await resultsOf(system, 'the same with a chunk every 5 ms', { chunks: 60, pace: 5 })),
  ],
};
