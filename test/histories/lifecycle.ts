// Scenarios of a session's lifecycle: commands, closing and opening, continuing as new, and lost workers and claims.
import { setTimeout as delay } from 'node:timers/promises';
import { defineAgent } from '../../agent/definition/define.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, fail, failContextLength, report, say } from '../../tools/test-kit/model-actions.ts';
import { withoutFunction } from '../../tools/test-kit/without-function.ts';
import { signals, updates } from '../../workflows/definitions.ts';
import faultAgent from '../faults/agent.ts';
import { loseClaims, untilItWaits } from '../faults/lost-claims.ts';
import { loadElsewhere } from '../faults/rows.ts';
import { aroundCalls, type SqlCall } from '../faults/sql-calls.ts';
import { startWorkerProcess } from '../faults/worker-process.ts';
import {
  build,
  CANARY,
  close,
  hangingTurn,
  inOrder,
  inPhase,
  logged,
  open,
  refused,
  type Scenario,
  turn,
  words,
} from './scenario.ts';

const closeAndReopen: Scenario = {
  name: 'close-and-reopen',
  async play(runtime) {
    const session = await open(runtime);
    const run = await hangingTurn(runtime, session);
    await refused(session.command(updates.close));
    await session.send(`Dropped. ${CANARY}`);
    await close(session, { abort: true });
    await session.ended(run);
    runtime.model.script(inOrder(words));
    await turn(session);
    await close(session);
    return session;
  },
};

const idleClose: Scenario = {
  name: 'idle-close',
  options: { settings: { idleCloseMs: 700 } },
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await turn(session);
    await turn(session);
    await session.handle.result();
    await turn(session);
    await session.handle.result();
    return session;
  },
};

const continueAsNewIdle: Scenario = {
  name: 'continue-as-new-idle',
  options: { settings: { continueAsNewEvents: 30 } },
  async play(runtime) {
    runtime.model.script(inOrder([callTool('call_1', 'look', { at: CANARY })], words));
    const session = await open(runtime);
    for (let n = 0; n < 4; n += 1) await turn(session);
    return session;
  },
};

/** Long enough that the workflow continues as new between two steps of one turn. */
const STEPS_OF_A_LONG_TURN = 200;
/** Each step has an activity of its own, and so six events. */
const STEP_MS = 100;

const continueAsNewInTurn: Scenario = {
  name: 'continue-as-new-in-turn',
  options: { agents: [{ ...faultAgent, limits: { steps: 2 * STEPS_OF_A_LONG_TURN } }] },
  async play(runtime) {
    let step = 0;
    runtime.model.script(async function* () {
      await delay(STEP_MS);
      yield* ++step < STEPS_OF_A_LONG_TURN ? [callTool('call_1', 'echo', { words: CANARY })] : words;
    });
    const session = await open(runtime);
    const sent = await session.send(`Again and again. ${CANARY}`);
    const { runId: first } = await session.handle.describe();
    const run = await session.ended(sent, 120_000);
    if (run.state !== 'finished') throw new Error(`the long turn is ${run.state}: ${run.error_code}`);
    const { runId: last } = await session.handle.describe();
    if (first === last) throw new Error('the workflow has not continued as new within the turn');
    return session;
  },
};

const signalled: Scenario = {
  name: 'signals',
  async play(runtime) {
    runtime.model.script(inOrder(...build));
    const session = await open(runtime);
    await turn(session);
    await session.handle.signal(signals.publish);
    await inPhase(session, 'done');
    await session.handle.signal(signals.publish);
    await session.handle.signal(signals.cancel);
    await session.handle.signal(signals.rewind, { message_id: 'msg-of-an-operator' });
    await logged(runtime, session, 'refused', 3);
    runtime.model.script(inOrder([callTool('call_1', 'build_and_deploy', {})], [callTool('call_1', 'wait', {})]));
    const run = await session.send(`Once more. ${CANARY}`);
    await inPhase(session, 'building');
    await session.handle.signal(signals.cancel, { reason: `no longer needed ${CANARY}` });
    await session.ended(run);
    return session;
  },
};

