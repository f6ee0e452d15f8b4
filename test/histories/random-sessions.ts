// Sessions to which random things happen while their rows are slow, by a seed.
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import type pg from 'pg';
import type { Wake } from '../../domain/activities.ts';
import { newId } from '../../domain/ids.ts';
import { callTool, fail, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, type ModelScript } from '../../tools/test-kit/model-server.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';
import { signals, submitUpdate, updates } from '../../workflows/definitions.ts';
import { raise } from '../faults/rows.ts';
import { aroundCalls, type SqlCall } from '../faults/sql-calls.ts';

/** A local activity that is at the row for longer is kept alive with heartbeats: 80 % of the time-out of a workflow task. */
const HEARTBEAT_MS = 1_600;
export const IDLE_MS = 2_000;
/** The longest delay of a row: longer than two heartbeats, and than the idle time. */
const SLOWEST_MS = 4_000;
/** How long to wait for the answers of a session, in milliseconds. */
const ANSWERS_MS = 60_000;

/** What happens to one session. Times in milliseconds. */
export interface Plan {
  acts: { act: Act; wait: number }[];
  /** How long the nth call of the database by a local activity takes, before and after its transaction. */
  slow: Slow[];
  answers: (keyof typeof ANSWERS)[];
}

interface Slow {
  before: number;
  after: number;
}

/** One of these, chosen at random, answers each model request of a session. */
const ANSWERS = {
  words: () => [say('done')],
  build: () => [callTool('call_1', 'build_and_deploy', { confirm_new_project: true })],
  finishBuild: () => [callTool('call_1', 'todo_complete', { name: 'build' })],
  tools: () => [callTool('call_1', 'look', { at: 'it' }), callTool('call_2', 'stumble', { words: 'oh' })],
  asks: () => [callTool('call_1', 'pay', { amount: 5 }), callTool('call_2', 'pay', { amount: 13 })],
  page: () => [callTool('call_1', 'locate', {})],
  hurry: () => [callTool('call_1', 'hurry', {})],
  provider: () => [fail(503)],
  slowly: () => slowly(),
} satisfies Record<string, () => Iterable<ModelAction> | AsyncIterable<ModelAction>>;

async function* slowly(): AsyncIterable<ModelAction> {
  yield say('wait');
  await delay(350);
  yield say(' for it');
}

/** What can happen to a session. Refusals, and acts that come after the end of the workflow, are expected. */
const ACTS = {
  send: (session) => session.send(`for ${session.id}`),
  publish: (session) => session.command(updates.publish),
  cancel: (session) => session.command(updates.cancel),
  abort: (session) => session.command(updates.abort),
  revert: (session) => session.command(updates.revert),
  openExisting: (session) => session.command(updates.openExisting, { project_id: `p-${session.id}` }),
  cancelQueued: async (session) => {
    const { run, message } = await session.accept(`for ${session.id}`);
    await Promise.all([session.wake(run, message), session.command(updates.cancelQueued, { message_id: message })]);
  },
  publishBuilt: async (session, db) => {
    await raise(db, session.id, ['start_build', 'todo_done_build']);
    await Promise.all([session.command(updates.publish), session.signalWithStart(signals.cancel)]);
  },
  answer: (session, db) => answer(session, db, 'once'),
  reject: (session, db) => answer(session, db, 'reject'),
  give,
  rewind: (session, db) => withMessage(session, db, (message_id) => session.command(updates.rewind, { message_id })),
  rewindAborting: (session, db) =>
    withMessage(session, db, (message_id) => session.command(updates.rewind, { message_id, abort: true })),
  unrewind: (session) => session.command(updates.unrewind),
  edit: (session, db) => withMessage(session, db, (message) => session.edit(message, `for ${session.id}`)),
  regenerate: (session, db) => withMessage(session, db, (message) => session.regenerate(message)),
  branch: (session, db) =>
    withMessage(session, db, (message) => session.command(updates.branch, { from_message_id: message })),
  archive: (session) => session.command(updates.archive, { archived: true }),
  compact: (session) => session.command(updates.compact),
  prune: (session) => session.command(updates.prune),
  close: (session) => session.command(updates.close, { abort: true }),
  badCommand: (session) => session.command(updates.publish, { command_id: 'not an id' }),
  signalCancel: (session) => session.signalWithStart(signals.cancel),
  signalPublish: (session) => session.signalWithStart(signals.publish),
  signalRewind: (session, db) =>
    withMessage(session, db, (message_id) => session.signalWithStart(signals.rewind, { message_id, abort: true })),
  signalUnrewind: (session) => session.signalWithStart(signals.unrewind),
  terminate: (session) => session.handle.terminate(),
  cancelWorkflow: (session) => session.handle.cancel(),
} satisfies Record<string, (session: TestSession, db: pg.Pool) => Promise<unknown>>;

