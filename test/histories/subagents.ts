// Scenarios of subagents: the histories of the parents and of their children.
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, fail, hang, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import type { TestRuntime } from '../../tools/test-kit/system.ts';
import { updates } from '../../workflows/definitions.ts';
import { subagentAgents } from '../subagents/agents.ts';
import { childrenOf, play, runOver } from '../subagents/kit.ts';
import { CANARY, type Scenario } from './scenario.ts';

const options = { agents: subagentAgents };
const done = say(`Done. ${CANARY}`);

const task = (id: string, prompt: string, { agent = 'helper', background = false } = {}): ModelAction =>
  callTool(id, 'task', { agent, prompt: `${prompt} ${CANARY}`, background });

const open = (runtime: TestRuntime) => TestSession.open(runtime, { agent: 'owner' });
const send = (session: TestSession) => session.send(`Parent go ${CANARY}`);

/** Waits until children work, and their workflows have begun: then these are told how they end. */
const atWork = (...sessions: TestSession[]) =>
  eventually(async () => {
    for (const each of sessions) {
      if ((await each.run(1)).state !== 'running') throw new Error('it does not work yet');
      await each.handle.describe();
    }
  });

/** A session whose message has called a child, which has called another one: both work. */
async function familyAtWork(runtime: TestRuntime) {
  const session = await open(runtime);
  const run = await send(session);
  const [child] = await childrenOf(runtime, session.id);
  const [grandchild] = await childrenOf(runtime, child!.id);
  await atWork(child!, grandchild!);
  return { session, run, child: child!, grandchild: grandchild! };
}

const foreground: Scenario = {
  name: 'subagent',
  options,
  async play(runtime) {
    runtime.model.script(play({ Parent: [[task('call_1', 'Child')], [done]], Child: [[done]] }));
    const session = await open(runtime);
    await session.ended(await send(session));
    return [session, ...(await childrenOf(runtime, session.id))];
  },
};

const background: Scenario = {
  name: 'subagents-in-background',
  options,
  async play(runtime) {
    const gate = new Gate();
    const late = async function* () {
      await gate.pass();
      yield done;
    };
    const calls = [task('call_1', 'Child', { background: true }), task('call_2', 'Child', { background: true })];
    runtime.model.script(play({ Parent: [calls, [done]], Child: [late] }));
    const session = await open(runtime);
    await session.ended(await send(session));
    gate.open();
    for (const run of [2, 3]) await runOver(session, run);
    return [session, ...(await childrenOf(runtime, session.id, 2))];
  },
};

const aborted: Scenario = {
  name: 'subagents-aborted',
  options,
  async play(runtime) {
    runtime.model.script(
      play({
        Parent: [[task('call_1', 'Child')]],
        Child: [[task('call_1', 'Grandchild')]],
        Grandchild: [[say(`Once. ${CANARY}`), hang()]],
      }),
    );
    const { session, run, child, grandchild } = await familyAtWork(runtime);
    await session.command(updates.abort);
    await session.ended(run);
    return [session, child, grandchild];
  },
};

const asking: Scenario = {
  name: 'subagent-that-asks',
  options,
  async play(runtime) {
    const pay = callTool('call_1', 'pay', { amount: 7 });
    runtime.model.script(
      play({ Parent: [[task('call_1', 'Child', { agent: 'payer' })], [done]], Child: [[pay], [done]] }),
    );
    const session = await open(runtime);
    const run = await send(session);
    const [child] = await childrenOf(runtime, session.id);
    const call = await eventually(async () => {
      const { rows } = await runtime.db.query<{ call: string | null }>(
        `SELECT waiting ->> 'tool_call_id' AS call FROM chat_runs WHERE session_id = $1 AND state = 'waiting'`,
        [child!.id],
      );
      if (!rows[0]?.call) throw new Error('it does not ask yet');
      return rows[0].call;
    });
    await session.command(updates.answer, { tool_call_id: call, decision: 'once' });
    await session.ended(run);
    return [session, child!];
  },
};

const failed: Scenario = {
  name: 'subagent-that-fails',
  options,
  async play(runtime) {
    const gate = new Gate();
    const late = async function* () {
      await gate.pass();
      yield fail(401, { message: CANARY });
    };
    runtime.model.script(
      play({
        Parent: [[task('call_1', 'Child')], [done]],
        Child: [[task('call_1', 'Grandchild', { background: true })], late],
        Grandchild: [[say(`Once. ${CANARY}`), hang()]],
      }),
    );
    const { session, run, child, grandchild } = await familyAtWork(runtime);
    gate.open();
    await session.ended(run);
    return [session, child, grandchild];
  },
};

export const subagents: readonly Scenario[] = [foreground, background, aborted, asking, failed];
