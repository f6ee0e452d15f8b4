// Turns of an agent with MCP servers, on a worker with its own rows and workflows.
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { beforeAll, expect, it } from 'vitest';
import { createClient } from '../../client/client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { refusing, startStore, type TestStore } from '../../tools/test-kit/bucket.ts';
import { tablesWith } from '../../tools/test-kit/canary.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import type { ChatRequest, ModelScript } from '../../tools/test-kit/model-server.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { agentWith } from './client.ts';
import { type HttpServer, startHttpServer } from './http-server.ts';

const SECRET = 'token-of-the-server';
let server: HttpServer;
let store: TestStore;
let runtime: TestRuntime;
beforeAll(async () => {
  server = await startHttpServer();
  afterFile(() => server.close());
  const headers = { authorization: `Bearer ${SECRET}`, 'x-key': 'only-in-a-header' };
  const agent = agentWith([
    { name: 'web', transport: { type: 'http', url: server.url, headers } },
    { name: 'gone', transport: { type: 'http', url: 'http://127.0.0.1:9/mcp?key=in-the-query' } },
  ]);
  store = await startStore();
  afterFile(store.close);
  runtime = await startRuntime({ agents: [agent], s3: store.s3 });
});

/** A turn; the script's index counts its requests. */
async function turn(script: ModelScript, session?: TestSession) {
  const first = runtime.model.requests.length;
  runtime.model.script((request, index) => script(request, index - first));
  const used = session ?? (await TestSession.open(runtime, { agent: 'with-mcp' }));
  const run = await used.ended(await used.send('go'));
  return { session: used, run, parts: await used.parts(run.answer_id) };
}

/** The descriptions that a request gives its tools. */
function described({ tools = [] }: ChatRequest): Record<string, string | undefined> {
  return Object.fromEntries(tools.map(({ function: { name, description } }) => [name, description]));
}

it('H15 P5 the model calls a server’s tool; what its headers hold is in no row', async () => {
  const { run, parts } = await turn((_request, index) =>
    index === 0 ? [callTool('x', 'web_look', { at: SECRET })] : [say('done')],
  );
  expect(run.state).toBe('finished');
  expect(server.notes).toEqual([`look:${SECRET}`]);
  expect(parts[1]).toMatchObject({
    type: 'tool-web_look',
    state: 'output-available',
    output: 'There is a tree at [redacted].',
  });
  expect(described(runtime.model.requests[0]!.body)).toMatchObject({ web_look: 'Looks around.' });
  const said = runtime.logs.map((line) => JSON.stringify(line));
  expect(said.filter((line) => /token-of|in-the-query|only-in-a-header/.test(line))).toEqual([]);
  expect(await tablesWith(runtime.db, 'only-in-a-header')).toEqual([]);
});

it('H15 invalid input never reaches the server', async () => {
  const before = server.notes.length;
  const { parts } = await turn((_request, index) =>
    index === 0 ? [callTool('x', 'web_add', { a: 'one' })] : [say('done')],
  );
  expect(parts[1]).toMatchObject({
    state: 'output-error',
    errorText: expect.stringContaining('The input of "web_add" is not right'),
  });
  expect(server.notes).toHaveLength(before);
});

it('H15 a picture in a result is an attachment of the session, and of its branches', async () => {
  const { session, parts } = await turn((_request, index) =>
    index === 0 ? [callTool('x', 'web_show_all', {})] : [say('done')],
  );
  const { content } = parts[1]!['output'] as { content: { url?: string }[] };
  expect(content[1]).toEqual({ type: 'file', mediaType: 'image/png', url: expect.stringMatching(/^perdure:att_/) });
  const client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal, s3: store.s3 });
  afterFile(() => client.end());
  const file = await client.attachment(session.user, session.id, content[1]!.url!.slice('perdure:'.length));
  const pieces: Uint8Array[] = [];
  for await (const piece of file.content) pieces.push(piece);
  expect(Buffer.concat(pieces).toString('base64')).toBe(PIXEL);
  const { items } = await client.reads.messages(session.user, session.id);
  const from_message_id = items.at(-1)!.id;
  const { session: copy } = await client.commands.branch(session.user, session.id, { from_message_id });
  const copied = await client.attachment(session.user, copy.session_id, content[1]!.url!.slice('perdure:'.length));
  expect(copied.media_type).toBe('image/png');
});

it('H15 T10 a call whose picture cannot be stored has its other output', async () => {
  store.behave(refusing(503));
  const { parts } = await turn((_request, index) =>
    index === 0 ? [callTool('x', 'web_show_all', {})] : [say('done')],
  );
  store.behave();
  expect(parts[1]!['output']).toMatchObject({
    content: [
      { type: 'text', text: 'two things' },
      { type: 'file', mediaType: 'image/png', note: 'not kept: it could not be stored' },
      { type: 'resource', text: '# One' },
      { type: 'resource_link' },
    ],
  });
});

it('H15 a file in a result keeps its name, without what Postgres cannot store', async () => {
  const { session, parts } = await turn((_request, index) =>
    index === 0 ? [callTool('x', 'web_odd_file', {})] : [say('done')],
  );
  expect(parts[1]).toMatchObject({ state: 'output-available', output: { content: [{ type: 'file' }] } });
  const sql = 'SELECT filename FROM attachments WHERE session_id = $1';
  expect((await runtime.db.query(sql, [session.id])).rows).toEqual([{ filename: 'oddname.png' }]);
});

it('H15 an abort of the turn cancels the call at the server', async () => {
  runtime.model.script(() => [callTool('x', 'web_wait', {})]);
  const session = await TestSession.open(runtime, { agent: 'with-mcp' });
  const seq = await session.send('go');
  await eventually(() => expect(server.notes).toContain('wait'));
  const client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
  await client.commands.abort(session.user, session.id);
  expect((await session.ended(seq)).state).toBe('aborted');
  await eventually(() => expect(server.notes).toContain('cancelled'));
});

it('H15 a list that changes in the middle of a turn holds from the next one', async () => {
  const gate = new Gate();
  const requests: Record<string, string | undefined>[] = [];
  const changed = turn(async (request, index) => {
    requests.push(described(request));
    if (index > 0) return [say('done')];
    await gate.pass();
    return [callTool('x', 'web_look', { at: 'home' })];
  });
  await gate.reached;
  const newest: McpServer = server.servers.at(-1)!;
  newest.registerTool('more', { description: 'More.' }, () => ({ content: [] }));
  await eventually(() => expect(runtime.logs.some(({ msg }) => msg.includes('another list of tools'))).toBe(true));
  gate.open();
  const { session, parts } = await changed;
  expect(parts[1]).toMatchObject({ state: 'output-available' });
  expect(requests[1]).toEqual(requests[0]);
  expect(requests[1]).not.toHaveProperty('web_more');
  const next: Record<string, string | undefined>[] = [];
  await eventually(async () => {
    await turn((request) => {
      next.push(described(request));
      return [say('done')];
    }, session);
    expect(next.at(-1)).toHaveProperty('web_more');
  });
});

it('H15 hosts say which servers a worker cannot reach', async () => {
  const client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
  await eventually(async () => expect((await client.health()).mcp).toEqual({ away: ['gone'] }));
  expect(await runtime.registry.getSingleMetricAsString('perdure_mcp_servers_away')).toContain(
    'perdure_mcp_servers_away 1',
  );
  const { parts } = await turn((_request, index) => (index === 0 ? [callTool('x', 'gone_tool', {})] : [say('done')]));
  expect(parts[1]).toMatchObject({ state: 'output-error' });
});
