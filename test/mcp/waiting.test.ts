// What the MCP tools of agents report of turns that wait, are aborted, fail or queue.
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { beforeAll, describe, expect, it } from 'vitest';
import { askingAgent, askingModel } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { fail, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { askAgent, type AskInput, type AskOptions, mcpClient } from './asking.ts';

let runtime: TestRuntime;
let host: TestHost;
let ada: Client;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [askingAgent] });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces, agents: ['asking'] });
  ada = await mcpClient(host, 'ada');
});

const ask = (input: AskInput, options?: AskOptions) => askAgent(ada, 'ask_asking', input, options);
const api = () => host.as('ada');

/** Asks, and loses the connection once the message was accepted. Returns its session and its id. */
async function lost(input: AskInput): Promise<{ session: string; message_id: string }> {
  const client = await mcpClient(host, 'ada');
  const session = Promise.withResolvers<string>();
  const message = Promise.withResolvers<string>();
  const onprogress = ({ message: news = '' }) => {
    const [what, id = ''] = news.split(' ');
    if (what === 'session') session.resolve(id);
    if (what === 'message') message.resolve(id);
  };
  const call = askAgent(client, 'ask_asking', input, { onprogress }).catch((error: unknown) => error);
  const ids = { session: await session.promise, message_id: await message.promise };
  await client.close();
  await call;
  return ids;
}

/** A model that answers each message with its text; the answer to `first` waits for the gate. */
function answeringAfter(gate: Gate, first: string): void {
  runtime.model.script(async (request) => {
    const text = lastUserText(request);
    if (text === first) await gate.pass();
    return [say(`You said ${text}.`)];
  });
}

describe('a turn that waits', () => {
  it('H15 for an approval is reported with the call; once that is answered, its answer is read', async () => {
    runtime.model.script(askingModel);
    const { answer, text } = await ask({ message: 'pay 5' });
    const { session_id: session, waiting_for } = answer;
    expect(answer).toMatchObject({ state: 'waiting', waiting_for: { for: 'approval', tool: 'pay' } });
    expect(text).toBe('');
    expect((await ask({ session })).answer).toMatchObject({ state: 'waiting', waiting_for });
    const tool_call_id = waiting_for?.for === 'approval' ? waiting_for.tool_call_id : '';
    await api().post(`/api/sessions/${session}/answer`, { tool_call_id, decision: 'once' });
    const { answer: read } = await ask({ session });
    expect(read).toMatchObject({ state: 'finished', text: expect.stringContaining('paid') });
    expect(read).not.toHaveProperty('waiting_for');
  });

  it('H15 for the page is reported with the call', async () => {
    runtime.model.script(askingModel);
    const { answer, isError } = await ask({ message: 'locate' });
    expect(isError).toBeFalsy();
    expect(answer).toMatchObject({ state: 'waiting', waiting_for: { for: 'output', tool: 'locate' } });
  });

  it('H15 behind one that failed is reported as waiting for a message', async () => {
    const gate = new Gate();
    runtime.model.script(async (request) => {
      if (lastUserText(request) !== 'first') return [say('fine')];
      await gate.pass();
      return [fail(401)];
    });
    const { session } = await lost({ message: 'first' });
    await gate.reached;
    const second = ask({ session, message: 'second' });
    await eventually(async () => {
      const { rows } = await runtime.db.query('SELECT FROM chat_runs WHERE session_id = $1', [session]);
      expect(rows).toHaveLength(2);
    });
    gate.open();
    const { answer } = await second;
    expect(answer).toMatchObject({ state: 'waiting', waiting_for: { for: 'message' } });
    expect(answer.error).toContain('an earlier message of this session failed');
  });
});

describe('a turn that is over', () => {
  it('H15 as aborted is reported as that, at once and when it is read again', async () => {
    const gate = new Gate();
    answeringAfter(gate, 'slow');
    const session = 'to-abort';
    const call = ask({ session, message: 'slow' });
    await gate.reached;
    await api().post(`/api/sessions/${session}/abort`);
    gate.open();
    expect(await call).toMatchObject({ answer: { state: 'aborted' } });
    expect((await ask({ session })).answer.state).toBe('aborted');
  });

  it('H15 as failed is reported with the reason, also when it is read again', async () => {
    runtime.model.script(() => [fail(401)]);
    const session = 'to-fail';
    const { answer } = await ask({ session, message: 'hello' });
    expect(answer).toMatchObject({ state: 'error', error: expect.stringMatching(/.{10}/) });
    expect(await ask({ session })).toMatchObject({ isError: true, answer });
  });
});

describe('a lost call', () => {
  it('H15 is answered with the answer to its own message, not with that of one ahead of it', async () => {
    const gate = new Gate();
    answeringAfter(gate, 'first');
    const first = await lost({ message: 'first' });
    await gate.reached;
    const second = await lost({ session: first.session, message: 'second' });
    const { session } = first;
    const newest = ask({ session });
    const older = ask(first);
    const own = ask(second);
    gate.open();
    expect((await newest).answer).toMatchObject({ text: 'You said second.', message_id: second.message_id });
    expect((await own).answer).toEqual((await newest).answer);
    expect((await older).answer).toMatchObject({ text: 'You said first.', message_id: first.message_id });
  });

  it('H15 that is made again with the id of its message does not ask twice', async () => {
    answeringAfter(new Gate(), 'nothing');
    const before = runtime.model.requests.length;
    const call = { session: 'once', message: 'pay', message_id: 'my-message' };
    const { answer } = await ask(call);
    expect(answer).toMatchObject({ message_id: 'my-message', text: 'You said pay.' });
    expect((await ask(call)).answer).toEqual(answer);
    expect(runtime.model.requests).toHaveLength(before + 1);
    expect(await ask({ ...call, message: 'another' })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^MessageConflict: /),
    });
  });

  it('H15 with the id of a message that the session does not have is refused', async () => {
    answeringAfter(new Gate(), 'nothing');
    const { session_id: session } = (await ask({ message: 'hello' })).answer;
    expect(await ask({ session, message_id: 'of-nobody' })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^MessageNotFound: /),
    });
  });
});

it('H15 a message that is refused leaves no session', async () => {
  const sessions = async () => (await api().get('/api/sessions')).body.items.length as number;
  const before = await sessions();
  const refused = await ask({ message: 'x'.repeat(300_000) });
  expect(refused).toMatchObject({ isError: true, text: expect.stringMatching(/^TooLarge: /) });
  expect(await sessions()).toBe(before);
});