const refusedUpdates: Scenario = {
  name: 'refused-updates',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await refused(session.command(updates.publish));
    await refused(session.command(updates.publish, { command_id: 'not an id' }));
    await refused(session.command(updates.cancelQueued, { message_id: 'unknown' }));
    await turn(session);
    await session.command(updates.openExisting, { project_id: 'bakery' });
    await refused(session.command(updates.openExisting, { project_id: 'florist' }));
    const again = { command_id: 'sent-twice' };
    await refused(session.command(updates.publish, again));
    await refused(session.command(updates.publish, again));
    return session;
  },
};

const openExisting: Scenario = {
  name: 'open-existing',
  async play(runtime) {
    runtime.model.script(inOrder([callTool('call_1', 'build_and_deploy', {})], words));
    const session = await open(runtime);
    await session.command(updates.openExisting, { project_id: 'bakery' });
    await session.command(updates.openExisting, { project_id: 'bakery' });
    await turn(session);
    return session;
  },
};

const lostWorker: Scenario = {
  name: 'lost-worker',
  options: { settings: { heartbeatTimeoutMs: 600 } },
  async play(runtime) {
    runtime.model.script(inOrder([callTool('call_1', 'pay', { amount: 7 })], words));
    await runtime.first.stop();
    // The worker crashes when the tool has run and its outcome is not stored yet.
    const session = await open(runtime);
    const killed = await startWorkerProcess(runtime, { crashesAt: { [session.id]: { before: 'finish_tool' } } });
    const run = await session.send(`Pay. ${CANARY}`);
    await killed.exited;
    await runtime.startWorker();
    await session.ended(run);
    return session;
  },
};

const lostClaim: Scenario = {
  name: 'lost-claim',
  async play(runtime) {
    let letGo = () => {};
    const held = new Promise<void>((resolve) => (letGo = resolve));
    let first = true;
    runtime.model.script(async function* () {
      yield say(CANARY);
      if (first) {
        first = false;
        await held;
      }
      yield say(' is a bird.');
    });
    const session = await open(runtime);
    const run = await session.send(`What is it? ${CANARY}`);
    await runtime.model.request(0);
    // Another load of the session fences off what this workflow has scheduled, so that it must load again.
    await loadElsewhere(runtime.db, session.id);
    letGo();
    await session.ended(run);
    return session;
  },
};

const lostClaims: Scenario = {
  name: 'lost-claims',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    const regain = await loseClaims(runtime.db, session.id);
    const run = await session.send(`What is it? ${CANARY}`);
    await untilItWaits(session);
    await regain();
    await session.ended(run);
    return session;
  },
};

const terminated: Scenario = {
  name: 'terminated',
  async play(runtime) {
    runtime.model.script(inOrder([callTool('call_1', 'wait', {})]));
    const session = await open(runtime);
    const run = await session.send(`Wait. ${CANARY}`);
    await eventually(async () => {
      if ((await session.row()).pending_tool === null) throw new Error('no tool at work yet');
      // One that no activity has adopted would go on.
      if ((await session.run(run)).head_start_at !== null) throw new Error('no activity has the tool yet');
    });
    await session.handle.terminate();
    runtime.model.script(inOrder(words));
    await turn(session);
    await session.ended(run);
    return session;
  },
};

const cancelledFromOutside: Scenario = {
  name: 'cancelled-from-outside',
  async play(runtime) {
    const session = await open(runtime);
    const run = await hangingTurn(runtime, session);
    await session.handle.cancel();
    await eventually(() => session.handle.result().catch(() => {}));
    runtime.model.script(inOrder(words));
    await turn(session);
    await session.ended(run);
    await session.handle.cancel();
    await session.handle.result().catch(() => {});
    return session;
  },
};

const commandsAtOnce: Scenario = {
  name: 'commands-at-once',
  async play(runtime) {
    runtime.model.script(inOrder(...build));
    const session = await open(runtime);
    await turn(session);
    await Promise.allSettled([
      session.command(updates.publish),
      session.command(updates.cancel),
      session.handle.signal(signals.publish),
      session.command(updates.revert),
      session.handle.signal(signals.cancel),
      session.command(updates.abort),
      session.command(updates.openExisting, { project_id: 'bakery' }),
    ]);
    return session;
  },
};

/** Longer than a workflow task is kept open without a heartbeat. */
const SLOW_MS = 2_500;

