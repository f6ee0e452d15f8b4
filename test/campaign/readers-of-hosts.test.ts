// Readers whose host stops or is killed, and hosts whose readers do not read.
import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { UIMessage, UIMessageChunk } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { chunksOf, eventsOf, type TestCaller } from '../../tools/test-kit/host.ts';
import { say, saySlowly } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { type HostProcess, type Processes, processesOn } from '../../tools/test-kit/processes.ts';
import { reduced } from '../../tools/test-kit/reduce.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';

const MB = 1_024 ** 2;
/** More than a connection's buffers hold. */
const LARGE_MB = 14;

const gates = new Map<string, PromiseWithResolvers<void>>();
/** Creates a gate that a scripted model waits for. */
function gate(name: string): PromiseWithResolvers<void> {
  const known = gates.get(name) ?? Promise.withResolvers<void>();
  gates.set(name, known);
  return known;
}

let runtime: TestRuntime;
let processes: Processes;
beforeAll(async () => {
  runtime = await startRuntime({
    async *script(request) {
      const text = lastUserText(request);
      if (text.startsWith('large')) for (let sent = 0; sent < LARGE_MB; sent += 1) yield say('x'.repeat(MB));
      if (text.startsWith('talk')) {
        for (const action of saySlowly('lorem ipsum dolor sit amet '.repeat(40), 6)) {
          await delay(10);
          yield action;
        }
      }
      yield say(`You said: ${text}. `);
      if (text.includes('hold')) await gate(text).promise;
      yield say('That is all.');
    },
  });
  processes = await processesOn(runtime, runtime.model.url);
});

async function open(caller: TestCaller): Promise<string> {
  const { body } = await caller.post('/api/sessions', {});
  return body.session.session_id as string;
}

function chat(caller: TestCaller, session: string, text: string, id = newId('msg')): Promise<Response> {
  const body = { id: session, messages: [{ id, role: 'user', parts: [{ type: 'text', text }] }] };
  return caller.fetch('/api/chat', { method: 'POST', body: JSON.stringify(body) });
}

async function stored(caller: TestCaller, session: string): Promise<UIMessage | undefined> {
  const { body } = await caller.get(`/api/sessions/${session}/messages`);
  return (body.items as UIMessage[]).findLast(({ role }) => role === 'assistant');
}

/** Reads until the first text. */
async function untilSpeaking(response: Response): Promise<AsyncGenerator<{ data: { type?: string } }>> {
  const events = eventsOf(response);
  for await (const { data } of { [Symbol.asyncIterator]: () => ({ next: () => events.next() }) }) {
    if (data.type === 'text-delta') break;
  }
  return events;
}

/** Memory and open streams of a host. */
async function usageOf(host: HostProcess): Promise<{ bytes: number; streams: number }> {
  const text = await (await fetch(`${host.url}/metrics`)).text();
  // A missing metric is NaN, which fails every comparison.
  const value = (name: RegExp) => Number(new RegExp(`^${name.source} (\\S+)$`, 'm').exec(text)?.[1]);
  return {
    bytes: value(/process_resident_memory_bytes/),
    streams: value(/perdure_http_streams\{route="chat"\}/),
  };
}

describe('a host that is killed or stopped', () => {
  it('R2 killed while streaming: its reader continues at another host, from the first chunk', async () => {
    const [killed, other] = await Promise.all([processes.host(), processes.host()]);
    const session = await open(other.as('ada'));
    const text = 'talk, then hold';
    const answer = await untilSpeaking(await chat(killed.as('ada'), session, text));
    const lost = (async () => {
      for await (const _ of { [Symbol.asyncIterator]: () => answer });
    })().catch((error: unknown) => error);
    killed.kill('SIGKILL');
    expect(await lost).toBeInstanceOf(Error);
    const chunks: UIMessageChunk[] = [];
    for await (const { data } of eventsOf(await other.as('ada').fetch(`/api/chat/${session}/stream`))) {
      chunks.push(data as UIMessageChunk);
      if (chunks.length === 5) gate(text).resolve();
    }
    expect(chunks[0]?.type).toBe('start');
    expect(await reduced(chunks)).toEqual(await stored(other.as('ada'), session));
    await other.stop();
  });

  it('R2 stopped: it is first not ready, then closes streams, completes requests, and exits with 0', async () => {
    const [stopping, other] = await Promise.all([processes.host({ PERDURE_DRAIN_DELAY: '1s' }), processes.host()]);
    const session = await open(stopping.as('ada'));
    const text = 'hold while it stops';
    const answer = await untilSpeaking(await chat(stopping.as('ada'), session, text));
    const rest: UIMessageChunk[] = [];
    const lost = (async () => {
      for await (const { data } of { [Symbol.asyncIterator]: () => answer }) rest.push(data as UIMessageChunk);
    })().catch((error: unknown) => error);
    stopping.kill('SIGTERM');
    await eventually(async () => {
      const ready = await fetch(`${stopping.url}/readyz`);
      expect([ready.status, await ready.json(), ready.headers.get('connection')]).toEqual([
        503,
        { ready: false, postgres: true, temporal: true },
        'close',
      ]);
    });
    // Clients that have not noticed yet are still served.
    expect((await stopping.as('ada').get(`/api/sessions/${session}/status`)).body.state).toBe('busy');
    const command = stopping.as('ada').post(`/api/sessions/${session}/open`, { project_id: 'prj-of-a-stop' });
    expect((await command).status).toBe(200);
    expect(await lost, 'the stream ends without its final event, so that its reader reconnects').toBeInstanceOf(Error);
    expect(rest.some(({ type }) => type === 'finish')).toBe(false);
    const again = await other.as('ada').fetch(`/api/chat/${session}/stream`);
    gate(text).resolve();
    expect(await reduced(await chunksOf(again))).toEqual(await stored(other.as('ada'), session));
    expect(await stopping.exited).toEqual({ code: 0, signal: null });
    await other.stop();
  });
});

