// Scenarios of turns with models and tools.
import type { SessionMark } from '../../domain/command-table.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, fail, say } from '../../tools/test-kit/model-actions.ts';
import { updates } from '../../workflows/definitions.ts';
import faultAgent from '../faults/agent.ts';
import { build, CANARY, hangingTurn, inOrder, inPhase, open, refused, type Scenario, turn, words } from './scenario.ts';

const plainTurn: Scenario = {
  name: 'plain-turn',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await turn(session);
    await turn(session);
    return session;
  },
};

const buildAndPublish: Scenario = {
  name: 'build-and-publish',
  async play(runtime) {
    runtime.model.script(inOrder(...build));
    const session = await open(runtime);
    await turn(session);
    await session.command(updates.publish);
    return session;
  },
};

const buildAndRevert: Scenario = {
  name: 'build-and-revert',
  async play(runtime) {
    runtime.model.script(inOrder(...build));
    const session = await open(runtime);
    await turn(session);
    await session.command(updates.revert);
    runtime.model.script(inOrder([callTool('call_1', 'todo_complete', { name: 'build' })], words));
    await turn(session);
    return session;
  },
};

const toolErrors: Scenario = {
  name: 'tool-errors',
  async play(runtime) {
    runtime.model.script(
      inOrder(
        [callTool('call_1', 'stumble', { words: CANARY }), callTool('call_2', 'read_file', { path: 'missing.html' })],
        [callTool('call_1', `no_such_${CANARY}`, { input: CANARY })],
        [callTool('call_1', 'write_file', { path: 7 })],
        [callTool('call_1', 'build_and_deploy', {})],
        words,
      ),
    );
    const session = await open(runtime);
    await turn(session);
    return session;
  },
};

const queue: Scenario = {
  name: 'queue',
  async play(runtime) {
    const session = await open(runtime);
    const first = await hangingTurn(runtime, session);
    const second = await session.send(`And then? ${CANARY}`);
    const third = await session.accept(`Never mind. ${CANARY}`);
    await session.wake(third.run, third.message);
    await session.command(updates.cancelQueued, { message_id: third.message });
    runtime.model.script(inOrder(words));
    await session.command(updates.abort);
    await session.ended(first);
    await session.ended(second);
    return session;
  },
};

const abortInStream: Scenario = {
  name: 'abort-in-stream',
  async play(runtime) {
    const session = await open(runtime);
    const run = await hangingTurn(runtime, session);
    await session.command(updates.abort);
    await session.ended(run);
    runtime.model.script(inOrder(words));
    await turn(session);
    return session;
  },
};

const abortInTool: Scenario = {
  name: 'abort-in-tool',
  async play(runtime) {
    runtime.model.script(inOrder([callTool('call_1', 'wait', {}), callTool('call_2', 'look', { at: CANARY })]));
    const session = await open(runtime);
    const run = await session.send(`Wait. ${CANARY}`);
    await eventually(async () => {
      if ((await session.row()).pending_tool === null) throw new Error('no tool at work yet');
    });
    await session.command(updates.abort);
    await session.ended(run);
    return session;
  },
};

const abortBeforeStart: Scenario = {
  name: 'abort-before-start',
  async play(runtime) {
    const session = await open(runtime);
    const { run } = await session.accept(`Too late. ${CANARY}`);
    await session.command(updates.abort);
    await session.ended(run);
    return session;
  },
};

const cancelInBuilding: Scenario = {
  name: 'cancel-in-building',
  async play(runtime) {
    runtime.model.script(inOrder(build[0]!, [callTool('call_1', 'wait', {})]));
    const session = await open(runtime);
    const run = await session.send(`Build. ${CANARY}`);
    await inPhase(session, 'building');
    await session.command(updates.cancel);
    await session.ended(run);
    runtime.model.script(inOrder([callTool('call_1', 'build_and_deploy', {})], words));
    await turn(session);
    await session.command(updates.cancel);
    return session;
  },
};

const providerRetry: Scenario = {
  name: 'provider-retry',
  async play(runtime) {
    runtime.model.script(inOrder([fail(429, { retryAfter: 0.2 })], [fail(503, { message: CANARY })], words));
    const session = await open(runtime);
    await turn(session);
    return session;
  },
};

const providerError: Scenario = {
  name: 'provider-error-and-resume',
  async play(runtime) {
    runtime.model.script(
      inOrder([say(CANARY), callTool('call_1', 'look', { at: CANARY })], [fail(401, { message: CANARY })]),
    );
    const session = await open(runtime);
    const first = await session.send(`Look. ${CANARY}`);
    const queued = await session.accept(`And this. ${CANARY}`);
    await session.wake(queued.run, queued.message);
    await session.ended(first);
    // The queue is paused: a wake-up does not resume it, a new message does.
    await session.wake(queued.run, queued.message);
    await refused(session.ended(queued.run, 500));
    runtime.model.script(inOrder(words));
    await turn(session);
    await session.ended(queued.run);
    return session;
  },
};

const limitReached: Scenario = {
  name: 'limit-reached',
  options: { agents: [{ ...faultAgent, limits: { steps: 2 } }] },
  async play(runtime) {
    runtime.model.script(inOrder([callTool('call_1', 'look', { at: CANARY })]));
    const session = await open(runtime);
    await turn(session);
    runtime.model.script(inOrder(words));
    await turn(session);
    return session;
  },
};

const toldOfTurns: Scenario = {
  name: 'told-of-turns',
  async play(runtime) {
    const [begin, , finish] = build;
    runtime.model.script(inOrder(begin!, words, finish!, words));
    const session = await open(runtime);
    await turn(session);
    const accept = async (text: string) => {
      const { run, message } = await session.accept(`${text} ${CANARY}`);
      runtime.bus.publish({ session: session.id, run, kind: 'accepted' });
      await session.ended(run);
      return { run, message };
    };
    // The first turn ends the building. The workflow hears of it with the wake-up for the second one.
    await accept('First.');
    const { run, message } = await accept('Second.');
    const { rows } = await runtime.db.query<{ mark: SessionMark }>('SELECT session_mark($1) AS mark', [session.id]);
    await session.wake(run, message, null, rows[0]!.mark);
    await turn(session);
    return session;
  },
};

export const turns = [
  plainTurn,
  buildAndPublish,
  buildAndRevert,
  toolErrors,
  queue,
  abortInStream,
  abortInTool,
  abortBeforeStart,
  cancelInBuilding,
  providerRetry,
  providerError,
  limitReached,
  toldOfTurns,
];
