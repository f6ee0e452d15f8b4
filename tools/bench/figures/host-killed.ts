// A host is killed (SIGKILL) while it streams: time until its reader gets text again through another host.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { now } from '../clock.ts';
import type { Figure } from '../figure.ts';
import { startHost } from '../host-process.ts';
import { USER } from '../names.ts';
import { messageOf } from '../script.ts';
import type { System } from '../servers.ts';
import { percentile, spread } from '../statistics.ts';

const TRIES = 8;
const HEADERS = { 'x-perdure-user': USER };

/** Reads a stream until its first text; returns the time. */
async function untilText(response: Response): Promise<{ at: number; rest: ReadableStreamDefaultReader<string> }> {
  const rest = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await rest.read();
    if (done) throw new Error(`a stream ended without text (status ${response.status})`);
    if (value.includes('"text-delta"')) return { at: now(), rest };
  }
}

/** Milliseconds from reconnecting at `other` to the first text, after the host of the stream was killed. */
async function tryOnce(system: System, dir: string, other: string): Promise<number> {
  const killed = await startHost(system, dir);
  const session = await system.client.open();
  const text = messageOf({ key: randomUUID(), chunks: 400, pace: 5 });
  const messages = [{ id: `msg-${randomUUID()}`, role: 'user', parts: [{ type: 'text', text }] }];
  const body = JSON.stringify({ id: session, messages });
  const { rest } = await untilText(await fetch(`${killed.url}/api/chat`, { method: 'POST', headers: HEADERS, body }));
  await delay(300);
  process.kill(killed.pid, 'SIGKILL');
  await killed.exited;
  while (
    await rest.read().then(
      ({ done }) => !done,
      () => false,
    )
  );
  const from = now();
  const again = await untilText(await fetch(`${other}/api/chat/${session}/stream`, { headers: HEADERS }));
  await again.rest.cancel();
  await system.client.abort(session);
  return again.at - from;
}

export const hostKilled: Figure = {
  name: 'host-killed',
  measure: async ({ system }) => {
    const dir = path.join(tmpdir(), `perdure-bench-hosts-${randomUUID()}`);
    const other = await startHost(system, dir);
    try {
      const samples: number[] = [];
      for (let n = 0; n < TRIES; n += 1) samples.push(await tryOnce(system, dir, other.url));
      const result = {
        name: 'host killed: from reconnecting to text from another host, slowest',
        value: percentile(samples, 1),
        unit: 'ms',
        target: { atMost: 200 },
        detail: spread(samples),
      };
      return [result];
    } finally {
      await other.stop();
      await rm(dir, { recursive: true, force: true });
    }
  },
};
