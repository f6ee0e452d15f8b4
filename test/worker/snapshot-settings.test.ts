// PERDURE_SNAPSHOTS and PERDURE_MAX_SNAPSHOT, as a worker reads them.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pino } from 'pino';
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { createClient, type PerdureClient } from '../../client/index.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, say as answer } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, startModelServer } from '../../tools/test-kit/model-server.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { quietRuntime } from '../../worker/replay/quiet.ts';
import { startWorker } from '../../worker/start.ts';
import { userFolder } from '../../workspaces/paths.ts';

const lines: string[] = [];
const workspaces = scratchDir();
let env: Record<string, string>;
let client: PerdureClient;
beforeAll(async () => {
  quietRuntime();
  // Writes what the user says to a page.
  const model = await startModelServer((request) =>
    request.messages.at(-1)?.role === 'tool'
      ? [answer('done')]
      : [callTool('call_1', 'write_file', { path: 'index.html', content: lastUserText(request) })],
  );
  afterFile(() => model.close());
  const { address, namespace, client: temporal } = await freshNamespace();
  env = {
    DATABASE_URL: await freshDatabase(),
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    OPENAI_BASE_URL: model.url,
    PERDURE_MODEL: 'openai/test',
    PERDURE_DIR: path.resolve('node_modules/.cache/perdure-snapshot-settings'),
    PERDURE_WORKSPACES: workspaces,
  };
  await mkdir(workspaces, { recursive: true });
  client = createClient({ database: env['DATABASE_URL']!, temporal });
  afterFile(() => client.end());
});

/** Starts a worker with these settings, and returns how to stop it. */
async function started(settings: Record<string, string> = {}): Promise<() => Promise<void>> {
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const worker = await startWorker({ env: { ...env, ...settings }, log });
  let stopping: Promise<void> | undefined;
  const stop = () => (stopping ??= worker.stop());
  onTestFinished(stop);
  return stop;
}

/** Sends a message with its text as id, and waits for the end of its turn. */
async function say(id: string, text: string) {
  const { run_seq } = await client.submit('ada', id, { id: text, text });
  for await (const _ of client.follow('ada', id, run_seq));
}

const home = userFolder(workspaces, 'ada');

/** Two messages to a worker with these settings, and a rewind to the second one; a file of so many bytes is there before that. */
async function rewound(settings: Record<string, string>, bytes = 0) {
  await started(settings);
  const { session } = await client.openSession('ada', { agent: 'site-builder' });
  const { session_id: id } = session;
  for (const text of ['one', 'two']) {
    await say(id, text);
    await writeFile(path.join(home, id, 'image'), Buffer.alloc(bytes));
  }
  const { items } = await client.reads.messages('ada', id);
  await client.commands.rewind('ada', id, { message_id: 'two' });
  const kinds = await readdir(path.join(home, '.snapshots', id)).catch(() => []);
  const page = () => readFile(path.join(home, id, 'index.html'), 'utf8');
  return { id, page, kinds, metadata: items.find((message) => message.id === 'two')?.metadata };
}

it.each([
  ['by default', {}, 'copies'],
  ['of copy', { PERDURE_SNAPSHOTS: 'copy' }, 'copies'],
  ['of git', { PERDURE_SNAPSHOTS: 'git' }, 'git'],
])('X2 a worker with PERDURE_SNAPSHOTS %s takes snapshots, and rewinds restore them', async (_, settings, kind) => {
  const { page, kinds, metadata } = await rewound(settings);
  expect(metadata).toMatchObject({ snapshot_id: expect.any(String) as string });
  expect(kinds.filter((name) => ['copies', 'git'].includes(name))).toEqual([kind]);
  await eventually(async () => expect(await page()).toBe('one'));
});

it('X2 a worker with PERDURE_SNAPSHOTS of off takes none, and rewinds leave the files as they are', async () => {
  const { page, kinds, metadata } = await rewound({ PERDURE_SNAPSHOTS: 'off' });
  expect(metadata).not.toHaveProperty('snapshot_id');
  expect(kinds).toEqual([]);
  expect(await page()).toBe('two');
});

it('X2 a turn on a worker without snapshots ends what a rewind has asked for: no later turn brings old files back', async () => {
  const stopFirst = await started();
  const { session } = await client.openSession('ada', { agent: 'site-builder' });
  const { session_id: id } = session;
  for (const text of ['one', 'two']) await say(id, text);
  await stopFirst();
  const stopSecond = await started({ PERDURE_SNAPSHOTS: 'off' });
  await client.commands.rewind('ada', id, { message_id: 'two' });
  await say(id, 'three');
  await writeFile(path.join(home, id, 'newer'), '');
  await stopSecond();
  await started();
  await say(id, 'four');
  expect((await readdir(path.join(home, id))).toSorted()).toEqual(['index.html', 'newer']);
});

it('X2 PERDURE_MAX_SNAPSHOT: of a larger workspace no snapshot is taken, and a warning says so', async () => {
  const { id, page, metadata } = await rewound({ PERDURE_MAX_SNAPSHOT: '1MiB' }, 1024 ** 2);
  expect(metadata).not.toHaveProperty('snapshot_id');
  expect(await page()).toBe('two');
  const ours = lines.filter((line) => line.includes(id) && line.includes('no snapshot was taken'));
  expect(ours).toMatchObject([expect.stringContaining('more than 1048576 bytes (PERDURE_MAX_SNAPSHOT)')]);
});

it('X2 a worker that is to use git does not start where there is none', async () => {
  const git = { ...env, PERDURE_SNAPSHOTS: 'git' };
  vi.stubEnv('PATH', '/nowhere');
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(startWorker({ env: git })).rejects.toThrow(
    'PERDURE_SNAPSHOTS: expected copy or off, because git cannot be run here',
  );
});
