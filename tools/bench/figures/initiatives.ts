// Initiatives: tasks that many workers claim at once, STATE.md of a large one, the largest one, and what an idle one takes in Postgres.
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { renderState, type StateFile } from '../../../client/state-file/state-file.ts';
import { newId } from '../../../domain/ids.ts';
import { applyInitiativeCommand, createInitiative, importInitiative } from '../../../store/initiatives.ts';
import { createPool } from '../../../store/pool.ts';
import { MAX_TASKS } from '../../../wire/initiative-requests.ts';
import { now } from '../clock.ts';
import type { Figure, Result } from '../figure.ts';
import { openMany } from '../many.ts';
import { USER } from '../names.ts';
import type { System } from '../servers.ts';
import { median, spread } from '../statistics.ts';

const WORKERS = 16;
const TASKS = 1_000;
const ROUNDS = 10;
const REPEATS = 30;
const IDLE = 1_000;

/** An initiative with one plan of tasks. */
async function initiative(db: pg.Pool, tasks: number): Promise<string> {
  const initiativeId = newId('ini');
  const named = Array.from({ length: tasks }, (_, n) => ({ task_id: newId('tsk'), name: `task ${n}` }));
  const input = { title: 'Bench', phases: [{ name: 'phase', plans: [{ name: 'plan', tasks: named }] }] };
  await createInitiative(db, { initiativeId, userId: USER, commandId: 'create' }, input, null);
  return initiativeId;
}

/** Claims until there is nothing left, by all workers at once. Returns the time of each claim, in milliseconds. */
async function claimAll(claim: (worker: number) => Promise<string | undefined>): Promise<number[]> {
  const times: number[] = [];
  const claimed = new Set<string>();
  const work = async (worker: number) => {
    for (;;) {
      const from = now();
      const task = await claim(worker);
      if (task === undefined) return;
      times.push(now() - from);
      if (claimed.has(task)) throw new Error(`${task} was given out twice`);
      claimed.add(task);
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(worker)));
  if (claimed.size !== TASKS) throw new Error(`${claimed.size} of ${TASKS} tasks were given out`);
  return times;
}

async function claims(db: pg.Pool): Promise<number[]> {
  const initiativeId = await initiative(db, TASKS);
  const apply = (command: string, args: Record<string, unknown>) =>
    applyInitiativeCommand(db, { initiativeId, userId: USER, commandId: randomUUID() }, { command, args });
  const sessions: string[] = [];
  for (let n = 0; n < WORKERS; n += 1) sessions.push((await apply('start_session', { agent: 'bench' })).id ?? '');
  return claimAll(
    async (worker) => (await apply('assign_task', { work_session: sessions[worker] })).task_id ?? undefined,
  );
}

/** The same with a table of its own and nothing else: no owner, receipt or event. */
async function bareClaims(db: pg.Pool): Promise<number[]> {
  await db.query('DROP TABLE IF EXISTS bench_queue');
  await db.query('CREATE TABLE bench_queue (id integer PRIMARY KEY, holder integer)');
  await db.query('INSERT INTO bench_queue SELECT n FROM generate_series(1, $1) AS n', [TASKS]);
  const sql = `UPDATE bench_queue SET holder = $1 WHERE id = (
    SELECT id FROM bench_queue WHERE holder IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id`;
  const times = await claimAll(async (worker) => {
    const { rows } = await db.query<{ id: number }>(sql, [worker]);
    return rows[0] && String(rows[0].id);
  });
  await db.query('DROP TABLE bench_queue');
  return times;
}

async function measuredClaims({ databaseUrl }: System): Promise<Result[]> {
  const db = createPool(`${databaseUrl}?application_name=bench`, { max: WORKERS });
  try {
    const times: number[] = [];
    const floor: number[] = [];
    for (let n = 0; n < ROUNDS; n += 1) {
      times.push(...(await claims(db)));
      floor.push(...(await bareClaims(db)));
    }
    const name = `initiative: ${WORKERS} workers claim ${TASKS} tasks, a claim, p50`;
    const target = { atMost: 20 };
    return [{ name, value: median(times), unit: 'ms', floor: median(floor), target, detail: spread(times) }];
  } finally {
    await db.end();
  }
}

