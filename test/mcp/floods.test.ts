// Servers that send without end: memory stays bounded, the call ends, and the connection works again.
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import path from 'node:path';
import { expect, it } from 'vitest';
import type { McpServerDefinition } from '../../agent/definition/mcp-server-definition.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { agentWith, Client, stdioServer } from './client.ts';
import { type HttpOptions, type RpcBody, startHttpServer } from './http-server.ts';

const db = patientPool(await freshDatabase());
afterFile(() => db.end());

async function started(server: McpServerDefinition): Promise<Client> {
  const client = new Client(db, [agentWith([server])]);
  await client.mcp.start();
  return client;
}

async function overHttp(instead: NonNullable<HttpOptions['instead']>) {
  const server = await startHttpServer({ instead });
  afterFile(() => server.close());
  return { server, client: await started({ name: 'web', transport: { type: 'http', url: server.url } }) };
}

/** Writes one message without end, as fast as it is read. */
async function endless(response: ServerResponse, contentType: string, beginning: string): Promise<void> {
  response.writeHead(200, { 'content-type': contentType }).write(beginning);
  while (!response.destroyed) {
    if (!response.write('x'.repeat(65_536))) await Promise.race([once(response, 'drain'), once(response, 'close')]);
  }
}

const isFlood = (body: RpcBody | undefined) =>
  body?.method === 'tools/call' && JSON.stringify(body).includes('"flood"');

it.each(['message', 'requests'])(
  'H15 a process that sends %s without end is stopped, and started again',
  async (kind) => {
    const client = await started(stdioServer(path.join(scratchDir(), 'notes')));
    await expect(client.call('local_flood', { kind })).rejects.toThrow('the MCP server was lost while this ran');
    const flooded = client.logs.filter(({ msg }) => msg.includes('sends too much'));
    expect(flooded).toEqual([expect.objectContaining({ server: 'local' })]);
    expect(await client.call('local_look', { at: 'home' })).toContain('tree');
  },
);

it.each([
  ['text/event-stream', 'data: '],
  ['application/json', '{"x": "'],
])('H15 an answer over HTTP without end, as %s, ends the call', async (contentType, beginning) => {
  const { client } = await overHttp((body, response) => {
    if (!isFlood(body)) return false;
    void endless(response, contentType, beginning);
    return true;
  });
  await expect(client.call('web_flood', { kind: 'message' })).rejects.toThrow(
    'the MCP server answered with a message of more than 16777216 bytes',
  );
  expect(await client.call('web_look', { at: 'home' })).toContain('tree');
});

it('H15 many messages in one stream are no message that is too large', async () => {
  const { client } = await overHttp(() => false);
  const reports: { message: string }[] = [];
  const progress = (data: unknown) => void reports.push(data as { message: string });
  expect(await client.call('web_report', {}, { progress })).toBe('done');
  expect(reports).toHaveLength(10_000);
  expect(Math.max(...reports.map(({ message }) => message.length))).toBe(1_000);
});

it('H15 a list of tools without end is given up', async () => {
  const { client } = await overHttp((body, response) => {
    if (body?.method !== 'tools/list') return false;
    const tools = Array.from({ length: 300 }, (_, n) => ({ name: `t${n}`, inputSchema: { type: 'object' } }));
    const answer = { jsonrpc: '2.0', id: body.id, result: { tools, nextCursor: 'more' } };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    return true;
  });
  expect(client.names).toEqual([]);
  expect(client.logs).toContainEqual(
    expect.objectContaining({ server: 'web', reason: expect.stringContaining('more than 1000 tools') }),
  );
});

it('H15 a server that says all the time that its list changes is not asked each time', async () => {
  let lists = 0;
  const { client, server } = await overHttp((body) => {
    if (body?.method === 'tools/list') lists += 1;
    return false;
  });
  const newest = server.servers.at(-1)!;
  for (let n = 0; n < 1_000; n += 1) newest.sendToolListChanged();
  newest.registerTool('more', { description: 'More.' }, () => ({ content: [] }));
  await eventually(() => expect(client.names).toContain('web_more'));
  expect(lists).toBeLessThan(20);
});

it('H15 of a result with many files only some are kept', async () => {
  let kept = 0;
  const server = await startHttpServer();
  afterFile(() => server.close());
  const client = new Client(db, [agentWith([{ name: 'web', transport: { type: 'http', url: server.url } }])], {
    keepFile: (_session, { mediaType }) => {
      kept += 1;
      return Promise.resolve({ mediaType, url: 'perdure:att_x' });
    },
  });
  await client.mcp.start();
  const { content } = (await client.call('web_files')) as { content: { url?: string }[] };
  expect(kept).toBe(32);
  expect(content).toHaveLength(40);
  expect(content.filter(({ url }) => url !== undefined)).toHaveLength(32);
});
