// An agent that asks before it pays, and whose pages know the place: its runs wait. What it pays is appended to a file.
import { defineAgent } from '../../agent/definition/define.ts';
import { hurry, locate } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { type Servers, TestSession } from '../../tools/test-kit/session.ts';
import faultAgent from './agent.ts';

/** Asks before it pays; to pay 13 is denied. Its model is `askingModel`. */
export const payingAgent = defineAgent({
  ...faultAgent,
  id: 'paying',
  tools: [...faultAgent.tools, locate, hurry],
  permissions: [
    { permission: 'pay', pattern: '*', action: 'ask' },
    { permission: 'pay', pattern: '13', action: 'deny' },
  ],
});

/** A session with a run that waits. */
export interface Waiting {
  session: TestSession;
  run: number;
  call: string;
}

/** Sends a message to a new session, and waits until its run waits. */
export async function waiting(servers: Servers, text: string): Promise<Waiting> {
  const session = await TestSession.open(servers, { agent: payingAgent.id });
  const run = await session.send(text);
  return { session, run, call: await untilWaiting(session, run) };
}

/** The call that a run waits for, once it does. */
export async function untilWaiting(session: TestSession, run: number, timeout = 40_000): Promise<string> {
  const isWaiting = async () => {
    const { state } = await session.run(run);
    if (state !== 'waiting') throw new Error(`run ${run} is ${state}`);
  };
  await eventually(isWaiting, { timeout });
  return String((await toolPart(session, run))?.['toolCallId']);
}

/** The first tool call of a run. */
export async function toolPart(session: TestSession, run: number) {
  const { answer_id: answer } = await session.run(run);
  return (await session.parts(answer)).find(({ type }) => type.startsWith('tool-'));
}
