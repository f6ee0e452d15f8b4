// Scenarios of runs that wait: for the answer to a call that asks, or for the outcome of a call that a page carries out.
import { createClient } from '../../client/client.ts';
import { newId } from '../../domain/ids.ts';
import { askingModel } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';
import type { RuntimeOptions, TestRuntime } from '../../tools/test-kit/system.ts';
import { updates } from '../../workflows/definitions.ts';
import { payingAgent, untilWaiting, waiting, type Waiting } from '../faults/paying.ts';
import { CANARY, close, refused, type Scenario } from './scenario.ts';

const options: RuntimeOptions = { agents: [payingAgent], script: askingModel };

type Client = ReturnType<typeof createClient>;

/** Plays with a client, whose answers have reasons and outputs. */
function played(play: (client: Client, runtime: TestRuntime) => Promise<TestSession>): Scenario['play'] {
  return async (runtime) => {
    const { databaseUrl: database, temporal } = runtime;
    const client = createClient({ database, temporal });
    try {
      return await play(client, runtime);
    } finally {
      await client.end();
    }
  };
}

/** Sends a message whose run waits. */
async function again(session: TestSession, text: string): Promise<Waiting> {
  const run = await session.send(text);
  return { session, run, call: await untilWaiting(session, run) };
}

async function answered(
  client: Client,
  { session, run, call }: Waiting,
  decision: 'once' | 'session' | 'reject',
): Promise<void> {
  const reason = `because ${CANARY}`;
  await client.commands.answer('ada', session.id, { tool_call_id: call, decision, reason });
  await session.ended(run);
}

const approvals: Scenario = {
  name: 'approvals',
  options,
  play: played(async (client, runtime) => {
    const first = await waiting(runtime, 'pay 5');
    const { session } = first;
    await answered(client, first, 'once');
    await refused(session.command(updates.answer, { tool_call_id: first.call, decision: 'reject' }));
    await session.command(updates.answer, { tool_call_id: first.call, decision: 'once' });
    await answered(client, await again(session, 'pay 6'), 'reject');
    await answered(client, await again(session, 'pay 7'), 'session');
    await session.ended(await session.send('pay 7, pay 13'));
    return session;
  }),
};

/** Aborted, gone back to, and closed. */
const abortWhileWaiting: Scenario = {
  name: 'abort-while-waiting',
  options,
  play: played(async (_client, runtime) => {
    const { session, run } = await waiting(runtime, 'pay 5');
    await session.send('look');
    await session.command(updates.abort);
    await session.ended(run);
    const second = await again(session, 'pay 6');
    const { message_id } = await session.run(second.run);
    await session.command(updates.rewind, { message_id, abort: true });
    await session.ended(second.run);
    const third = await again(session, 'locate');
    await close(session, { abort: true });
    await session.ended(third.run);
    return session;
  }),
};

const pageTools: Scenario = {
  name: 'page-tools',
  options,
  play: played(async (client, runtime) => {
    const first = await waiting(runtime, 'locate, locate');
    const { session, run } = first;
    const give = (call: string, given: { output: unknown } | { error: string }) =>
      client.giveOutput('ada', session.id, call, given);
    await give(first.call, { output: { place: CANARY } });
    const { answer_id: answer } = await session.run(run);
    const second = await eventually(async () => {
      const open = (await session.parts(answer)).find(({ state }) => state === 'input-available');
      if (open === undefined || (await session.run(run)).state !== 'waiting') throw new Error('it does not wait again');
      return String(open['toolCallId']);
    });
    await give(second, { error: CANARY });
    await session.ended(run);
    // Nobody answers.
    await session.ended(await session.send('hurry'));
    return session;
  }),
};

const continueAsNewWaiting: Scenario = {
  name: 'continue-as-new-waiting',
  options: { ...options, settings: { continueAsNewEvents: 30 } },
  play: played(async (client, runtime) => {
    const first = await waiting(runtime, 'pay 5');
    const { session } = first;
    const { runId } = await session.handle.describe();
    await eventually(async () => {
      await refused(session.command(updates.answer, { tool_call_id: newId('call'), decision: 'once' }));
      if ((await session.handle.describe()).runId === runId) throw new Error('it has not continued as new');
    });
    await answered(client, first, 'once');
    return session;
  }),
};

export const waits = [approvals, abortWhileWaiting, pageTools, continueAsNewWaiting];