type Act = keyof typeof ACTS;

/** Does something with the newest message of a session but one, so that there is something after it, or with the only one. */
async function withMessage(session: TestSession, db: pg.Pool, act: (id: string) => Promise<unknown>): Promise<unknown> {
  const { rows } = await db.query<{ id: string }>(
    `SELECT id FROM chat_messages WHERE session_id = $1 AND role = 'user' AND hidden_at IS NULL
      ORDER BY position DESC LIMIT 2`,
    [session.id],
  );
  return act(rows.at(-1)?.id ?? 'msg');
}

/** What a session waits for, if it does. */
async function waitsFor(session: TestSession, db: pg.Pool) {
  const { rows } = await db.query<{ seq: number; message_id: string; call: string }>(
    `SELECT seq, message_id, waiting ->> 'tool_call_id' AS call FROM chat_runs WHERE session_id = $1 AND state = 'waiting'`,
    [session.id],
  );
  return rows[0];
}

async function answer(session: TestSession, db: pg.Pool, decision: 'once' | 'reject'): Promise<unknown> {
  const call = (await waitsFor(session, db))?.call ?? newId('call');
  return session.command(updates.answer, { tool_call_id: call, decision });
}

/** As a page does, whose output the client tells the workflow of. */
async function give(session: TestSession, db: pg.Pool): Promise<unknown> {
  const waits = await waitsFor(session, db);
  if (waits === undefined) return undefined;
  const output = JSON.stringify({ output: { place: 'here' } });
  await db.query('SELECT give_output($1, $2, $3, $4)', [session.id, session.user, waits.call, output]);
  const args: [Wake] = [{ run_seq: waits.seq, message_id: waits.message_id, model: null }];
  return session.handle.executeUpdate(submitUpdate, { args, updateId: `output:${waits.call}` });
}

const anyAct = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Act>('send') },
  { weight: 15, arbitrary: fc.constantFrom(...(Object.keys(ACTS) as Act[])) },
);
const anyWayBack = fc.constantFrom<Act>(
  ...(['rewind', 'rewindAborting', 'signalRewind', 'unrewind', 'unrewind', 'edit', 'regenerate', 'branch'] as const),
);
const anyCommand = fc.constantFrom<Act>('publishBuilt', 'openExisting', 'cancel', 'revert', 'abort');
const wait = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 200 }) },
  { weight: 2, arbitrary: fc.integer({ min: 200, max: IDLE_MS }) },
);
const slowness = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: HEARTBEAT_MS }) },
  { weight: 3, arbitrary: fc.integer({ min: HEARTBEAT_MS, max: SLOWEST_MS }) },
);
const slow: fc.Arbitrary<Slow> = fc.oneof(
  slowness.map((before) => ({ before, after: 0 })),
  slowness.map((after) => ({ before: 0, after })),
);
const answers = fc.array(
  fc.oneof(
    { weight: 1, arbitrary: fc.constant('words' as const) },
    { weight: 1, arbitrary: fc.constantFrom(...(Object.keys(ANSWERS) as Plan['answers'])) },
  ),
  { minLength: 4, maxLength: 4 },
);
/** Anything, in any order. */
const anything: fc.Arbitrary<Plan> = fc.record({
  acts: fc.array(fc.record({ act: anyAct, wait }), { minLength: 2, maxLength: 6, size: 'max' }),
  slow: fc.array(slow, { minLength: 6, maxLength: 6 }),
  answers,
});
/** Commands at once, each at the row for longer than a heartbeat; the idle timer fires during the first one. */
const idleTimerAtTheRow: fc.Arbitrary<Plan> = fc.record({
  acts: fc
    .tuple(anyCommand, fc.integer({ min: IDLE_MS - HEARTBEAT_MS, max: IDLE_MS - 200 }), anyCommand, anyCommand)
    .map(([first, later, second, third]) => [
      { act: first, wait: 0 },
      { act: second, wait: later },
      { act: third, wait: 0 },
    ]),
  // The first two calls load the session and carry out the first command.
  slow: fc
    .array(fc.integer({ min: HEARTBEAT_MS + 100, max: 2 * HEARTBEAT_MS }), { minLength: 2, maxLength: 2 })
    .map((delays) => [0, 0, ...delays].map((before) => ({ before, after: 0 }))),
  answers,
});
const said = (after: number): Plan['acts'][number] => ({ act: 'send', wait: after });
/** Back and forth in a conversation, which has answers by then: the session is loaded at once. */
const goingBack: fc.Arbitrary<Plan> = fc.record({
  acts: fc
    .tuple(wait, fc.array(fc.record({ act: anyWayBack, wait }), { minLength: 3, maxLength: 6, size: 'max' }))
    .map(([later, acts]) => [said(0), said(later)].concat(acts)),
  slow: fc.array(slow, { minLength: 5, maxLength: 5 }).map((calls) => [{ before: 0, after: 0 }].concat(calls)),
  answers,
});
const plan = fc.oneof(
  { weight: 3, arbitrary: anything },
  { weight: 1, arbitrary: idleTimerAtTheRow },
  { weight: 1, arbitrary: goingBack },
);

