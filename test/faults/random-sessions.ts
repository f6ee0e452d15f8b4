// Sessions to which random things happen while their rows are slow, by a seed.
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import type pg from 'pg';
import { signals, updates } from '../../workflows/definitions.ts';
import { callTool, fail, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, type ModelScript } from '../../tools/test-kit/model-server.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';
import { raise } from './rows.ts';
import { aroundCalls, type SqlCall } from './sql-calls.ts';

/** What happens to one session. Times in milliseconds. */
export interface Plan {
  acts: { act: Act; wait: number }[];
  /** How long the nth call of the database by a local activity takes, before and after its transaction. */
  slow: { before: number; after: number }[];
  answers: (keyof typeof ANSWERS)[];
}

/** A random one is taken for each request of a session. */
const ANSWERS = {
  words: () => [say('done')],
  build: () => [callTool('call_1', 'build_and_deploy', { confirm_new_project: true })],
  finishBuild: () => [callTool('call_1', 'todo_complete', { name: 'build' })],
  tools: () => [callTool('call_1', 'look', { at: 'it' }), callTool('call_2', 'stumble', { words: 'oh' })],
  provider: () => [fail(503)],
  slowly: () => slowly(),
} satisfies Record<string, () => Iterable<ModelAction> | AsyncIterable<ModelAction>>;

async function* slowly(): AsyncIterable<ModelAction> {
  yield say('wait');
  await delay(700);
  yield say(' for it');
}

/** What can happen to a session; what is refused, or meets the end of the workflow, is fine. */
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
  close: (session) => session.command(updates.close, { abort: true }),
  badCommand: (session) => session.command(updates.publish, { command_id: 'not an id' }),
  signalCancel: (session) => session.signalWithStart(signals.cancel),
  signalPublish: (session) => session.signalWithStart(signals.publish),
  signalRewind: (session) => session.signalWithStart(signals.rewind, { message_id: 'msg' }),
  terminate: (session) => session.handle.terminate(),
  cancelWorkflow: (session) => session.handle.cancel(),
} satisfies Record<string, (session: TestSession, db: pg.Pool) => Promise<unknown>>;

type Act = keyof typeof ACTS;

/** Longer than the heartbeat of a workflow task (1.6 s), and than the idle time. */
const SLOWEST_MS = 5_000;

const wait = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 300 }) },
  { weight: 2, arbitrary: fc.integer({ min: 300, max: 2_500 }) },
);
const slow = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 1_600 }) },
  { weight: 2, arbitrary: fc.integer({ min: 1_600, max: SLOWEST_MS }) },
);
const plan: fc.Arbitrary<Plan> = fc.record({
  acts: fc.array(
    fc.record({
      act: fc.oneof(
        { weight: 4, arbitrary: fc.constant<Act>('send') },
        { weight: 14, arbitrary: fc.constantFrom(...(Object.keys(ACTS) as Act[])) },
      ),
      wait,
    }),
    { minLength: 6, maxLength: 12, size: 'max' },
  ),
  slow: fc.array(
    fc.oneof(
      slow.map((before) => ({ before, after: 0 })),
      slow.map((after) => ({ before: 0, after })),
    ),
    { minLength: 8, maxLength: 8 },
  ),
  answers: fc.array(fc.constantFrom(...(Object.keys(ANSWERS) as Plan['answers'])), { minLength: 6, maxLength: 6 }),
});

/** The plans of `count` sessions: the same for the same seed. */
export function plans(seed: number, count: number): Plan[] {
  return fc.sample(plan, { seed, numRuns: count });
}

/** Answers each session's requests by its plan. */
export function scriptOf(planOf: ReadonlyMap<string, Plan>): ModelScript {
  const requests = new Map<string, number>();
  return (request) => {
    const session = lastUserText(request).replace('for ', '');
    const { answers = [] } = planOf.get(session) ?? {};
    const nth = requests.get(session) ?? 0;
    requests.set(session, nth + 1);
    return ANSWERS[answers[nth % answers.length] ?? 'words']();
  };
}

/** Calls that streaming activities make; all others are a local activity's. */
const OF_STREAMS = /step|tool|chunk|claim|view|usage|prompt|state/;

/** Makes the database slow for the local activities of each session, by its plan. */
export function slowRows(db: pg.Pool, planOf: ReadonlyMap<string, Plan>): Disposable {
  const calls = new Map<string, number>();
  const delayOf = ({ name, args }: SqlCall, when: 'before' | 'after') => {
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

/** Lets everything in a plan happen to a session, waits for the answers, and for the session to close, as long as it is idle. */
export async function live(session: TestSession, db: pg.Pool, { acts }: Plan): Promise<void> {
  const answers: Promise<unknown>[] = [ACTS.send(session).catch(() => {})];
  for (const { act, wait: ms } of acts) {
    if (ms > 0) await delay(ms);
    answers.push(ACTS[act](session, db).catch(() => {}));
  }
  await Promise.race([Promise.all(answers), delay(SLOWEST_MS * 4)]);
  await Promise.race([session.handle.result().catch(() => {}), delay(SLOWEST_MS)]);
}