/** A file with 1,000 decisions and 200 work sessions. */
function largeFile(): StateFile {
  const text = (n: number) =>
    `What was said about part ${n}: it is "so", because of a reason that takes a line to tell`;
  return {
    ...{ initiative: newId('ini'), title: 'Bench' },
    position: { phase: 1, phase_name: 'phase', plan: 1, plan_name: 'plan', task: 'task', wave: 1, status: 'open' },
    progress: { phases_total: 1, phases_completed: 0, current_phase_tasks: 1, current_phase_completed: 0, bar: '' },
    decisions: Array.from({ length: 1_000 }, (_, n) => ({
      ...{ date: '2026-01-31', context: text(n), decision: text(n), reason: text(n) },
      ...{ kind: 'trade-off' as const, alternatives_considered: [text(n)], reversible: true },
    })),
    blockers: [],
    sessions: Array.from({ length: 200 }, (_, n) => ({
      ...{ id: `session-${n}`, agent: 'worker', started: '2026-01-31T09:00:00Z', ended: '2026-01-31T10:00:00Z' },
      ...{ status: 'ended' as const, context_usage: '45%', completed: [text(n), text(n)], notes: text(n) },
    })),
    next_action: 'Go on.\nThen stop.\n',
    resume_context: { files_modified_this_session: [], key_implementations: [], open_questions: [] },
  };
}

function rendered(): Result {
  const file = largeFile();
  const timed = (render: () => string) =>
    Array.from({ length: REPEATS }, () => {
      const from = now();
      render();
      return now() - from;
    });
  const times = timed(() => renderState(file));
  const name = 'initiative: STATE.md with 1,000 decisions and 200 work sessions, p50';
  const floor = median(timed(() => JSON.stringify(file)));
  return { name, value: median(times), unit: 'ms', floor, target: { atMost: 50 }, detail: spread(times) };
}

/** The largest initiative: its import, with all tasks but one completed, and a command. */
async function largest({ db }: System): Promise<Result[]> {
  const initiativeId = newId('ini');
  const tasks = Array.from({ length: MAX_TASKS }, (_, n) => ({ task_id: newId('tsk'), name: `task ${n}` }));
  const ids = tasks.map(({ task_id }) => task_id);
  const input = {
    ...{ title: 'Bench', phases: [{ name: 'phase', plans: [{ name: 'plan', tasks }] }], resume_context: {} },
    ...{ completed: ids.slice(0, -1), position: ids.at(-1), summaries: [], blockers: [], sessions: [] },
  };
  const from = now();
  await importInitiative(db, { initiativeId, userId: USER, commandId: 'import' }, input, null);
  const imported = now() - from;
  const times: number[] = [];
  for (let n = 0; n < REPEATS; n += 1) {
    const begun = now();
    const args = { next_action: `Step ${n}` };
    const target = { initiativeId, userId: USER, commandId: randomUUID() };
    await applyInitiativeCommand(db, target, { command: 'update_state', args });
    times.push(now() - begun);
  }
  return [
    // Half of what a statement may take.
    { name: `initiative: import of ${MAX_TASKS} tasks`, value: imported, unit: 'ms', target: { atMost: 2_500 } },
    {
      name: `initiative of ${MAX_TASKS} tasks, a command, p50`,
      value: median(times),
      unit: 'ms',
      detail: spread(times),
    },
  ];
}

async function idle({ db }: System): Promise<Result> {
  const size = async () =>
    (await db.query<{ size: number }>('SELECT pg_database_size(current_database()) AS size')).rows[0]?.size ?? 0;
  await openMany(100, () => initiative(db, 5));
  const before = await size();
  await openMany(IDLE, () => initiative(db, 5));
  const name = 'idle initiative in Postgres, five tasks';
  return { name, value: ((await size()) - before) / IDLE / 1024, unit: 'KB' };
}

/** Initiatives: claims, STATE.md, the largest one and idle ones. The floor of a claim is a bare queue's, that of STATE.md JSON. */
export const initiatives: Figure = {
  name: 'initiatives',
  onRequest: { withinMs: 5 * 60_000 },
  measure: async ({ system }) => [
    ...(await measuredClaims(system)),
    rendered(),
    ...(await largest(system)),
    await idle(system),
  ],
};
