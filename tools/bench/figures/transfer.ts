// How long an export and an import of a long session take, and what they add to a host's memory.
import { randomBytes, randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { lengthenAnswers, insertPast, patiently } from '../../test-kit/long-past.ts';
import { forgetPeak, memoryOf, peakMemoryOf } from '../cpu.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { startHost } from '../host-process.ts';
import { COLLECTING } from '../many.ts';
import { USER } from '../names.ts';
import type { System } from '../servers.ts';
import { median, spread } from '../statistics.ts';

const TURNS = 5_000;
/** Of the sessions after whose exports and imports the code is compiled. */
const FEW_TURNS = 100;
const WARM_UP = 20;
const FILE_BYTES = 10 * 1024 ** 2;
/** Hosts: what one has given back to its allocator stays in its memory. */
const TIMES = 5;
const SETTLE_MS = 2_000;
const MB = 1024 ** 2;

/** A question of some lines, and an answer of a page. */
const TEXT = (role: 'user' | 'assistant') =>
  `(SELECT string_agg(md5(n::text || line), ' ') FROM generate_series(1, ${role === 'user' ? 5 : 75}) AS line)`;

/** A session whose answers each have two texts and the call of a tool. */
async function longSession({ client, db }: System, turns: number): Promise<string> {
  const session = await client.open();
  await patiently(db, async (connection) => {
    await insertPast(connection, [session], { to: turns, text: TEXT });
    await lengthenAnswers(connection, session);
  });
  return session;
}

/** Attaches a file to the session's last message. */
async function attach({ db }: System, url: string, session: string): Promise<void> {
  const head = Buffer.from('%PDF-1.7\n');
  const response = await fetch(`${url}/api/sessions/${session}/attachments`, {
    method: 'POST',
    headers: { 'content-type': 'application/pdf', 'x-perdure-user': USER },
    body: Buffer.concat([head, randomBytes(FILE_BYTES - head.length)]),
  });
  const { url: file } = (await response.json()) as { url: string };
  const data = { type: 'file', mediaType: 'application/pdf', url: file };
  await db.query(
    `INSERT INTO chat_parts (session_id, id, message_id, index, type, data) VALUES ($1, 'file', $2, 5, 'file', $3)`,
    [session, `u${TURNS}`, data],
  );
}

async function exported(url: string, session: string): Promise<Buffer> {
  const response = await fetch(`${url}/api/sessions/${session}/export`, { headers: { 'x-perdure-user': USER } });
  if (response.status !== 200) throw new Error(`an export got ${response.status}: ${await response.text()}`);
  return Buffer.from(await response.arrayBuffer());
}

async function imported(url: string, body: Buffer): Promise<void> {
  const headers = { 'content-type': 'application/jsonl', 'x-perdure-user': USER };
  const response = await fetch(`${url}/api/import`, { method: 'POST', headers, body: body as BodyInit });
  if (response.status !== 201) throw new Error(`an import got ${response.status}: ${await response.text()}`);
  await response.body?.cancel();
}

/** Seconds that `work` takes, and by how many megabytes it raises a new host's memory over that at rest. */
async function measured(
  start: () => ReturnType<typeof startHost>,
  small: string,
  work: (url: string) => Promise<unknown>,
): Promise<{ seconds: number; megabytes: number }> {
  const host = await start();
  try {
    for (let n = 0; n < WARM_UP; n += 1) await imported(host.url, await exported(host.url, small));
    process.kill(host.pid, 'SIGWINCH');
    await delay(SETTLE_MS);
    const before = memoryOf(host.pid);
    forgetPeak(host.pid);
    const from = performance.now();
    await work(host.url);
    const seconds = (performance.now() - from) / 1_000;
    return { seconds, megabytes: (peakMemoryOf(host.pid) - before) / MB };
  } finally {
    await host.stop();
  }
}

function resultsOf(
  what: 'export' | 'import',
  runs: Awaited<ReturnType<typeof measured>>[],
  most: { seconds?: number },
): Result[] {
  const [seconds, megabytes] = [runs.map((run) => run.seconds), runs.map((run) => run.megabytes)];
  const { seconds: atMost } = most;
  return [
    {
      name: `${what} of 10,000 messages`,
      value: median(seconds),
      unit: 's',
      ...(atMost !== undefined && { target: { atMost } }),
      detail: spread(seconds),
    },
    {
      name: `${what}: memory of the host over rest, at its highest`,
      value: median(megabytes),
      unit: 'MB',
      target: { atMost: 50 },
      detail: spread(megabytes),
    },
  ];
}

/** Export and import of 10,000 messages with 20,000 parts and a file. */
export const transfer: Figure = {
  name: 'transfer',
  onRequest: { withinMs: 600_000 },
  measure: async ({ system, say }: Bench) => {
    await using stops = new AsyncDisposableStack();
    const dir = path.join(tmpdir(), `perdure-bench-transfer-${randomUUID()}`);
    stops.defer(() => rm(dir, { recursive: true, force: true }));
    const start = () => startHost(system, dir, COLLECTING);
    const small = await longSession(system, FEW_TURNS);
    const session = await longSession(system, TURNS);
    const host = await start();
    await attach(system, host.url, session);
    const lines = await exported(host.url, session);
    await host.stop();
    say(`the export has ${(lines.length / MB).toFixed(1)} MB`);
    const exports: Awaited<ReturnType<typeof measured>>[] = [];
    const imports: typeof exports = [];
    for (let n = 0; n < TIMES; n += 1) {
      exports.push(await measured(start, small, (url) => exported(url, session)));
      imports.push(await measured(start, small, (url) => imported(url, lines)));
    }
    return [...resultsOf('export', exports, { seconds: 2 }), ...resultsOf('import', imports, {})];
  },
};
