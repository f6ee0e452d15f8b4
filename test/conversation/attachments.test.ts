// Attachments in a conversation that is compacted.
import { beforeAll, expect, it } from 'vitest';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { newId } from '../../domain/ids.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { agent, CATALOG, messages, requests, talking, tell } from './kit.ts';

const PNG = Buffer.from(PIXEL, 'base64');
const FIGURES = `canary ${'data '.repeat(400)}end`;

let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  runtime = await startRuntime({
    defaultModel: 'openai/test',
    catalog: CATALOG,
    agents: [agent('by-hand', { auto: false, tail_turns: 1 })],
    script: talking(),
  });
  client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
});

async function* of(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

it('X5 T10 the summarizer reads attached texts and is told of other files, and their tokens count', async () => {
  const session = await TestSession.open(runtime, { agent: 'by-hand' });
  const [text, image] = [
    await client.attach('ada', session.id, { content: of(Buffer.from(FIGURES)), filename: 'figures.csv' }),
    await client.attach('ada', session.id, { content: of(PNG), filename: 'dot.png' }),
  ];
  const files = [text, image].map(({ url, media_type: mediaType }) => ({ type: 'file' as const, mediaType, url }));
  const { run_seq } = await client.submit('ada', session.id, {
    id: newId('msg'),
    parts: [{ type: 'text', text: 'look' }, ...files],
  });
  expect((await session.ended(run_seq)).state).toBe('finished');
  await tell(session, ['two']);
  const from = runtime.model.requests.length;
  const { run_seq: compacting } = await session.command(updates.compact);
  expect((await session.ended(compacting)).state).toBe('finished');
  const [asked, ...more] = requests(runtime, 'summary', from);
  expect(more).toEqual([]);
  const history = asked!.messages.map(({ content }) => content as string).join('\n');
  expect(history).toContain(`[file "figures.csv" of type text/plain]\n${FIGURES}`);
  expect(history).toContain('[file dot.png of type image/png]');
  expect(history).not.toContain(PNG.toString('base64').slice(0, 40));
  const summary = (await messages(runtime, session)).find(({ hidden }) => !hidden);
  const { freed_tokens: freed } = summary!.metadata['compaction'] as { freed_tokens: number };
  expect(freed).toBeGreaterThan(400);
});
