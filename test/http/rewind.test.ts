// Going back in a conversation, over HTTP and by signal, with a worker and a scripted model.
import { DefaultChatTransport, readUIMessageStream, type UIMessage } from 'ai';
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { newestOpen } from '../../store/rendezvous.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { chunksOf, eventsOf, startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { signals } from '../../workflows/definitions.ts';
import { raise } from '../faults/rows.ts';

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
let db: pg.Pool;
/** Answers that begin with "hold" end when it resolves. */
const held = Promise.withResolvers<void>();
beforeAll(async () => {
  let answers = 0;
  runtime = await startRuntime({
    async *script(request) {
      answers += 1;
      const text = lastUserText(request);
      if (text.startsWith('hang')) return yield* [say('So far'), hang()];
      if (text.startsWith('hold')) await held.promise;
      yield say(`${text}, answer ${answers}`);
    },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
  ada = host.as('ada');
  db = patientPool(databaseUrl);
  afterFile(() => db.end());
});

/** A chat page: the transcript of `useChat`, and its transport. */
class Page {
  readonly id = newId('msg');
  messages: UIMessage[] = [];
  private readonly transport = new DefaultChatTransport({
    api: `${host.url}/api/chat`,
    headers: { 'x-perdure-user': 'ada' },
  });

  /** Sends a new message, or one in place of `messageId`, as `sendMessage` does. */
  async send(text: string, messageId?: string): Promise<string> {
    const at = messageId === undefined ? this.messages.length : this.messages.findIndex(({ id }) => id === messageId);
    const message: UIMessage = { id: messageId ?? newId('msg'), role: 'user', parts: [{ type: 'text', text }] };
    this.messages = [...this.messages.slice(0, at), message];
    return this.stream('submit-message', messageId);
  }

  /** As `regenerate` does. */
  async regenerate(messageId?: string): Promise<string> {
    const at =
      messageId === undefined ? this.messages.length - 1 : this.messages.findIndex(({ id }) => id === messageId);
    const isAnswer = this.messages[at]!.role === 'assistant';
    this.messages = this.messages.slice(0, isAnswer ? at : at + 1);
    return this.stream('regenerate-message', messageId);
  }

  private async stream(trigger: 'submit-message' | 'regenerate-message', messageId?: string): Promise<string> {
    const { id: chatId, messages } = this;
    const stream = await this.transport.sendMessages({ trigger, chatId, messageId, messages, abortSignal: undefined });
    let answer: UIMessage | undefined;
    for await (const message of readUIMessageStream({ stream })) answer = message;
    this.messages = [...messages, answer!];
    return textOf(answer!);
  }

  async stored(): Promise<string[]> {
    return textsOf(this.id);
  }
}

const textOf = (message: UIMessage) => message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

async function textsOf(session: string): Promise<string[]> {
  const { body } = await ada.get(`/api/sessions/${session}/messages`);
  return (body.items as UIMessage[]).map(textOf);
}

const without = (texts: string[]) => texts.map((text) => text.replace(/, answer \d+$/, '!'));

/** Sends a message without reading its answer, until the model has it. */
async function begun(session: string, text: string, id = newId('msg')): Promise<{ number: number; id: string }> {
  const number = runtime.model.requests.length;
  await ada.post(`/api/sessions/${session}/messages`, { id, text });
  await runtime.model.request(number);
  return { number, id };
}

/** Waits until the connection of a request to the provider is closed. */
function hungUp(request: number): Promise<void> {
  return eventually(async () => expect(runtime.model.requests[request]!.end).toBe('client-closed'));
}

describe('the commands', () => {
  it('X1 rewind hands the text back, un-rewind brings all back, and the next message replaces it', async () => {
    const page = new Page();
    await page.send('one');
    await page.send('two');
    const all = await ada.get(`/api/sessions/${page.id}/messages`);
    const one = page.messages[0]!.id;
    const rewound = await ada.post(`/api/sessions/${page.id}/rewind`, { message_id: one });
    expect(rewound).toMatchObject({
      status: 200,
      body: { phase: 'chatting', hidden: 3, aborted: false, dropped: [], message: { id: one, role: 'user' } },
    });
    expect(textOf(rewound.body.message as UIMessage)).toBe('one');
    expect(await page.stored()).toEqual(['one']);
    const { body } = await ada.get(`/api/sessions/${page.id}/messages?hidden=true`);
    expect((body.items as UIMessage[]).map((item) => (item.metadata as { hidden_by?: object }).hidden_by)).toEqual([
      undefined,
      ...Array.from({ length: 3 }, () => ({ cause: 'rewind', id: `event:${String(rewound.body.event_seq)}` })),
    ]);
    expect(await ada.post(`/api/sessions/${page.id}/unrewind`)).toMatchObject({ body: { message_id: one, shown: 3 } });
    expect((await ada.get(`/api/sessions/${page.id}/messages`)).body).toEqual(all.body);

    await host.client.commands.rewind('ada', page.id, { message_id: one });
    page.messages = [];
    await page.send('three');
    expect(without(await page.stored())).toEqual(['three', 'three!']);
    const seen = runtime.model.requests.at(-1)!.body.messages as { role: string }[];
    expect(
      seen.filter(({ role }) => role !== 'system'),
      'the model sees the past as if the rest had never been',
    ).toHaveLength(1);
    expect(await ada.post(`/api/sessions/${page.id}/unrewind`)).toMatchObject({
      status: 409,
      body: { code: 'NothingToUnrewind' },
    });
  });

  it('X1 a session that is read says what it was gone back to, and so does its stream of events', async () => {
    const page = new Page();
    for (const text of ['one', 'two', 'three']) await page.send(text);
    expect((await ada.get(`/api/sessions/${page.id}`)).body).toMatchObject({ gone_back_to: null });
    const following = new AbortController();
    const events = eventsOf(await ada.fetch(`/api/sessions/${page.id}/events`, { signal: following.signal }));
    expect(await events.next()).toMatchObject({ value: { event: 'status' } });
    // Not by `for await`, which would close the stream.
    const told = async (): Promise<unknown> => {
      const { value } = await events.next();
      return value?.event === 'session' ? value.data : told();
    };
    const expectGoneBackTo = async (id: string | null) => {
      expect((await ada.get(`/api/sessions/${page.id}`)).body).toMatchObject({ gone_back_to: id });
      expect(await told()).toEqual({ phase: 'chatting', project_id: null, pending_tool: null, gone_back_to: id });
    };
    const [one, , , , three] = page.messages;
    await ada.post(`/api/sessions/${page.id}/rewind`, { message_id: three!.id });
    await expectGoneBackTo(three!.id);
    await ada.post(`/api/sessions/${page.id}/rewind`, { message_id: one!.id });
    await expectGoneBackTo(one!.id);
    await ada.post(`/api/sessions/${page.id}/unrewind`);
    await expectGoneBackTo(three!.id);
    const { body: branch } = await ada.post(`/api/sessions/${page.id}/branch`, { from_message_id: three!.id });
    expect(branch, 'a branch at it was not gone back to').toMatchObject({ gone_back_to: null });
    page.messages = page.messages.slice(0, 4);
    await page.send('four');
    await expectGoneBackTo(null);
    expect(without(await page.stored())).toEqual(['one', 'one!', 'two', 'two!', 'four', 'four!']);
    following.abort();
    const { items } = (await ada.get('/api/sessions')).body as { items: object[] };
    expect(
      items.some((item) => 'gone_back_to' in item),
      'a list does not say it',
    ).toBe(false);
  });

  it('X1 with `abort` a rewind ends the run: the connection to the provider closes, and the queue is dropped', async () => {
    const page = new Page();
    await page.send('one');
    const { number, id } = await begun(page.id, 'hang two');
    await ada.post(`/api/sessions/${page.id}/messages`, { id: 'queued-by-ada', text: 'three' });
    const refused = await ada.post(`/api/sessions/${page.id}/rewind`, { message_id: id });
    expect(refused).toMatchObject({ status: 409, body: { code: 'RunInFlight' } });
    const rewound = await ada.post(`/api/sessions/${page.id}/rewind`, { message_id: id, abort: true });
    expect(rewound).toMatchObject({ status: 200, body: { aborted: true, dropped: ['queued-by-ada'] } });
    await hungUp(number);
    expect((await ada.get(`/api/sessions/${page.id}/status`)).body).toEqual({ state: 'idle' });
    await page.send('four');
    expect(without(await page.stored())).toEqual(['one', 'one!', 'four', 'four!']);
  });

  it('X1 neither changes phase, project or state', async () => {
    const opened = await ada.post('/api/sessions', { project_id: newId('prj') });
    const id = opened.body.session.session_id as string;
    await ada.post(`/api/sessions/${id}/state`, { stateDelta: { plan: ['roses'], 'user:name': 'Ada' } });
    await raise(db, id, ['start_build', 'todo_done_build']);
    const said = await begun(id, 'one');
    await eventually(async () => expect(await textsOf(id)).toHaveLength(2));
    await begun(id, 'two');
    await eventually(async () => {
      expect((await ada.get(`/api/sessions/${id}/status`)).body).toEqual({ state: 'idle' });
      expect(await textsOf(id)).toHaveLength(4);
    });
    const promised = async () => [
      (await ada.get(`/api/sessions/${id}`)).body.session as object,
      (await ada.get(`/api/sessions/${id}/state`)).body as object,
    ];
    const before = await promised();
    expect(before).toMatchObject([{ phase: 'verifying' }, { state: { plan: ['roses'] } }]);
    await ada.post(`/api/sessions/${id}/rewind`, { message_id: said.id });
    expect([await textsOf(id), await promised()]).toEqual([['one'], before]);
    await ada.post(`/api/sessions/${id}/unrewind`);
    expect([(await textsOf(id)).length, await promised()]).toEqual([4, before]);
  });

  it('W2 the signals of their names do the same, and one that is refused is recorded', async () => {
    const page = new Page();
    await page.send('one');
    await page.send('two');
    const { body } = await ada.get(`/api/sessions/${page.id}`);
    const session = TestSession.of(runtime, body.session.session_id as string);
    await session.handle.signal(signals.rewind, { message_id: page.messages[1]!.id });
    await session.handle.signal(signals.rewind, { message_id: page.messages[0]!.id });
    await eventually(async () => expect(await page.stored()).toEqual(['one']));
    const { items } = (await ada.get(`/api/sessions/${page.id}/log`)).body;
    expect((items as object[]).slice(-2)).toMatchObject([
      { kind: 'refused', actor: 'operator', data: { command: 'rewind', outcome: { code: 'NotUserMessage' } } },
      { kind: 'rewind', actor: 'operator', data: { hidden: 3 } },
    ]);
    await session.handle.signal(signals.unrewind);
    await eventually(async () => expect(await page.stored()).toHaveLength(4));
    await session.handle.signal(signals.unrewind);
    await eventually(async () => {
      const { body: log } = await ada.get(`/api/sessions/${page.id}/log`);
      expect((log.items as object[]).slice(-2)).toMatchObject([
        { kind: 'unrewind', actor: 'operator', data: { shown: 3 } },
        { kind: 'refused', actor: 'operator', data: { command: 'unrewind', outcome: { code: 'NothingToUnrewind' } } },
      ]);
    });
  });

  it('X1 bad targets have errors of their own, and change nothing', async () => {
    const [page, other] = [new Page(), new Page()];
    await page.send('one');
    await page.send('two');
    await other.send('elsewhere');
    const [, answer, two] = page.messages;
    const rewind = (id: string) => ada.post(`/api/sessions/${page.id}/rewind`, { message_id: id });
    const refusals: [string, number, string][] = [
      [answer!.id, 409, 'NotUserMessage'],
      [other.messages[0]!.id, 404, 'MessageNotFound'],
      ['not an id', 400, 'BadRequest'],
    ];
    for (const [id, status, code] of refusals) expect(await rewind(id)).toMatchObject({ status, body: { code } });
    expect(await page.stored()).toHaveLength(4);
    await rewind(page.messages[0]!.id);
    const hidden = await rewind(two!.id);
    expect(hidden).toMatchObject({ status: 409, body: { code: 'MessageHidden' } });
    expect(hidden.body.detail).toContain('undo that first');
    expect(await page.stored()).toEqual(['one']);
  });
});

describe('a branch', () => {
  it('X4 is a session of its own beside its parent, and its metadata never reaches Temporal', async () => {
    const page = new Page();
    await page.send('one');
    const first = page.messages.at(-1)!.id;
    await page.send('two');
    const { body: parent } = await ada.get(`/api/sessions/${page.id}`);
    const canary = 'a title that Temporal must not see';
    const given = { from_message_id: first, metadata: { title: canary }, model: 'openai/test' };
    const key = { 'idempotency-key': newId('cmd') };
    const made = await ada.post(`/api/sessions/${page.id}/branch`, given, key);
    expect(made).toMatchObject({
      status: 201,
      body: {
        session: { phase: 'chatting', user_id: 'ada' },
        chat: { parent_id: parent.session.session_id, parent_message_id: first, metadata: { title: canary } },
        status: { state: 'idle' },
      },
    });
    const id = made.body.session.session_id as string;
    expect((await ada.post(`/api/sessions/${page.id}/branch`, given, key)).body.session.session_id).toBe(id);
    expect(without(await textsOf(id))).toEqual(['one', 'one!']);
    const copy = await begun(id, 'three');
    await eventually(async () => expect(without(await textsOf(id))).toEqual(['one', 'one!', 'three', 'three!']));
    expect(runtime.model.requests[copy.number]).toBeDefined();
    expect(without(await page.stored())).toEqual(['one', 'one!', 'two', 'two!']);
    const { body: listed } = await ada.get(`/api/sessions?parent=${parent.session.session_id as string}`);
    expect((await ada.get(`/api/sessions?parent=${page.id}`)).body, 'H8 by an alias').toEqual(listed);
    expect((await ada.get('/api/sessions?parent=nothing')).body.items).toEqual([]);
    expect((listed.items as { session: object }[]).map(({ session }) => session)).toMatchObject([{ session_id: id }]);
    const history = await TestSession.of(runtime, parent.session.session_id as string).handle.fetchHistory();
    expect(JSON.stringify(history)).not.toContain(Buffer.from(canary).toString('base64').slice(4, 30));
  });

  it('X4 T8 is listed with its parent, unless it is a side chat, or archived and not asked for', async () => {
    const page = new Page();
    await page.send('one');
    const parent = (await ada.get(`/api/sessions/${page.id}`)).body.session.session_id as string;
    const branch = async (metadata: object) => {
      const given = { from_message_id: page.messages[0]!.id, metadata };
      return (await ada.post(`/api/sessions/${parent}/branch`, given)).body.session.session_id as string;
    };
    const [plain, , archived] = [await branch({}), await branch({ ephemeral: true }), await branch({})];
    await ada.post(`/api/sessions/${archived}/archive`);
    const listed = async (query: string) => {
      const { items } = (await ada.get(`/api/sessions?parent=${parent}${query}`)).body;
      return (items as { session: { session_id: string } }[]).map(({ session }) => session.session_id);
    };
    expect(await listed('')).toEqual([plain]);
    expect(await listed('&archived=true')).toEqual([archived, plain]);
  });

  it('X4 that would be too large is refused, with what to do instead', async () => {
    const page = new Page();
    const { body: opened } = await ada.post('/api/sessions', { metadata: { text: 'x'.repeat(16_000) } });
    const id = opened.session.session_id as string;
    await begun(id, 'one', `${id}-1`);
    await eventually(async () => expect(await textsOf(id)).toHaveLength(2));
    const given = { from_message_id: `${id}-1`, metadata: { more: 'x'.repeat(1_000) } };
    expect(await ada.post(`/api/sessions/${id}/branch`, given)).toMatchObject({
      status: 413,
      body: { code: 'TooLarge', errors: [{ field: 'metadata' }] },
    });
    await page.send('one');
    await page.send('two');
    const [one] = page.messages;
    await runtime.db.query('ALTER TABLE chat_parts ALTER data SET STORAGE EXTERNAL');
    await runtime.db.query(
      `INSERT INTO chat_parts (session_id, id, message_id, index, type, data)
       SELECT session_id, 'large', id, 1, 'data-large', jsonb_build_object('data', repeat('x', 65 * 1024 * 1024))
         FROM chat_messages WHERE id = $1`,
      [one!.id],
    );
    const from_message_id = page.messages.at(-1)!.id;
    const refused = await ada.post(`/api/sessions/${page.id}/branch`, { from_message_id });
    expect(refused).toMatchObject({ status: 413, body: { code: 'TooLarge' } });
    expect(refused.body.detail).toContain('tail_turns');
    const made = await ada.post(`/api/sessions/${page.id}/branch`, { from_message_id, tail_turns: 1 });
    expect(made.status).toBe(201);
  });

  it('X4 of a bad kind is refused by name', async () => {
    const page = new Page();
    await page.send('one');
    const [one] = page.messages;
    const refusals: [object, number, string][] = [
      [{ from_message_id: 'nothing' }, 404, 'MessageNotFound'],
      [{ from_message_id: one!.id, model: 'openai/none' }, 422, 'ModelNotConfigured'],
      [{ from_message_id: one!.id, tail_turns: 0 }, 400, 'BadRequest'],
      [{ from_message_id: one!.id, tail_turns: 1, from_start_message_id: one!.id }, 409, 'InvalidRange'],
      [{ from_message_id: one!.id, metadata: { text: 'x'.repeat(17_000) } }, 413, 'TooLarge'],
    ];
    for (const [given, status, code] of refusals) {
      expect(await ada.post(`/api/sessions/${page.id}/branch`, given)).toMatchObject({ status, body: { code } });
    }
    await begun(page.id, 'hang on');
    expect(await ada.post(`/api/sessions/${page.id}/branch`, { from_message_id: one!.id })).toMatchObject({
      status: 409,
      body: { code: 'RunInFlight' },
    });
    await ada.post(`/api/sessions/${page.id}/abort`);
  });
});

describe('the AI SDK through /chat', () => {
  it('X1 H8 an edit replaces the message, and the page goes on with the id that it knows', async () => {
    const page = new Page();
    await page.send('one');
    await page.send('two');
    const [one] = page.messages;
    expect(without([await page.send('uno', one!.id)])).toEqual(['uno!']);
    expect(without(await page.stored())).toEqual(['uno', 'uno!']);
    expect(without([await page.send('eins', one!.id)])).toEqual(['eins!']);
    await page.send('zwei');
    expect(without(await page.stored())).toEqual(['eins', 'eins!', 'zwei', 'zwei!']);
  });

  it('X1 H8 the same edit sent again joins its stream', async () => {
    const page = new Page();
    await page.send('one');
    const [one] = page.messages;
    const first = await page.send('uno', one!.id);
    const asked = runtime.model.requests.length;
    expect(await page.send('uno', one!.id)).toBe(first);
    expect(runtime.model.requests).toHaveLength(asked);
  });

  it('X1 H8 the same edit sent twice while its turn is in flight is one turn with one answer', async () => {
    const page = new Page();
    await page.send('one');
    const asked = runtime.model.requests.length;
    const message = { id: page.messages[0]!.id, role: 'user', parts: [{ type: 'text', text: 'hold uno' }] };
    const body = JSON.stringify({ id: page.id, messages: [message], messageId: message.id });
    const first = await ada.fetch('/api/chat', { method: 'POST', body });
    await runtime.model.request(asked);
    const second = await ada.fetch('/api/chat', { method: 'POST', body });
    held.resolve();
    const answers = await Promise.all([first, second].map(chunksOf));
    const [one, two] = answers.map((chunks) =>
      chunks.flatMap((chunk) => ('messageId' in chunk ? [chunk.messageId] : 'delta' in chunk ? [chunk.delta] : [])),
    );
    expect(two).toEqual(one);
    expect(one!.slice(1).join('')).toMatch(/^hold uno, answer/);
    expect(runtime.model.requests).toHaveLength(asked + 1);
  });

  it('H8 regenerating answers the same user row again, and the page has the new answer only', async () => {
    const page = new Page();
    const first = await page.send('one');
    const answer = page.messages.at(-1)!.id;
    const second = await page.regenerate();
    expect(second).not.toBe(first);
    expect(await page.stored()).toEqual(['one', second]);
    page.messages = [page.messages[0]!, { id: answer, role: 'assistant', parts: [] }];
    expect(await page.regenerate(answer), 'the answer that is replaced already').toBe(second);
    await page.send('two');
    const asked = runtime.model.requests.length;
    const third = await page.regenerate(page.messages[0]!.id);
    expect(runtime.model.requests).toHaveLength(asked + 1);
    expect(await page.stored()).toEqual(['one', third]);
  });

  it('X1 both end the run in flight', async () => {
    const page = new Page();
    await page.send('one');
    const { number } = await begun(page.id, 'hang two');
    const second = await page.regenerate(page.messages[0]!.id);
    await hungUp(number);
    expect(await page.stored()).toEqual(['one', second]);
    const again = await begun(page.id, 'hang three');
    const third = await page.send('uno', page.messages[0]!.id);
    await hungUp(again.number);
    expect(await page.stored()).toEqual(['uno', third]);
  });

  it('H8 a bad target is refused, and changes nothing', async () => {
    const page = new Page();
    await page.send('one');
    await page.send('two');
    const [one, answer, two] = page.messages;
    const ask = (more: object) => {
      const message = { id: two!.id, role: 'user', parts: [{ type: 'text', text: 'other' }] };
      return ada.post('/api/chat', { id: page.id, messages: [message], ...more });
    };
    expect(await ask({ messageId: answer!.id })).toMatchObject({ status: 409, body: { code: 'NotUserMessage' } });
    const unknown = { id: 'unknown', role: 'user', parts: [] };
    expect(await ask({ trigger: 'regenerate-message', messages: [unknown] })).toMatchObject({
      status: 404,
      body: { code: 'MessageNotFound' },
    });
    for (const more of [{ messageId: two!.id }, { trigger: 'regenerate-message' }]) {
      expect(await ask({ ...more, agent: 'nobody' }), 'an agent is checked as in a new message').toMatchObject({
        status: 400,
        body: { detail: 'agent: expected "site-builder", the agent of this session, or none' },
      });
    }
    expect(await page.stored()).toHaveLength(4);
    await ada.post(`/api/sessions/${page.id}/rewind`, { message_id: one!.id });
    for (const more of [{ messageId: two!.id }, { trigger: 'regenerate-message' }]) {
      expect(await ask(more)).toMatchObject({ status: 409, body: { code: 'MessageHidden' } });
    }
    expect(await page.stored()).toEqual(['one']);
  });

  it('H8 a `messageId` that is not stored is that of a new message', async () => {
    const message = { id: 'm-new', role: 'user', parts: [{ type: 'text', text: 'hello' }] };
    const body = JSON.stringify({ id: newId('msg'), messages: [message], messageId: 'm-new' });
    const chunks = await chunksOf(await ada.fetch('/api/chat', { method: 'POST', body }));
    expect(chunks.at(-1)).toMatchObject({ type: 'finish' });
  });
});

describe('archive', () => {
  it('T8 takes a session out of lists and the rendezvous, and back, whatever runs; its title is the one it was given', async () => {
    const page = new Page();
    await page.send('Build me a garden');
    const { session_id: id } = (await ada.get(`/api/sessions/${page.id}`)).body.session as { session_id: string };
    const isListed = async (query = '') => {
      const { items } = (await ada.get(`/api/sessions?limit=200${query}`)).body as {
        items: { session: { session_id: string } }[];
      };
      return items.some(({ session }) => session.session_id === id);
    };
    const titleOf = async () => (await newestOpen(db, 'ada', 200)).find((row) => row.session_id === id)?.title;
    expect([await isListed(), await titleOf()]).toEqual([true, 'Build me a garden']);
    await ada.post(`/api/sessions/${id}/rename`, { title: 'The garden' });
    expect(await titleOf()).toBe('The garden');
    expect((await ada.get(`/api/sessions/${id}`)).body).toMatchObject({ title: 'The garden' });
    const archived = await ada.post(`/api/sessions/${id}/archive`, {});
    expect([archived.status, archived.body]).toEqual([200, expect.objectContaining({ archived: true })]);
    expect([await isListed(), await isListed('&archived=true'), await titleOf()]).toEqual([false, true, undefined]);
    expect((await ada.post(`/api/sessions/${id}/archive`, { archived: false })).body).toMatchObject({
      archived: false,
    });
    expect([await isListed(), await titleOf()]).toEqual([true, 'The garden']);
    expect((await ada.post(`/api/sessions/${id}/archive`, { archived: 'no' })).status).toBe(400);
  });
});
