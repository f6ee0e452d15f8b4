// Calls of subagents that a page carries out: at the sessions above them.
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls, type UIMessage } from 'ai';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { eventsOf, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { subagentAgents } from './agents.ts';
import { startWithHost } from './host.ts';
import { childrenOf, play } from './kit.ts';

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  ({ runtime, host } = await startWithHost(subagentAgents, ['owner']));
  ada = host.as('ada');
});

interface Asked {
  session_id: string;
  message_id: string;
  tool_call_id: string;
}

interface Delegation {
  tool?: string;
  background?: boolean;
  deeper?: boolean;
  /** Until then the subagent does not go on. */
  held?: Gate;
}

/** A user's session in which a subagent, or one of that, calls a tool of the page. */
async function delegating({ tool = 'locate', background = false, deeper = false, held }: Delegation = {}) {
  const ask = (agent: string, prompt: string) => callTool('call_1', 'task', { agent, prompt, background });
  const finds = [
    [callTool('call_1', tool, {})],
    async function* found() {
      await held?.pass();
      yield say('It is found.');
    },
  ];
  runtime.model.script(
    play({
      Parent: [[deeper ? ask('payer', 'Child go') : ask('finder', 'Child go')], [say('It works.')], [say('Thanks.')]],
      Child: deeper
        ? [[callTool('call_1', 'task', { agent: 'finder', prompt: 'Grandchild go' })], [say('Well.')]]
        : finds,
      Grandchild: finds,
    }),
  );
  const { body } = await ada.post('/api/sessions', { agent: 'owner' });
  const session = TestSession.of(runtime, body.session.session_id as string);
  await ada.post(`/api/sessions/${session.id}/messages`, { text: 'Parent go' });
  const [child] = await childrenOf(runtime, session.id);
  return { session, child: child! };
}

/** The same, once it waits for the page. */
async function waiting(how: Delegation = {}) {
  const { session, child } = await delegating(how);
  return { session, child, asked: await waitsFor(session) };
}

/** The only call below that a session shows, once it does. */
function waitsFor(session: TestSession): Promise<Asked> {
  return eventually(async () => {
    const { body } = await ada.get(`/api/sessions/${session.id}/status`);
    expect(body).toMatchObject({ state: 'waiting', questions: [{ for: 'output' }] });
    return (body as { questions: Asked[] }).questions[0]!;
  });
}

const give = ({ id }: TestSession, { tool_call_id }: Pick<Asked, 'tool_call_id'>, body: object, caller = ada) =>
  caller.post(`/api/sessions/${id}/tool-outputs/${tool_call_id}`, body);
const here = { output: { place: 'here' } };

async function callOf(session: TestSession) {
  const { answer_id: id } = await session.run(1);
  return (await session.parts(id)).find(({ type }) => type.startsWith('tool-'));
}

it('H14 P5 is shown by the parent, whose page gives the output there: once, whoever gives it', async () => {
  const held = new Gate();
  onTestFinished(() => held.open());
  const { session, child, asked } = await waiting({ held });
  const { message_id, answer_id } = await child.run(1);
  const shown = { session_id: child.id, agent: 'finder', message_id: answer_id, tool: 'locate', background: false };
  expect(asked).toEqual({ ...shown, tool_call_id: asked.tool_call_id, for: 'output' });
  const reading = new AbortController();
  const stream = await ada.fetch(`/api/chat/${session.id}/stream`, { signal: reading.signal });
  const states: unknown[] = [];
  for await (const { data } of eventsOf(stream)) {
    const chunk = data as { type: string; data?: { state: string; questions?: unknown } };
    if (chunk.type !== 'data-status') continue;
    states.push([chunk.data!.state, chunk.data!.questions]);
    if (chunk.data!.questions === undefined) break;
    expect((await give(session, asked, here, host.as('eve'))).status).toBe(404);
    const taken = await give(session, asked, here);
    const run = { session_id: child.id, run_seq: 1, message_id };
    expect(taken).toMatchObject({ status: 200, body: { message_id: answer_id, run_seq: null, child: run } });
  }
  held.open();
  reading.abort();
  expect(states).toEqual([
    ['waiting', [asked]],
    ['busy', undefined],
  ]);
  expect((await session.ended(1)).state).toBe('finished');
  expect(await callOf(child)).toMatchObject({ state: 'output-available', output: { place: 'here' } });
  expect(await callOf(session)).toMatchObject({ output: { session_id: child.id, text: 'It is found.' } });
  const again = { message_id: answer_id, run_seq: 1, child: null };
  expect(await give(child, asked, here)).toMatchObject({ status: 200, body: again });
  for (const each of [session, child]) {
    const other = await give(each, asked, { output: { place: 'there' } });
    expect(other).toMatchObject({ status: 409, body: { code: 'NotWaiting' } });
  }
  expect((await ada.get(`/api/sessions/${session.id}/status`)).body).toEqual({ state: 'idle' });
});