/** The plans of `count` sessions: the same for the same seed. */
export function plans(seed: number, count: number): Plan[] {
  return fc.sample(plan, { seed, numRuns: count });
}

/** Answers each session's model requests by its plan. */
export function scriptOf(planOf: ReadonlyMap<string, Plan>): ModelScript {
  const requests = new Map<string, number>();
  return (request) => {
    const session = lastUserText(request).replace('for ', '');
    const { answers: choices = [] } = planOf.get(session) ?? {};
    const nth = requests.get(session) ?? 0;
    requests.set(session, nth + 1);
    return ANSWERS[choices[nth % choices.length] ?? 'words']();
  };
}

/** Calls made by streaming activities; all others are made by local activities. */
const OF_STREAMS = /step|tool|chunk|claim|view|usage|prompt|state/;

/** Slows down the database calls of each session's local activities, by its plan. */
export function slowRows(db: pg.Pool, planOf: ReadonlyMap<string, Plan>): Disposable {
  const calls = new Map<string, number>();
  const delayOf = ({ name, args }: SqlCall, when: keyof Slow) => {
    const session = String(args[0]);
    const delays = planOf.get(session)?.slow;
    if (delays === undefined || OF_STREAMS.test(name)) return 0;
    const nth = calls.get(session) ?? 0;
    if (when === 'after') calls.set(session, nth + 1);
    return delays[nth % delays.length]![when];
  };
  return aroundCalls(db, {
    before: (call) => delay(delayOf(call, 'before')),
    after: (call) => delay(delayOf(call, 'after')),
  });
}

/** The run ids of the executions that have read a session's row, by session. Executions ended before ran no code. */
export function watchExecutions(db: pg.Pool): { of: ReadonlyMap<string, ReadonlySet<string>> } & Disposable {
  const of = new Map<string, Set<string>>();
  const watching = aroundCalls(db, {
    before: ({ name, args: [session, execution] }) => {
      if (name !== 'load_session') return;
      const known = of.get(String(session)) ?? new Set();
      of.set(String(session), known.add(String(execution)));
    },
  });
  return { of, [Symbol.dispose]: () => watching[Symbol.dispose]() };
}

/** Carries out a session's plan, waits for the answers, and for an idle session to close. */
export async function live(session: TestSession, db: pg.Pool, { acts }: Plan): Promise<void> {
  const answered: Promise<unknown>[] = [];
  for (const { act, wait: ms } of acts) {
    if (ms > 0) await delay(ms);
    answered.push(ACTS[act](session, db).catch(() => {}));
  }
  await Promise.race([Promise.all(answered), delay(ANSWERS_MS)]);
  await Promise.race([session.handle.result().catch(() => {}), delay(2 * IDLE_MS)]);
}
