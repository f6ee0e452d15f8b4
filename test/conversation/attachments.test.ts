// Attachments in a conversation that is compacted.
import { beforeAll, expect, it } from 'vitest';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { newId } from '../../domain/ids.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { forgetContents } from '../../tools/test-kit/attached.ts';
import { away, refusing, startStore, type TestStore } from '../../tools/test-kit/bucket.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { failContextLength } from '../../tools/test-kit/model-actions.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { agent, CATALOG, messages, requests, send, talking, tell, visible } from './kit.ts';

const PNG = Buffer.from(PIXEL, 'base64');
const FIGURES = `canary ${'data '.repeat(400)}end`;

let store: TestStore;
let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  store = await startStore();
  afterFile(store.close);
  runtime = await startRuntime({
    s3: store.s3,
    defaultModel: 'openai/test',
    catalog: CATALOG,
    agents: [agent('by-hand', { auto: false, tail_turns: 1 }), agent('talker')],
    script: talking(),
  });
  client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal, s3: store.s3 });
  afterFile(() => client.end());
});

async function* of(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

/** A session that has told a message with these attachments, and another one. */
async function told(id: string, ...contents: { content: Buffer; filename: string }[]): Promise<TestSession> {
  const session = await TestSession.open(runtime, { agent: id });
  const files = [];
  for (const { content, filename } of contents) {
    const { url, media_type: mediaType } = await client.attach('ada', session.id, { content: of(content), filename });
    files.push({ type: 'file' as const, mediaType, url });
  }
  const { run_seq } = await client.submit('ada', session.id, {
    id: newId('msg'),
    parts: [{ type: 'text', text: 'look' }, ...files],
  });
  expect((await session.ended(run_seq)).state).toBe('finished');
  await tell(session, ['two']);
  return session;
}

it('X5 T10 the summarizer reads attached texts and is told of other files, and their tokens count', async () => {
  const session = await told(
    'by-hand',
    { content: Buffer.from(FIGURES), filename: 'figures.csv' },
    { content: PNG, filename: 'dot.png' },
  );
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

it('X6 T10 attached texts count for whether two turns take more than their share', async () => {
  // Of a usable window of 7,600 tokens, a quarter may stay.
  const session = await told('talker', { content: Buffer.from('data '.repeat(2_500)), filename: 'data.txt' });
  const { run_seq: run } = await session.command(updates.compact);
  expect((await session.ended(run)).state).toBe('finished');
  expect((await visible(runtime, session))[0]).toBe('data-compaction');
});

/** A turn whose bucket behaves so between its step and its compaction; `first` is the number of its request. */
async function turnWhoseBucket(behavior: typeof away) {
  const session = await told('talker', {
    content: Buffer.from(`canary ${'data '.repeat(2_500)}`),
    filename: 'data.txt',
  });
  const change = async () => {
    const [[name, bytes]] = [...store.objects].slice(-1) as [[string, Buffer]];
    store.objects.set(`${name}x`, bytes);
    await forgetContents(runtime.db, session.id);
    store.behave(behavior);
    return [failContextLength()];
  };
  const first = runtime.model.requests.length;
  runtime.model.script((request, index) => (index === first ? change() : talking()(request, index)));
  return { session, first, run: await send(session, 'three') };
}

it('X5 T10 a compaction in a turn waits while its bucket is away', async () => {
  const { session, first, run } = await turnWhoseBucket(away);
  const waits = 'a compaction waits for the store of attachments';
  await eventually(() => expect(runtime.logs.filter(({ msg }) => msg === waits).length).toBeGreaterThan(1));
  expect(requests(runtime, 'summary', first)).toEqual([]);
  store.behave();
  expect(await session.ended(run)).toMatchObject({ state: 'finished' });
  expect(JSON.stringify(requests(runtime, 'summary', first))).toContain('canary');
  expect(runtime.logs.filter(({ msg }) => msg === 'an activity failed')).toEqual([]);
});

it('X5 T10 a compaction in a turn does not wait for a bucket that refuses', async () => {
  const { session, first, run } = await turnWhoseBucket(refusing(403));
  const ended = await session.ended(run);
  store.behave();
  expect(ended).toMatchObject({ state: 'error', error_code: 'AttachmentsUnavailable' });
  expect(requests(runtime, 'summary', first)).toEqual([]);
});