it('H14 P5 of a grandchild is given in any session above it, also while workflows are gone', async () => {
  const { session, child, asked } = await waiting({ deeper: true });
  expect(await waitsFor(child)).toEqual(asked);
  const [grandchild] = await childrenOf(runtime, child.id);
  expect(asked.session_id).toBe(grandchild!.id);
  await eventually(() => grandchild!.handle.terminate());
  expect((await give(child, asked, here)).status).toBe(200);
  expect((await session.ended(1)).state).toBe('finished');
  expect(await callOf(grandchild!)).toMatchObject({ output: { place: 'here' } });
});

it('H14 P5 of one in the background: its idle parent shows it, and its followers hear that it is over', async () => {
  const { session, child, asked } = await waiting({ background: true });
  expect(asked).toMatchObject({ background: true });
  await session.ended(1);
  const reading = new AbortController();
  const events = await ada.fetch(`/api/sessions/${session.id}/events`, { signal: reading.signal });
  const states: string[] = [];
  for await (const { event, data } of eventsOf(events)) {
    if (event !== 'status') continue;
    states.push((data as { state: string }).state);
    if (states.length > 1) break;
    await give(session, asked, { error: 'nobody knows' });
  }
  reading.abort();
  expect(states[0]).toBe('waiting');
  expect(states[1]).not.toBe('waiting');
  await child.ended(1);
  expect(await callOf(child)).toMatchObject({ state: 'output-error', errorText: 'nobody knows' });
  await eventually(async () => expect((await session.run(2))?.state).toBe('finished'));
});

it('P5 H14 that no page carries out in time ends as an error, and the parent goes on', async () => {
  const { session, child } = await delegating({ tool: 'hurry' });
  expect((await session.ended(1)).state).toBe('finished');
  const call = await callOf(child);
  expect(call).toMatchObject({ state: 'output-error', errorText: expect.stringContaining('in time') as string });
  expect((await give(session, { tool_call_id: String(call!['toolCallId']) }, here)).status).toBe(409);
});

it('P4 an abort of the parent ends it, and its output is refused there and here', async () => {
  const { session, child, asked } = await waiting();
  await ada.post(`/api/sessions/${session.id}/abort`, {});
  expect((await child.ended(1)).state).toBe('aborted');
  for (const each of [session, child]) expect((await give(each, asked, here)).status).toBe(409);
  await session.ended(1);
});

it('H8 H14 a page that shows the subagent with useChat gives its output with addToolOutput', async () => {
  const { session, child, asked } = await waiting();
  const { body } = await ada.get(`/api/sessions/${child.id}/messages`);
  const chat = new Chat<UIMessage>({
    id: child.id,
    messages: body.items as UIMessage[],
    transport: new DefaultChatTransport({ api: `${host.url}/api/chat`, headers: { 'x-perdure-user': 'ada' } }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
  });
  await chat.addToolOutput({ tool: 'locate', toolCallId: asked.tool_call_id, output: { place: 'home' } });
  await eventually(() => {
    expect(chat.status).toBe('ready');
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({ type: 'text', text: 'It is found.', state: 'done' });
  });
  expect((await session.ended(1)).state).toBe('finished');
  expect(await callOf(child)).toMatchObject({ output: { place: 'home' } });
});
