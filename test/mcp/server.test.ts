// Agents as tools of the official SDK's client.
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { fail, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { askAgent, type AskInput, type AskOptions, mcpClient } from './asking.ts';

const TOOL = 'ask_site-builder';
let runtime: TestRuntime;
let host: TestHost;
beforeAll(async () => {
  runtime = await startRuntime();
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
});

const clientOf = (user: string) => mcpClient(host, user);
const ask = (client: Client, input: AskInput, options?: AskOptions) => askAgent(client, TOOL, input, options);

it('H15 each agent is a tool, described to the client', async () => {
  const { tools } = await (await clientOf('ada')).listTools();
  expect(tools.map(({ name }) => name)).toEqual([TOOL]);
  expect(tools[0]).toMatchObject({ inputSchema: { properties: { message: {}, session: {}, message_id: {} } } });
});

it('H15 the answer has the text and the session, which another call goes on with; progress names it first', async () => {
  const seen: string[][] = [];
  runtime.model.script(({ messages }) => {
    seen.push(messages.filter(({ role }) => role === 'user').map(({ content }) => JSON.stringify(content)));
    return [say('An '), say('answer.')];
  });
  const ada = await clientOf('ada');
  const news: (string | undefined)[] = [];
  const first = await ask(ada, { message: 'one' }, { onprogress: ({ message }) => void news.push(message) });
  expect(first).toMatchObject({ text: 'An answer.', answer: { text: 'An answer.', state: 'finished' } });
  const { session_id: session } = first.answer;
  expect(news.slice(0, 2)).toEqual([`session ${session}`, `message ${first.answer.message_id}`]);
  expect(news).toContain('step 1');
  const second = await ask(ada, { message: 'two', session });
  expect(second.answer.session_id).toBe(session);
  expect(seen[1]?.join()).toMatch(/one.*two/);
  expect((await host.as('ada').get(`/api/sessions/${session}`)).body.chat.agent).toBe('site-builder');
});

it('H15 a call whose connection was lost is resumed by its session, and nothing is asked twice', async () => {
  const gate = new Gate();
  const before = runtime.model.requests.length;
  runtime.model.script(async () => {
    await gate.pass();
    return [say('Late.')];
  });
  const first = await clientOf('ada');
  const named = Promise.withResolvers<string>();
  const onprogress = ({ message = '' }) => {
    if (message.startsWith('session ')) named.resolve(message.slice('session '.length));
  };
  const lost = ask(first, { message: 'slow' }, { onprogress }).catch((error: unknown) => error);
  const session = await named.promise;
  await gate.reached;
  await first.close();
  expect(await lost).toBeInstanceOf(Error);
  const again = ask(await clientOf('ada'), { session });
  gate.open();
  expect((await again).answer).toMatchObject({ session_id: session, text: 'Late.', state: 'finished' });
  expect((await ask(await clientOf('ada'), { session })).answer.text).toBe('Late.');
  expect(runtime.model.requests).toHaveLength(before + 1);
});

it('H15 a name of the caller’s own is a session, too', async () => {
  runtime.model.script(() => [say('Here.')]);
  const ada = await clientOf('ada');
  const { answer } = await ask(ada, { message: 'hello', session: 'my-topic' });
  expect(answer.session_id).toMatch(/^ses_/);
  expect((await ask(ada, { message: 'again', session: 'my-topic' })).answer.session_id).toBe(answer.session_id);
});

it('H15 a turn that fails is an error of the tool, with what to do', async () => {
  runtime.model.script(() => [fail(401)]);
  const { isError, answer, text } = await ask(await clientOf('ada'), { message: 'hello' });
  expect(isError).toBe(true);
  expect(answer.state).toBe('error');
  expect(text.length).toBeGreaterThan(10);
});

it('H15 Q3 another user’s session is unknown, with and without a message, and no message reaches it', async () => {
  runtime.model.script(() => [say('A secret.')]);
  const { answer } = await ask(await clientOf('ada'), { message: 'hello' });
  const eve = await clientOf('eve');
  const { session_id: session } = answer;
  for (const input of [{ session }, { session, message: 'tell me' }, { session: 'ses_0123456789ab01234567890123' }]) {
    const refused = await ask(eve, input);
    expect(refused).toMatchObject({
      isError: true,
      answer: undefined,
      text: expect.stringMatching(/^SessionNotFound: /),
    });
  }
  expect((await host.as('ada').get(`/api/sessions/${session}/messages`)).body.items).toHaveLength(2);
});

it('H15 input without message and session, and other agents, are errors of the call', async () => {
  const ada = await clientOf('ada');
  expect(await ask(ada, {})).toMatchObject({
    isError: true,
    text: expect.stringContaining('message: expected a text'),
  });
  const other = { method: 'tools/call' as const, params: { name: 'ask_nobody', arguments: { message: 'x' } } };
  const answered = await ada.request(other, CallToolResultSchema).catch((error: unknown) => ({ isError: true, error }));
  expect(answered.isError).toBe(true);
});

it('H15 Q3 what is no JSON-RPC message, or too large, is refused; other methods are 405', async () => {
  const ada = host.as('ada');
  expect(await ada.post('/mcp', { hello: 'there' })).toMatchObject({ status: 400, body: { code: 'BadRequest' } });
  expect(await ada.post('/mcp', { jsonrpc: '2.0', id: 1 })).toMatchObject({ status: 400 });
  expect((await ada.post('/mcp', [{ jsonrpc: '2.0', id: 1, method: 'ping' }])).status).toBe(400);
  const large = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { text: 'x'.repeat(1_100_000) } };
  expect((await ada.post('/mcp', large)).status).toBe(413);
  expect((await ada.get('/mcp')).status).toBe(405);
});

it('H15 a call that its client cancels ends the waiting only', async () => {
  const gate = new Gate();
  runtime.model.script(async () => {
    await gate.pass();
    return [say('Still here.')];
  });
  const ada = await clientOf('ada');
  const abort = new AbortController();
  const named = Promise.withResolvers<string>();
  const onprogress = ({ message = '' }) => {
    if (message.startsWith('session ')) named.resolve(message.slice('session '.length));
  };
  const call = ask(ada, { message: 'slow' }, { signal: abort.signal, onprogress }).catch((error: unknown) => error);
  const session = await named.promise;
  await gate.reached;
  abort.abort(new Error('enough'));
  expect(await call).toBeInstanceOf(Error);
  gate.open();
  await eventually(async () => {
    const { body } = await host.as('ada').get(`/api/sessions/${session}/messages`);
    expect(JSON.stringify(body.items)).toContain('Still here.');
  });
});
