// Trees of subagents for faults: a model that can be asked again, and what must hold of a tree when all is over.
import { expect } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import type { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import type { ChatRequest } from '../../tools/test-kit/model-server.ts';
import { type Servers, TestSession } from '../../tools/test-kit/session.ts';
import { children, childrenOf, roleOf, runOver, said } from '../subagents/kit.ts';
import { expectSound } from './sound.ts';

const task = (id: string, prompt: string, { agent = 'helper', background = false } = {}) =>
  callTool(id, 'task', { agent, prompt, background });

const CALLS: Readonly<Record<string, ModelAction[]>> = {
  Foreground: [task('call_1', 'Quick go')],
  Background: [task('call_1', 'Quick go', { background: true })],
  // Three sessions below it, the lowest at depth 2.
  Tree: [task('call_1', 'Slow go', { background: true }), task('call_2', 'Middle go')],
  Middle: [task('call_1', 'Slow go')],
  Deep: [task('call_1', 'Tree go')],
  Asking: [task('call_1', 'Payer go', { agent: 'payer' })],
  Payer: [callTool('call_1', 'pay', { amount: 5 })],
};

/** The number of messages that a parent has at its end, with the results of children in the background. */
const MESSAGES: Readonly<Record<string, number>> = { Foreground: 1, Background: 2, Tree: 2, Asking: 1 };

/**
 * What a model says, by the first word of a session's first message and by what the request has, because a request may be made again:
 * calls, then "Done."; children say "green", slow ones when the gate is open.
 */
export function treeModel(gate: Gate) {
  return async function* (request: ChatRequest): AsyncGenerator<ModelAction> {
    const role = roleOf(request);
    const calls = CALLS[role];
    if (calls !== undefined) {
      yield* request.messages.some((message) => message.role === 'tool') ? [say('Done.')] : calls;
      return;
    }
    if (role === 'Slow') {
      yield say('once ');
      await gate.pass();
    }
    yield say('green');
  };
}

/** All sessions below one, once it has children. */
async function below(servers: Servers, session: TestSession, depth = 0): Promise<TestSession[]> {
  const found = depth === 0 ? await childrenOf(servers, session.id) : await rowsBelow(servers, session);
  const deeper = await Promise.all(found.map((each) => below(servers, each, depth + 1)));
  return [...found, ...deeper.flat()];
}

async function rowsBelow(servers: Servers, { id }: TestSession): Promise<TestSession[]> {
  return (await children(servers, id)).map(({ child_id }) => TestSession.of(servers, child_id));
}

/** The sessions below one with a `Tree`, once both slow ones stream. */
export function whileStreaming(servers: Servers, session: TestSession): Promise<TestSession[]> {
  return eventually(async () => {
    const found = await below(servers, session);
    const texts = await Promise.all(
      found.map(async (each) => {
        const { answer_id } = await each.run(1);
        return (await each.parts(answer_id)).filter(({ type }) => type === 'text').length;
      }),
    );
    if (texts.filter((count) => count > 0).length < 2) throw new Error('they do not stream yet');
    return found;
  });
}

/** Expects that a parent and all below it are over: nothing is lost, and nothing happened twice. */
export async function expectOnce(servers: Servers, session: TestSession, role: string): Promise<void> {
  const runs = MESSAGES[role]!;
  for (let run = 1; run <= runs; run += 1) expect((await runOver(session, run)).state).toBe('finished');
  expect(await session.run(runs + 1)).toBeUndefined();
  const messages = await said(servers, session.id);
  expect(messages.map(({ metadata }) => metadata['origin'])).toEqual([undefined, ...Array(runs - 1).fill('task')]);
  for (const { text } of messages.slice(1)) expect(text).toMatch(/^Result of .*green$/s);
  for (const each of [session, ...(await below(servers, session))]) await expectEachCallOnce(servers, each);
}

/** Each call of a session has one child with one run, and one outcome. */
async function expectEachCallOnce(servers: Servers, session: TestSession): Promise<void> {
  const { answer_id } = await session.run(1);
  const calls = (await session.parts(answer_id)).filter(({ type }) => type === 'tool-task');
  const tasks = await children(servers, session.id);
  const { rows: opened } = await servers.db.query('SELECT FROM chat_sessions WHERE parent_id = $1', [session.id]);
  expect([tasks.length, opened.length]).toEqual([calls.length, calls.length]);
  for (const call of calls) {
    const own = tasks.filter(({ tool_call_id }) => tool_call_id === call['toolCallId']);
    expect(own).toHaveLength(1);
    const { child_id, background, delivered_at } = own[0]!;
    expect(delivered_at).not.toBeNull();
    const text = expect.stringMatching(/(?:green|Done\.)$/) as string;
    expect(call).toMatchObject({
      state: 'output-available',
      output: background ? { session_id: child_id } : { session_id: child_id, text },
    });
    const child = TestSession.of(servers, child_id);
    expect(await runOver(child, 1)).toMatchObject({ state: 'finished' });
    expect(await child.run(2)).toBeUndefined();
  }
  await expectSound(servers, session.id);
}
