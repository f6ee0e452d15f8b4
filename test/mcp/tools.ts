// The tools of the MCP servers of these tests, made with the official SDK.
import { appendFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { z } from 'zod';
import { PIXEL } from '../../tools/test-kit/pixel.ts';

export interface ServerOptions {
  /** Notes what happens, one word a line. */
  note(line: string): void;
  /** The description of `look`. */
  look?: string;
  /** Ends the server at once, in mid-call. */
  die?(): void;
  /** Sends without end: a message, or requests whose answers it does not read. */
  flood?(kind: string): Promise<void>;
}

/** Notes lines in a file, for a server in a process of its own. */
export function noteIn(file: string): ServerOptions['note'] {
  mkdirSync(path.dirname(file), { recursive: true });
  return (line) => appendFileSync(file, `${line}\n`);
}

/** A server with a tool for each kind of behaviour. */
export function makeServer({
  note,
  look = 'Looks around.',
  die = () => {},
  flood = () => Promise.resolve(),
}: ServerOptions): McpServer {
  const server = new McpServer({ name: 'for-tests', version: '1.0.0' });
  const text = (of: string) => ({ content: [{ type: 'text' as const, text: of }] });
  const readOnly = { annotations: { readOnlyHint: true } };
  server.registerTool('look', { description: look, ...readOnly, inputSchema: { at: z.string() } }, ({ at }) => {
    note(`look:${at}`);
    return text(`There is a tree at ${at}.`);
  });
  server.registerTool(
    'add',
    { description: 'Adds.', inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    ({ a, b }) => {
      note('add');
      return { ...text(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } };
    },
  );
  server.registerTool('fail', { description: 'Fails.' }, () => ({ ...text('there is no tea'), isError: true }));
  server.registerTool('show.all', { description: 'Shows a picture and a page.' }, () => ({
    content: [
      { type: 'text', text: 'two things' },
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'note://1', mimeType: 'text/markdown', text: '# One' } },
      { type: 'resource_link', uri: 'note://2', name: 'two' },
    ],
  }));
  server.registerTool(
    'wait',
    { description: 'Waits until it is cancelled.' },
    async ({ signal, _meta, sendNotification }) => {
      note('wait');
      const { progressToken } = _meta ?? {};
      if (progressToken !== undefined) {
        const params = { progressToken, progress: 1, total: 2, message: 'half' };
        await sendNotification({ method: 'notifications/progress', params });
      }
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      note('cancelled');
      return text('cancelled');
    },
  );
  server.registerTool('die', { description: 'Dies.' }, () => {
    note('die');
    die();
    return new Promise(() => {});
  });
  server.registerTool(
    'die_once',
    { description: 'Dies the first time.', annotations: { idempotentHint: true } },
    () => {
      note('die_once');
      die();
      return text('alive');
    },
  );
  for (const name of ['destroy', 'erase']) {
    server.registerTool(name, { description: 'Destroys.', annotations: { destructiveHint: true } }, () => {
      note(name);
      return text('gone');
    });
  }
  // As servers do that ask without looking at the client's capabilities.
  Object.assign(server.server, { assertCapabilityForMethod: () => {} });
  const asking = async (method: string, params: object) =>
    text(JSON.stringify(await server.server.request({ method, params } as never, z.any())));
  server.registerTool('ask', { description: 'Asks the user.' }, () =>
    asking('elicitation/create', { message: 'Which?', requestedSchema: { type: 'object', properties: {} } }),
  );
  server.registerTool('sample', { description: 'Asks a model.' }, () =>
    asking('sampling/createMessage', { messages: [], maxTokens: 10 }),
  );
  server.registerTool('flood', { description: 'Floods.', inputSchema: { kind: z.string() } }, async ({ kind }) => {
    note('flood');
    await flood(kind);
    return text('done');
  });
  server.registerTool('report', { description: 'Reports.' }, async ({ _meta, sendNotification }) => {
    const { progressToken = '' } = _meta ?? {};
    for (let progress = 1; progress <= 10_000; progress += 1) {
      const params = { progressToken, progress, message: 'x'.repeat(2_000) };
      await sendNotification({ method: 'notifications/progress', params });
    }
    return text('done');
  });
  const file = (uri: string) => ({ type: 'resource' as const, resource: { uri, mimeType: 'image/png', blob: PIXEL } });
  server.registerTool('odd_file', { description: 'A file with an odd name.' }, () => ({
    content: [file('file:///odd\0name.png')],
  }));
  server.registerTool('files', { description: 'Many files.' }, () => ({
    content: Array.from({ length: 40 }, (_, n) => file(`file:///${n}.png`)),
  }));
  server.registerTool('env', { description: 'Tells its environment.' }, () => text(JSON.stringify(process.env)));
  return server;
}
