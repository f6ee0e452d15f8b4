import { DefaultChatTransport, type UIMessage, type UIMessageChunk } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import {
  type Answer,
  chunksOf,
  eventsOf,
  startHost,
  type TestCaller,
  type TestHost,
} from '../../tools/test-kit/host.ts';
import { fail, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { reduced } from '../../tools/test-kit/reduce.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';

// Turns over HTTP, with a worker and a scripted model.

const REHEARSAL = 'rehearsal/site-builder';

/** Creates a gate that a scripted model waits for. */
const held = new Map<string, PromiseWithResolvers<void>>();
function hold(name: string): PromiseWithResolvers<void> {
  const gate = held.get(name) ?? Promise.withResolvers<void>();
  held.set(name, gate);
  return gate;
}

let runtime: TestRuntime;
let host: TestHost;
let otherHost: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  runtime = await startRuntime({
    async *script(request) {
      const text = lastUserText(request);
      if (text.startsWith('fail')) {
        if (text.includes('hold')) await hold(text).promise;
        yield fail(401, { message: 'no such key' });
        return;
      }
      yield say(`You said: ${text}. `);
      if (text.startsWith('hold ')) await hold(text).promise;
      yield say('That is all.');
    },
  });
  const { databaseUrl, address, namespace } = runtime;
  const options = () => ({
    databaseUrl,
    temporal: temporalClient({ connectionOptions: { address }, namespace }),
    models: ['openai/test', REHEARSAL],
    workspaces: runtime.workspaces,
  });
  host = await startHost(options());
  otherHost = await startHost(options());
  ada = host.as('ada');
});

async function openSession(caller = ada): Promise<string> {
  const { body } = await caller.post('/api/sessions', {});
  return body.session.session_id as string;
}

function userMessage(text: string, id = newId('msg')): UIMessage {
  return { id, role: 'user', parts: [{ type: 'text', text }] };
}

async function chat(session: string, text: string, id?: string, caller = ada): Promise<Response> {
  const body = { id: session, messages: [userMessage(text, id)], trigger: 'submit-message' };
  return caller.fetch('/api/chat', { method: 'POST', body: JSON.stringify(body) });
}

async function storedAnswer(session: string, caller = ada): Promise<UIMessage | undefined> {
  const { body } = await caller.get(`/api/sessions/${session}/messages`);
  return (body.items as UIMessage[]).findLast((message) => message.role === 'assistant');
}

async function sessionOf(id: string, caller = ada): Promise<{ phase: string; project_id: string | null }> {
  return (await caller.get(`/api/sessions/${id}`)).body.session as { phase: string; project_id: string | null };
}

function untilIdle(id: string): Promise<void> {
  return eventually(async () => expect((await ada.get(`/api/sessions/${id}/status`)).body.state).toBe('idle'));
}

/** Waits for the first text. */
async function untilSpeaking(events: AsyncGenerator<{ data: { type?: string } }>): Promise<void> {
  for (;;) {
    const { value, done } = await events.next();
    if (done || value.data.type === 'text-delta') return;
  }
}

/** Moves a session to a phase, with a user's actions. */
async function walkTo(phase: string, caller: TestCaller): Promise<string> {
  const id = await openSession(caller);
  if (phase === 'chatting') return id;
  const body = { id, messages: [userMessage('build a site')], model: REHEARSAL };
  await chunksOf(await caller.fetch('/api/chat', { method: 'POST', body: JSON.stringify(body) }));
  if (phase === 'done') await caller.post(`/api/sessions/${id}/publish`);
  if (phase === 'building') await caller.post(`/api/sessions/${id}/revert`);
  expect((await sessionOf(id, caller)).phase).toBe(phase);
  return id;
}