describe('who may read, and what is there to read', () => {
  it('R2 H8 a finished run and an unused alias are 204, an unknown session and another user’s are 404', async () => {
    const host = await processes.host();
    const session = await open(host.as('ada'));
    expect((await host.as('ada').fetch(`/api/chat/${session}/stream`)).status).toBe(204);
    await chunksOf(await chat(host.as('ada'), session, 'hello'));
    expect((await host.as('ada').fetch(`/api/chat/${session}/stream`)).status).toBe(204);
    expect((await host.as('ada').fetch('/api/chat/an-alias-of-nobody/stream')).status).toBe(204);
    const foreign = await host.as('eve').get(`/api/chat/${session}/stream`);
    const unknown = await host.as('ada').get(`/api/chat/${newId('ses')}/stream`);
    expect([foreign.status, unknown.status, foreign.body]).toEqual([404, 404, unknown.body]);
    await host.stop();
  });

  it('S9 a queued message that is sent again to another host joins its stream, which reports the queue', async () => {
    const [one, two] = await Promise.all([processes.host(), processes.host()]);
    const session = await open(one.as('ada'));
    const text = 'hold the queue';
    const first = await untilSpeaking(await chat(one.as('ada'), session, text));
    const again = (host: HostProcess) => chat(host.as('ada'), session, 'behind it', 'msg-twice');
    let waiting: unknown[] = [];
    const streams = [again(one), again(two), again(two)].map(async (response) => {
      const chunks: UIMessageChunk[] = [];
      for await (const { data } of eventsOf(await response)) {
        chunks.push(data as UIMessageChunk);
        waiting = waiting.concat(data.type === 'data-status' && data.data.position === 1 ? [data] : []);
      }
      return chunks;
    });
    await eventually(() => expect(waiting).toHaveLength(3));
    gate(text).resolve();
    const answer = await Promise.all(streams.map(async (chunks) => reduced(await chunks)));
    await first.return(undefined);
    const { body } = await one.as('ada').get(`/api/sessions/${session}/messages`);
    const items = body.items as UIMessage[];
    expect(items.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(answer).toEqual([items[3], items[3], items[3]]);
    await Promise.all([one.stop(), two.stop()]);
  });
});

describe('the load of readers on a host', () => {
  it('R2 one that does not read costs bounded memory, delays nothing, and is disconnected in the end', async () => {
    // On a busy machine even a working reader may read nothing for a second.
    const host = await processes.host({ PERDURE_READER_TIMEOUT: '3s' });
    const ada = host.as('ada');
    const session = await open(ada);
    const before = await usageOf(host);
    const text = 'large, then hold';
    await ada.post(`/api/sessions/${session}/messages`, { id: 'msg-large', text });
    const idle = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const request = httpGet(`${host.url}/api/chat/${session}/stream`, { headers: { 'x-perdure-user': 'ada' } });
        const [response] = (await once(request, 'response')) as [IncomingMessage];
        response.pause();
        response.on('error', () => {});
        const cut = new Promise((resolve) => response.once('close', resolve));
        return { response, cut };
      }),
    );
    const joined = chat(ada, session, text, 'msg-large').then(chunksOf);
    await eventually(async () => expect((await usageOf(host)).streams).toBe(1));
    const { bytes } = await usageOf(host);
    // Five copies of the whole answer, as rows, as chunks and as text: not one for each missed chunk.
    expect((bytes - before.bytes) / MB, 'megabytes').toBeLessThan(5 * 8 * LARGE_MB);
    gate(text).resolve();
    const whole = await reduced(await joined);
    expect(whole).toEqual(await stored(ada, session));
    for (const { response, cut } of idle) {
      response.resume();
      await cut;
      expect(response.complete, 'it was disconnected').toBe(false);
    }
    await host.stop();
  });

  it('R2 a thousand of them follow one host, whose memory stays small, and all receive the end', async () => {
    const host = await processes.host();
    const users = Array.from({ length: 20 }, (_, n) => host.as(`reader-${n}`));
    const text = 'hold a thousand';
    const sessions = await Promise.all(
      users.map(async (user) => {
        const session = await open(user);
        await user.post(`/api/sessions/${session}/messages`, { id: 'msg-many', text });
        return { user, session };
      }),
    );
    const before = await usageOf(host);
    const responses = await Promise.all(
      sessions.flatMap(({ user, session }) =>
        Array.from({ length: 50 }, () => user.fetch(`/api/chat/${session}/stream`)),
      ),
    );
    await eventually(async () => expect((await usageOf(host)).streams).toBe(1_000));
    const after = await usageOf(host);
    const perReader = (after.bytes - before.bytes) / 1_000 / 1_024;
    console.log(`1,000 readers: ${perReader.toFixed(0)} KiB each`);
    gate(text).resolve();
    const all = await Promise.all(responses.map(chunksOf));
    expect(all.filter((chunks) => chunks.at(-1)?.type === 'finish')).toHaveLength(1_000);
    expect(Math.max(...all.map(({ length }) => length)), 'chunks of a short answer').toBeLessThanOrEqual(12);
    expect(perReader).toBeLessThan(256);
    await host.stop();
  });
});
