// One connection that carries the streams of other requests.
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import {
  eventsOf,
  type ServerSentEvent,
  startHost,
  type TestCaller,
  type TestHost,
} from '../../tools/test-kit/host.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';

/** The answers to these texts wait for the test after their first word. */
const held = new Map<string, PromiseWithResolvers<void>>();

let host: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  const runtime = await startRuntime({
    script: async function* (request) {
      const text = lastUserText(request);
      yield say(`You said ${text}`);
      await held.get(text)?.promise;
      yield say('.');
    },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
  ada = host.as('ada');
});

function hold(text: string): () => void {
  const gate = Promise.withResolvers<void>();
  held.set(text, gate);
  onTestFinished(() => gate.resolve());
  return gate.resolve;
}

/** An open connection: the texts of its streams as far as they have come, and how they ended. */
class Connection {
  readonly texts = new Map<string, string>();
  readonly ends = new Map<string, boolean>();
  readonly gone = new AbortController();
  id = '';

  static async open(caller = ada): Promise<Connection> {
    const connection = new Connection();
    onTestFinished(() => connection.gone.abort());
    const response = await caller.fetch('/api/multiplex', { signal: connection.gone.signal });
    const events = eventsOf(response);
    connection.id = (await events.next()).value!.data.connection as string;
    void connection.read(events).catch(() => {});
    return connection;
  }

  private async read(events: AsyncGenerator<ServerSentEvent>): Promise<void> {
    for await (const { event, data } of events) {
      const { stream, text, complete } = data as { stream: string; text: string; complete: boolean };
      if (event === 'piece') this.texts.set(stream, (this.texts.get(stream) ?? '') + text);
      if (event === 'end') this.ends.set(stream, complete);
    }
  }

  /** The chunks of a stream. */
  chunks(stream: string): Promise<unknown[]> {
    return toArray(eventsOf(new Response(this.texts.get(stream) ?? '')));
  }
}

async function toArray(events: AsyncGenerator<ServerSentEvent>): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const { data } of events) all.push(data);
  return all;
}

function chat(text: string, stream?: string, caller = ada): Promise<Response> {
  const message = { id: `m-${text}`, role: 'user', parts: [{ type: 'text', text }] };
  const headers = {
    'content-type': 'application/json',
    ...(stream !== undefined && { 'x-perdure-multiplex': stream }),
  };
  return caller.fetch('/api/chat', {
    method: 'POST',
    headers,
    body: JSON.stringify({ id: text, messages: [message] }),
  });
}

it('H2 R2 one connection carries the answers of several sessions and their events, each under its name', async () => {
  const connection = await Connection.open();
  const [letOne, letTwo] = [hold('one'), hold('two')];
  const one = await chat('one', `${connection.id}/1`);
  expect([one.status, one.headers.get('content-type'), await one.text()]).toEqual([202, null, '']);
  expect(one.headers.get('x-perdure-multiplex')).toBe(`${connection.id}/1`);
  const session = one.headers.get('x-perdure-session')!;
  expect(session).toMatch(/^ses_/);
  expect((await chat('two', `${connection.id}/2`)).status).toBe(202);
  const events = `/api/sessions/${session}/events`;
  expect((await ada.fetch(events, { headers: { 'x-perdure-multiplex': `${connection.id}/3` } })).status).toBe(202);
  await eventually(() => {
    expect(connection.texts.get('1')).toContain('You said one');
    expect(connection.texts.get('2')).toContain('You said two');
    expect(connection.texts.get('3')).toContain('event: status');
  });
  letTwo();
  await eventually(() => expect([...connection.ends]).toEqual([['2', true]]));
  letOne();
  await eventually(() => expect(connection.ends.get('1')).toBe(true));
  // What a reader of its own gets, who comes later.
  const again = await toArray(eventsOf(await chat('one')));
  expect(textOf(await connection.chunks('1'))).toBe('You said one.');
  expect(textOf(again)).toBe('You said one.');
  expect(connection.texts.get('1')).toMatch(/data: \[DONE\]\n\n$/);
  expect(connection.ends.has('3')).toBe(false);
});

function textOf(chunks: unknown[]): string {
  return chunks.map((chunk) => (chunk as { delta?: string }).delta ?? '').join('');
}

it('H2 what is no stream is answered as without a connection, and so is a stream whose connection is not there', async () => {
  const connection = await Connection.open();
  const header = (stream: string) => ({ headers: { 'x-perdure-multiplex': stream } });
  expect((await ada.fetch('/api/sessions', header(`${connection.id}/1`))).status).toBe(200);
  expect((await ada.fetch('/api/sessions/ses_x/events', header(`${connection.id}/1`))).status).toBe(404);
  const elsewhere = await chat('elsewhere', 'of-another-host/1');
  expect(elsewhere.status).toBe(200);
  expect(textOf(await toArray(eventsOf(elsewhere)))).toBe('You said elsewhere.');
  expect([...connection.texts]).toEqual([]);
  const refused = await ada.fetch('/api/rendezvous', header('1'));
  expect([refused.status, (await refused.json()).detail]).toEqual([
    400,
    'x-perdure-multiplex: expected the name of a connection, a slash, and 1 to 9 digits that name the stream',
  ]);
});

it('Q3 no connection carries another one: each would double the length of what it carries', async () => {
  const connection = await Connection.open();
  const gone = new AbortController();
  onTestFinished(() => gone.abort());
  const inner = await ada.fetch('/api/multiplex', {
    headers: { 'x-perdure-multiplex': `${connection.id}/1` },
    signal: gone.signal,
  });
  expect(inner.status).toBe(200);
  expect((await eventsOf(inner).next()).value).toMatchObject({ event: 'opened' });
  expect([...connection.texts]).toEqual([]);
});

it('H3 a connection carries the streams of its own user only, and only that user can end them', async () => {
  const eve = host.as('eve');
  const connection = await Connection.open();
  const of = (caller: TestCaller, signal?: AbortSignal) =>
    caller.fetch('/api/rendezvous', {
      headers: { 'x-perdure-multiplex': `${connection.id}/1` },
      ...(signal && { signal }),
    });
  const gone = new AbortController();
  onTestFinished(() => gone.abort());
  expect((await of(eve, gone.signal)).status).toBe(200);
  expect((await of(ada)).status).toBe(202);
  await eventually(() => expect(connection.texts.get('1')).toContain('event: ready'));
  expect((await of(ada)).status).toBe(400);
  const path = `/api/multiplex/${connection.id}/1`;
  const asEve = await eve.delete(path);
  expect([asEve.status, asEve.body]).toEqual([404, (await ada.delete('/api/multiplex/none/1')).body]);
  expect([(await ada.delete(path)).status, (await ada.delete(path)).status]).toEqual([204, 204]);
  expect((await of(ada)).status).toBe(202);
});

it('R2 a stream that is ended, and each one of a connection that is lost, is read no more; its turn goes on', async () => {
  const letIt = hold('long');
  const connection = await Connection.open();
  await chat('long', `${connection.id}/1`);
  await eventually(async () => expect(await host.openStreams('chat')).toEqual([1]));
  await ada.delete(`/api/multiplex/${connection.id}/1`);
  await eventually(async () => expect(await host.openStreams('chat')).toEqual([0]));
  await chat('long', `${connection.id}/2`);
  await eventually(async () => expect(await host.openStreams('chat', 'multiplex')).toEqual([1, 1]));
  connection.gone.abort();
  await eventually(async () => expect(await host.openStreams('chat', 'multiplex')).toEqual([0, 0]));
  letIt();
  expect(textOf(await toArray(eventsOf(await chat('long'))))).toBe('You said long.');
});