const idleTimerInCommands: Scenario = {
  name: 'idle-timer-in-commands',
  options: { settings: { idleCloseMs: 4_000 } },
  async play(runtime) {
    runtime.model.script(inOrder(...build));
    const session = await open(runtime);
    await turn(session);
    // The timer fires during the second command.
    const before = ({ name }: SqlCall) => delay(name === 'apply_command' ? SLOW_MS : 0);
    using _slow = aroundCalls(runtime.db, { before });
    await Promise.allSettled([
      session.command(updates.publish),
      session.command(updates.openExisting, { project_id: 'bakery' }),
    ]);
    await session.handle.result();
    return session;
  },
};

const wakesOutOfOrder: Scenario = {
  name: 'wakes-out-of-order',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await turn(session);
    const second = await session.accept(`Second. ${CANARY}`);
    const third = await session.accept(`Third. ${CANARY}`);
    await session.wake(third.run, third.message);
    await session.ended(second.run);
    await session.ended(third.run);
    await session.wake(second.run, second.message);
    return session;
  },
};

const failedActivity: Scenario = {
  name: 'failed-activity',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    // A permanent error of the database.
    const giveBack = await withoutFunction(runtime.db, 'settle_step');
    await turn(session);
    await giveBack();
    await turn(session);
    return session;
  },
};

const archives: Scenario = {
  name: 'archives',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await session.ended(await session.send(`First. ${CANARY}`));
    await session.command(updates.archive, { archived: true });
    await session.command(updates.archive, { archived: false });
    await session.ended(await session.send(`Second. ${CANARY}`));
    return session;
  },
};

/** By itself, by hand, and one whose summarizer fails. */
const compactions: Scenario = {
  name: 'compactions',
  options: {
    catalog: { 'openai/test': { context_limit: 3_000, max_output: 500 } },
    agents: [
      defineAgent({ ...faultAgent, compaction: { retry_on_transient: 0, prune_min_tokens: 50, prune_keep: 0 } }),
    ],
  },
  async play(runtime) {
    const answer = [say('Certainly. '.repeat(200)), report({ input: 1_000, output: 500 })];
    const full = [say('Certainly.'), report({ input: 2_600, output: 10 })];
    const summary = [say(`They talked. ${CANARY}`)];
    runtime.model.script(inOrder(answer, answer, answer, full, summary, answer));
    const session = await open(runtime);
    for (let turns = 0; turns < 5; turns += 1) await turn(session);
    runtime.model.script(inOrder(summary, full, [fail(503)], words));
    await refused(session.command(updates.prune));
    const { run_seq: byHand } = await session.command(updates.compact);
    await session.ended(byHand);
    await turn(session);
    await turn(session);
    runtime.model.script(inOrder([callTool('call_1', 'echo', { words: `${CANARY} `, times: 50 })], words));
    await turn(session);
    const { run_seq: pruned } = await session.command(updates.prune);
    await session.ended(pruned);
    return session;
  },
};

/** At `prune_at`, and a summary because the provider refuses the conversation as too long. */
const prunes: Scenario = {
  name: 'prunes',
  options: {
    catalog: { 'openai/test': { context_limit: 3_000, max_output: 500 } },
    agents: [defineAgent({ ...faultAgent, compaction: { prune_at: 0.5, prune_min_tokens: 50, prune_keep: 0 } })],
  },
  async play(runtime) {
    const echo = [callTool('call_1', 'echo', { words: `${CANARY} `, times: 50 })];
    const full = [say('Certainly. '.repeat(50)), report({ input: 1_300, output: 100 })];
    const summary = [say(`They talked. ${CANARY}`)];
    runtime.model.script(inOrder(echo, full, words, words, [failContextLength()], summary, words));
    const session = await open(runtime);
    for (let turns = 0; turns < 4; turns += 1) await turn(session);
    return session;
  },
};

export const lifecycle = [
  closeAndReopen,
  idleClose,
  continueAsNewIdle,
  continueAsNewInTurn,
  signalled,
  refusedUpdates,
  openExisting,
  lostWorker,
  lostClaim,
  lostClaims,
  terminated,
  cancelledFromOutside,
  commandsAtOnce,
  idleTimerInCommands,
  wakesOutOfOrder,
  failedActivity,
  archives,
  compactions,
  prunes,
];