describe('a turn through /chat', () => {
  it('H6 H10 goes from chatting to verifying with DefaultChatTransport, and to done by publish', async () => {
    const transport = new DefaultChatTransport({
      api: `${host.url}/api/chat`,
      headers: { 'x-perdure-user': 'ada' },
      body: { model: REHEARSAL },
    });
    const stream = await transport.sendMessages({
      trigger: 'submit-message',
      chatId: 'walk',
      messageId: undefined,
      messages: [userMessage('Please build a garden site')],
      abortSignal: undefined,
    });
    const chunks: UIMessageChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    const answer = await storedAnswer('walk');
    expect(await reduced(chunks)).toEqual(answer);
    expect(answer?.parts.map((part) => part.type)).toEqual(
      expect.arrayContaining(['text', 'tool-build_and_deploy', 'tool-write_file', 'tool-todo_complete']),
    );
    expect(answer?.metadata).toMatchObject({
      session_id: expect.stringMatching(/^ses_/),
      usage: { input: expect.any(Number) },
      system_prompt_digest: expect.any(String),
    });
    expect(chunks[0]).toMatchObject({ type: 'start', messageId: answer?.id });
    expect(chunks.at(-1)).toMatchObject({ type: 'finish', messageMetadata: answer?.metadata });
    expect((await sessionOf('walk')).phase).toBe('verifying');
    const { items } = (await ada.get('/api/sessions/walk/log')).body;
    expect(items).toContainEqual(expect.objectContaining({ kind: 'transition', actor: 'tool' }));
    expect(await ada.post('/api/sessions/walk/publish')).toMatchObject({ status: 200, body: { phase: 'done' } });
    expect(await transport.reconnectToStream({ chatId: 'walk' })).toBeNull();
  });

  it('H8 the stock DefaultChatTransport works with a transcript of 5 MiB, of which only the last message is read', async () => {
    const sentence = 'The "quick" brown fox\njumps. '.repeat(100);
    const messages = Array.from({ length: 1_800 }, (_, at) =>
      at % 2 ? { ...userMessage(sentence), role: 'assistant' as const } : userMessage(sentence),
    );
    expect(JSON.stringify(messages).length).toBeGreaterThan(5 * 1024 ** 2);
    const transport = new DefaultChatTransport({ api: `${host.url}/api/chat`, headers: { 'x-perdure-user': 'ada' } });
    const stream = await transport.sendMessages({
      trigger: 'submit-message',
      chatId: 'long',
      messageId: undefined,
      messages: [...messages, userMessage('briefly')],
      abortSignal: undefined,
    });
    const chunks: UIMessageChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    const { items } = (await ada.get('/api/sessions/long/messages')).body;
    expect(items).toMatchObject([{ role: 'user', parts: [{ text: 'briefly' }] }, { role: 'assistant' }]);
    expect(await reduced(chunks)).toEqual(items[1]);
  });

  it('R2 GET …/stream returns the message from its first chunk, on any host, and equal to the stored one', async () => {
    const id = await openSession();
    const first = eventsOf(await chat(id, 'hold replay'));
    await untilSpeaking(first);
    const late = await otherHost.as('ada').fetch(`/api/chat/${id}/stream`);
    expect(late.headers.get('x-perdure-session')).toBe(id);
    // The first reader disconnects; the run continues.
    await first.return(undefined);
    hold('hold replay').resolve();
    const chunks = await chunksOf(late);
    expect(chunks[0]?.type).toBe('start');
    expect(await reduced(chunks)).toEqual(await storedAnswer(id));
    expect((await ada.fetch(`/api/chat/${id}/stream`)).status).toBe(204);
  });

  it('S9 a message whose run failed does not run again: 200 with the code, and /chat returns the stored answer and its error', async () => {
    const id = await openSession();
    const failed = { id: 'failed-1', text: 'fail' };
    expect((await ada.post(`/api/sessions/${id}/messages`, failed)).status).toBe(202);
    await eventually(async () => expect((await ada.get(`/api/sessions/${id}/status`)).body.state).toBe('error'));
    expect(await ada.post(`/api/sessions/${id}/messages`, failed)).toMatchObject({
      status: 200,
      body: { message_id: 'failed-1', state: 'error', code: 'ProviderUnauthorized' },
    });
    const chunks = await chunksOf(await chat(id, 'fail', 'failed-1'));
    expect(chunks).toContainEqual({ type: 'error', errorText: expect.any(String) });
    expect((await ada.get(`/api/sessions/${id}/status`)).body).toMatchObject({ state: 'error' });
    // No text advises to send the same message again, because it would not run.
    expect(JSON.stringify(chunks)).not.toMatch(/send (?:the message|it) again/i);
  });

  it('S9 a cancelled message does not run again: 200, and /chat returns an abort', async () => {
    const id = await openSession();
    const running = await chat(id, 'hold taken', 'running-1');
    const queued = { id: 'queued-1', text: 'later' };
    expect((await ada.post(`/api/sessions/${id}/messages`, queued)).status).toBe(202);
    expect((await ada.delete(`/api/sessions/${id}/messages/queued-1`)).status).toBe(200);
    const again = await ada.post(`/api/sessions/${id}/messages`, queued);
    expect([again.status, again.body]).toEqual([200, { message_id: 'queued-1', state: 'cancelled' }]);
    expect(await chunksOf(await chat(id, 'later', 'queued-1'))).toContainEqual({ type: 'abort', reason: 'cancelled' });
    hold('hold taken').resolve();
    await chunksOf(running);
  });

  it('S9 a repeated message joins its turn, while it runs and after it has ended', async () => {
    const id = await openSession();
    const [one, two] = [await chat(id, 'hold same', 'same-1'), await chat(id, 'hold same', 'same-1')];
    hold('hold same').resolve();
    const answers = await Promise.all(
      [one, two, chat(id, 'hold same', 'same-1')].map(async (response) => {
        return reduced(await chunksOf(await response));
      }),
    );
    const stored = await storedAnswer(id);
    expect(answers).toEqual([stored, stored, stored]);
    expect((await ada.get(`/api/sessions/${id}/messages`)).body.items).toHaveLength(2);
    const other = await ada.post('/api/chat', { id, messages: [userMessage('other words', 'same-1')] });
    expect(other).toMatchObject({ status: 409, body: { code: 'MessageConflict' } });
  });

  it('W7 the stream of a queued message reports its place in the queue, and continues when its run starts', async () => {
    const id = await openSession();
    const first = chat(id, 'hold queue', 'q-1');
    const second = eventsOf(await first.then(() => chat(id, 'second', 'q-2')));
    const seen: { type: string; transient?: boolean; data?: { position: number; message_id: string } }[] = [];
    for await (const { data } of second) {
      seen.push(data as (typeof seen)[0]);
      if (seen.at(-1)?.type === 'data-status') hold('hold queue').resolve();
    }
    expect(seen.slice(0, 2)).toMatchObject([
      { type: 'start' },
      { type: 'data-status', transient: true, data: { position: 1, message_id: 'q-1' } },
    ]);
    expect(seen.at(-1)?.type).toBe('finish');
    expect(await reduced(seen as unknown as UIMessageChunk[])).toEqual(await storedAnswer(id));
    const { items } = (await ada.get(`/api/sessions/${id}/messages`)).body as { items: UIMessage[] };
    expect(items.map((message) => message.role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  });

  it('R5 an error pauses the queue: the stream of a queued message ends and says so, until a message resumes it', async () => {
    const id = await openSession();
    const first = chat(id, 'fail hold', 'p-1');
    const queued = chunksOf(await first.then(() => chat(id, 'second', 'p-2')));
    hold('fail hold').resolve();
    const ended = await queued;
    expect(ended.slice(-2)).toMatchObject([
      { type: 'error', errorText: expect.stringMatching(/queue is paused.* send a message to resume/) as string },
      { type: 'finish', finishReason: 'error', messageMetadata: { session_id: id } },
    ]);
    expect((await chunksOf(await chat(id, 'second', 'p-2'))).map(({ type }) => type)).toEqual([
      'start',
      'error',
      'finish',
    ]);
    expect((await ada.get(`/api/chat/${id}/stream`)).status).toBe(204);

    const third = await chat(id, 'third', 'p-3');
    const resumed = await chunksOf(await chat(id, 'second', 'p-2'));
    expect(resumed.at(-1)).toMatchObject({ type: 'finish', finishReason: 'stop' });
    expect((await chunksOf(third)).at(-1)).toMatchObject({ type: 'finish', finishReason: 'stop' });
    const { items } = (await ada.get(`/api/sessions/${id}/messages`)).body as { items: UIMessage[] };
    expect(items.filter(({ role }) => role === 'user').map((message) => message.id)).toEqual(['p-1', 'p-2', 'p-3']);
  });

  it('R6 a provider error ends the stream with advice, and R5 the next message clears it', async () => {
    const id = await openSession();
    const chunks = await chunksOf(await chat(id, 'fail'));
    expect(chunks.map((chunk) => chunk.type).slice(-2)).toEqual(['error', 'finish']);
    const status = (await ada.get(`/api/sessions/${id}/status`)).body as { state: string; message: string };
    expect(status.state).toBe('error');
    expect(chunks.at(-2)).toMatchObject({ type: 'error', errorText: status.message });
    const next = await chunksOf(await chat(id, 'better'));
    expect(next.at(-1)?.type).toBe('finish');
    await untilIdle(id);
  });
});

describe('abort', () => {
  it('R4 ends the stream where the answer stopped, and the stored answer is what the reader saw', async () => {
    const id = await openSession();
    const chunks: UIMessageChunk[] = [];
    for await (const { data } of eventsOf(await chat(id, 'hold abort'))) {
      chunks.push(data as UIMessageChunk);
      if (data.type === 'text-delta') {
        const answer = await ada.post(`/api/sessions/${id}/abort`);
        expect(answer).toMatchObject({ status: 200, body: { aborted: true, phase: 'chatting' } });
      }
    }
    expect(chunks.at(-1)?.type).toBe('abort');
    const stored = await storedAnswer(id);
    expect(await reduced(chunks)).toEqual(stored);
    expect(stored?.parts.at(-1)).toMatchObject({ type: 'text', text: 'You said: hold abort. ', state: 'streaming' });
    await untilIdle(id);
    hold('hold abort').resolve();
  });

  it('R5 with no run in flight is no error', async () => {
    const id = await openSession();
    expect(await ada.post(`/api/sessions/${id}/abort`)).toMatchObject({ status: 200, body: { aborted: false } });
  });
});

describe('queued messages', () => {
  it('W7 can be cancelled, but only while they are queued', async () => {
    const id = await openSession();
    const running = await chat(id, 'hold back', 'b-1');
    await untilSpeaking(eventsOf(running));
    const { status, body } = await ada.post(`/api/sessions/${id}/messages`, { id: 'b-2', text: 'never mind' });
    expect({ status, body }).toEqual({ status: 202, body: { message_id: 'b-2', position: 1 } });
    expect((await ada.delete(`/api/sessions/${id}/messages/b-2`)).status).toBe(200);
    expect(await ada.delete(`/api/sessions/${id}/messages/b-1`)).toMatchObject({
      status: 409,
      body: { code: 'NotQueued' },
    });
    expect(await ada.delete(`/api/sessions/${id}/messages/none`)).toMatchObject({
      status: 404,
      body: { code: 'MessageNotFound' },
    });
    hold('hold back').resolve();
    await untilIdle(id);
    const ids = async (query: string) =>
      ((await ada.get(`/api/sessions/${id}/messages${query}`)).body as { items: UIMessage[] }).items.map(
        (message) => message.id,
      );
    expect(await ids('')).not.toContain('b-2');
    expect(await ids('?hidden=true')).toContain('b-2');
  });
});

describe('events of a session', () => {
  it('R5 report the start and end of a turn, and the status in between', async () => {
    const id = await openSession();
    const events = eventsOf(await otherHost.as('ada').fetch(`/api/sessions/${id}/events`));
    expect((await events.next()).value).toMatchObject({ event: 'status', data: { state: 'idle' } });
    await ada.post(`/api/sessions/${id}/messages`, { id: 'e-1', text: 'hold e-1' });
    const seen: { event: string; data: object }[] = [];
    for await (const event of events) {
      seen.push(event);
      // A turn that is over at once may have no status in between.
      if (event.event === 'status' && event.data.state === 'busy') hold('hold e-1').resolve();
      if (event.event === 'status' && event.data.state === 'idle') break;
    }
    expect(seen.find(({ event }) => event === 'turn-started')).toMatchObject({ data: { message_id: 'e-1' } });
    expect(seen.find(({ event }) => event === 'turn-finished')).toMatchObject({
      data: { message_id: 'e-1', outcome: 'finish' },
    });
    const busy = seen.find(({ event }) => event === 'status');
    expect(busy).toMatchObject({ data: { state: 'busy', message_id: 'e-1' } });
  });
});

describe('commands', () => {
  it('H7 with the same Idempotency-Key get the same response, and are carried out once', async () => {
    const id = await walkTo('verifying', ada);
    const key = { 'idempotency-key': 'publish-once' };
    const first = await ada.post(`/api/sessions/${id}/publish`, {}, key);
    const again = await ada.post(`/api/sessions/${id}/publish`, {}, key);
    expect([first.status, again.status, again.body]).toEqual([200, 200, first.body]);
    expect(await ada.post(`/api/sessions/${id}/publish`)).toMatchObject({
      status: 409,
      body: {
        code: 'InvalidTransition',
        detail: 'a session in phase "done" cannot take the event "publish"',
      },
    });
  });

  it('S3 open locks a project once', async () => {
    const id = await openSession();
    const open = (project_id: string) => ada.post(`/api/sessions/${id}/open`, { project_id });
    expect(await open('locked-1')).toMatchObject({ status: 200, body: { phase: 'chatting', project_id: 'locked-1' } });
    expect((await open('locked-1')).status).toBe(200);
    const other = await open('locked-2');
    expect(other).toMatchObject({ status: 409, body: { code: 'ProjectAlreadyLocked' } });
    expect(other.body.detail).toContain('locked-1');
  });

  it('W8 close is RunInFlight during a run unless `abort` is set; the next message opens the session again', async () => {
    const id = await openSession();
    await untilSpeaking(eventsOf(await chat(id, 'hold close')));
    expect(await ada.post(`/api/sessions/${id}/close`)).toMatchObject({ status: 409, body: { code: 'RunInFlight' } });
    expect(await ada.post(`/api/sessions/${id}/close`, { abort: true })).toMatchObject({
      status: 200,
      body: { aborted: true, dropped: [] },
    });
    hold('hold close').resolve();
    const chunks = await chunksOf(await chat(id, 'back again'));
    expect(chunks.at(-1)?.type).toBe('finish');
    expect((await ada.get(`/api/sessions/${id}`)).body.chat.closed_at).toBeNull();
  });

  it('W3 a reason is stored in the event log; cancel aborts a run in a phase without a cancel transition', async () => {
    const id = await openSession();
    await untilSpeaking(eventsOf(await chat(id, 'hold cancel')));
    const answer = await ada.post(`/api/cancel?session_id=${id}`, { reason: 'wrong page' });
    expect(answer).toMatchObject({ status: 200, body: { phase: 'chatting', cancelled: false, aborted: true } });
    hold('hold cancel').resolve();
    const { items } = (await ada.get(`/api/sessions/${id}/log`)).body as { items: { kind: string; data: object }[] };
    expect(items.find((item) => item.kind === 'reason')?.data).toEqual({ text: 'wrong page' });
    expect(await ada.post('/api/cancel')).toMatchObject({ status: 400, body: { code: 'BadRequest' } });
  });
});

describe('every (phase, event) pair that a user can raise, at the route', () => {
  const events: Record<string, (caller: TestCaller, id: string) => Promise<Answer>> = {
    open_existing: (caller, id) => caller.post(`/api/sessions/${id}/open`, { project_id: `prj-${id.slice(-8)}` }),
    publish: (caller, id) => caller.post(`/api/sessions/${id}/publish`),
    revert: (caller, id) => caller.post(`/api/sessions/${id}/revert`),
    cancel: (caller, id) => caller.post(`/api/sessions/${id}/cancel`),
  };
  const legal: Record<string, Record<string, string>> = {
    chatting: { open_existing: 'chatting' },
    building: { cancel: 'chatting' },
    verifying: { publish: 'done', revert: 'building', cancel: 'chatting' },
    done: {},
  };
  const pairs = Object.keys(legal).flatMap((phase) => Object.keys(events).map((event) => [phase, event] as const));

  it.concurrent.each(pairs)('%s, %s', async (phase, event) => {
    const id = await walkTo(phase, ada);
    const before = await sessionOf(id);
    const answer = await events[event]!(ada, id);
    const next = legal[phase]![event];
    if (next !== undefined) {
      expect(answer).toMatchObject({ status: 200, body: { phase: next } });
      expect((await sessionOf(id)).phase).toBe(next);
    } else {
      // `done` allows open_existing, but these sessions have built, so they have locked another project.
      const code = phase === 'done' && event === 'open_existing' ? 'ProjectAlreadyLocked' : 'InvalidTransition';
      expect(answer).toMatchObject({ status: 409, body: { code } });
      if (code === 'InvalidTransition')
        expect(answer.body.detail).toContain(`"${phase}" cannot take the event "${event}"`);
      expect(await sessionOf(id)).toEqual(before);
    }
  });

  it('S4 done, open_existing of its own project', async () => {
    const id = await walkTo('done', ada);
    const { project_id } = await sessionOf(id);
    expect(await ada.post(`/api/sessions/${id}/open`, { project_id })).toMatchObject({
      status: 200,
      body: { phase: 'chatting', project_id },
    });
  });
});
