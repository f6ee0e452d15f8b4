// perdure/adk: ADK's own Runner over our sessions, and the same random operations on ours and on ADK's session services.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  type BaseLlmConnection,
  BaseLlm,
  type BaseSessionService,
  createEvent,
  createEventActions,
  type Event as AdkEvent,
  FunctionTool,
  InMemorySessionService as AdkInMemorySessionService,
  LlmAgent,
  type LlmRequest,
  type LlmResponse,
  Runner,
  type Session,
  State,
} from '@google/adk';
import { DatabaseSessionService } from '@google/adk/sessions/database';
import { jsonSchema, type ModelMessage, streamText, type ToolSet } from 'ai';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { PerdureSessionService } from '../../client/state/adk.ts';
import {
  InMemorySessionService,
  PostgresSessionService,
  State as OwnState,
  StatePrefix,
} from '../../client/state/index.ts';
import { newId } from '../../domain/ids.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { randomIntegers } from '../../tools/test-kit/cases.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { startModelServer } from '../../tools/test-kit/model-server.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { freshRows } from './session.ts';

const db = await freshRows({ max: 8 });
const perdure = new PerdureSessionService(new PostgresSessionService({ database: db }));

/** A model of ADK that calls an OpenAI-compatible server. */
class LoopbackLlm extends BaseLlm {
  private readonly url: string;

  constructor(url: string) {
    super({ model: 'test' });
    this.url = url;
  }

  async *generateContentAsync({ contents, config }: LlmRequest): AsyncGenerator<LlmResponse, void> {
    const provider = createOpenAICompatible({ name: 'loopback', baseURL: this.url, apiKey: 'none' });
    const declared = (config?.tools ?? []).flatMap((each) =>
      'functionDeclarations' in each ? (each.functionDeclarations ?? []) : [],
    );
    const inputSchema = jsonSchema<Record<string, unknown>>({ type: 'object' });
    const tools: ToolSet = Object.fromEntries(declared.map(({ name = '' }) => [name, { inputSchema }]));
    const system = config?.systemInstruction;
    const result = streamText({
      model: provider.chatModel('test'),
      tools,
      ...(typeof system === 'string' && { system }),
      messages: contents.flatMap(messagesOf),
    });
    const calls = (await result.toolCalls).map(({ toolCallId: id, toolName: name, input }) => ({
      functionCall: { id, name, args: input as Record<string, unknown> },
    }));
    const text = await result.text;
    yield { content: { role: 'model', parts: [...(text === '' ? [] : [{ text }]), ...calls] } };
  }

  connect(): Promise<BaseLlmConnection> {
    throw new Error('not used');
  }
}

function messagesOf({ role, parts = [] }: LlmRequest['contents'][number]): ModelMessage[] {
  return parts.map((part): ModelMessage => {
    const { text, functionCall: call, functionResponse: response } = part;
    if (call !== undefined) {
      const input = call.args ?? {};
      return {
        role: 'assistant',
        content: [{ type: 'tool-call', toolCallId: call.id ?? '', toolName: call.name ?? '', input }],
      };
    }
    if (response !== undefined) {
      const output = { type: 'json' as const, value: response.response as never };
      return {
        role: 'tool',
        content: [{ type: 'tool-result', toolCallId: response.id ?? '', toolName: response.name ?? '', output }],
      };
    }
    return { role: role === 'model' ? 'assistant' : 'user', content: text ?? '' };
  });
}

it('K2 ADK’s own Runner drives an agent over our sessions, and its state survives in Postgres', async () => {
  const model = await startModelServer((request) =>
    request.messages.some(({ role }) => role === 'tool')
      ? [say('It is dark.')]
      : [callTool('call_1', 'set_theme', { theme: 'dark' })],
  );
  afterFile(() => model.close());
  const seen: unknown[] = [];
  const setTheme = new FunctionTool({
    name: 'set_theme',
    description: 'Sets the theme',
    parameters: z.object({ theme: z.string() }),
    execute: ({ theme }, context) => {
      seen.push(context?.state.get('user:visits'), context?.state.get('temp:note'));
      context?.state.set('user:theme', theme);
      context?.state.set('temp:note', 'canary-adk');
      context?.state.set('step', { n: 1 });
      return { theme };
    },
  });
  const agent = new LlmAgent({
    name: 'themer',
    model: new LoopbackLlm(model.url),
    instruction: 'The user has visited {user:visits} times.',
    tools: [setTheme],
    outputKey: 'last_answer',
  });
  const who = { appName: 'themes', userId: 'ada', sessionId: 'one' };
  await perdure.createSession({ ...who, state: { 'user:visits': 3 } });
  const runner = new Runner({ appName: who.appName, agent, sessionService: perdure });
  for await (const _event of runner.runAsync({
    ...who,
    newMessage: { role: 'user', parts: [{ text: 'dark, please' }] },
  }));
  expect(seen).toEqual([3, undefined]);
  expect(JSON.stringify(model.requests[0]?.body)).toContain('The user has visited 3 times.');
  const stored = (await perdure.getSession(who))!;
  expect(stored.state).toEqual({ 'user:visits': 3, 'user:theme': 'dark', step: { n: 1 }, last_answer: 'It is dark.' });
  expect(stored.events.map(({ author, content }) => [author, Object.keys(content?.parts?.[0] ?? {})[0]])).toEqual([
    ['user', 'text'],
    ['themer', 'functionCall'],
    ['themer', 'functionResponse'],
    ['themer', 'text'],
  ]);
  const { rows } = await db.query(`SELECT FROM session_events WHERE data::text LIKE '%canary-adk%'`);
  expect(rows).toEqual([]);
  // A second turn on another object continues with the stored events.
  for await (const _event of runner.runAsync({ ...who, newMessage: { role: 'user', parts: [{ text: 'again' }] } }));
  expect((await perdure.getSession(who))!.events.length).toBeGreaterThan(stored.events.length);
});

it('K2 an ADK session object that is stale is refused by our service; temp: values stay in the object', async () => {
  const session = await perdure.createSession({ appName: 'fence', userId: newId('cmd'), state: { n: 1 } });
  const key = { appName: session.appName, userId: session.userId, sessionId: session.id };
  const stale = (await perdure.getSession(key))!;
  const event = (stateDelta: Record<string, unknown>) =>
    createEvent({ author: 'a', actions: createEventActions({ stateDelta }) });
  session.state['temp:kept'] = 1;
  await perdure.appendEvent({ session, event: event({ n: 2, 'temp:dropped': 1 }) });
  expect(session.state).toEqual({ n: 2, 'temp:kept': 1 });
  await expect(perdure.appendEvent({ session: stale, event: event({ n: 9 }) })).rejects.toMatchObject({
    code: 'StaleSession',
  });
  await perdure.appendEvent({ session: stale, event: event({ m: 1 }) });
  expect(stale.state).toEqual({ n: 2, m: 1 });
  expect(stale.events).toHaveLength(2);
  expect((await perdure.listSessions({ appName: 'fence' })).sessions).toMatchObject([{ id: session.id, events: [] }]);
});

it('K2 events that are appended to one ADK session object at once are stored one after the other', async () => {
  const session = await perdure.createSession({ appName: 'contexts', userId: newId('cmd') });
  const events = ['a', 'b', 'c'].map((id, n) =>
    createEvent({ id, author: 'a', actions: createEventActions({ stateDelta: { n } }) }),
  );
  await Promise.all(events.map((event) => perdure.appendEvent({ session, event })));
  const stored = (await perdure.getSession({ ...session, sessionId: session.id }))!;
  for (const each of [session, stored]) {
    expect([each.events.map(({ id }) => id), each.state]).toEqual([['a', 'b', 'c'], { n: 2 }]);
  }
});

it('K2 the prefixes of keys have the names and values of ADK, also as members of State', () => {
  const { APP_PREFIX, USER_PREFIX, TEMP_PREFIX } = State;
  expect(StatePrefix).toEqual({ APP_PREFIX, USER_PREFIX, TEMP_PREFIX });
  expect([OwnState.APP_PREFIX, OwnState.USER_PREFIX, OwnState.TEMP_PREFIX]).toEqual([
    APP_PREFIX,
    USER_PREFIX,
    TEMP_PREFIX,
  ]);
});

/** A session of a new user, and what appends to it with an object of its own. */
async function shared(state: Record<string, unknown>) {
  const who = { appName: 'contexts', userId: newId('cmd') };
  const session = await perdure.createSession({ ...who, state });
  const read = async () => (await perdure.getSession({ ...who, sessionId: session.id }))!;
  const another = async (stateDelta: Record<string, unknown>) => {
    const event = createEvent({ author: 'b', actions: createEventActions({ stateDelta }) });
    await perdure.appendEvent({ session: await read(), event });
  };
  return { session, read, another };
}

it('K2 what one of ADK’s contexts has set survives the events of others on the same object', async () => {
  const { session, read, another } = await shared({ n: 1, k: 1 });
  const [first, second] = [1, 2].map(() => {
    const event = createEvent({ author: 'a', actions: createEventActions() });
    return { event, state: new State(session.state, event.actions.stateDelta) };
  }) as [{ event: AdkEvent; state: State }, { event: AdkEvent; state: State }];
  first.state.set('n', 2);
  second.state.update({ n: 3, draft: 1 });
  await another({ k: 2 });
  await perdure.appendEvent({ session, event: first.event });
  expect(session.state).toEqual({ n: 3, draft: 1, k: 2 });
  await perdure.appendEvent({ session, event: second.event });
  expect(session.state).toEqual({ n: 3, draft: 1, k: 2 });
  expect((await read()).state).toEqual(session.state);
});

it('K2 what one of ADK’s contexts has set is refused if another object has changed the key meanwhile', async () => {
  const { session, another } = await shared({ k: 1 });
  const setting = createEvent({ author: 'a', actions: createEventActions() });
  new State(session.state, setting.actions.stateDelta).set('k', 4);
  await another({ k: 3 });
  await perdure.appendEvent({ session, event: createEvent({ author: 'a' }) });
  expect(session.state['k']).toBe(4);
  await expect(perdure.appendEvent({ session, event: setting })).rejects.toMatchObject({ code: 'StaleSession' });
});

it('K2 an event that waits for another on the same ADK object does not overwrite what that one brings', async () => {
  const { session, another } = await shared({ n: 1 });
  await another({ n: 5 });
  const waiting = createEvent({ author: 'a', actions: createEventActions({ stateDelta: { n: 6 } }) });
  const answers = await Promise.allSettled(
    [createEvent({ author: 'a' }), waiting].map((event) => perdure.appendEvent({ session, event })),
  );
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
});

it.each([
  ['is stored', false],
  ['is refused if another object has changed the key meanwhile', true],
])(
  'K2 what one of ADK’s contexts has changed inside of a value survives the events of others, and %s',
  async (_end, isStale) => {
    const { session, read, another } = await shared({ cart: ['a'] });
    const adding = createEvent({ author: 'a', actions: createEventActions() });
    const context = new State(session.state, adding.actions.stateDelta);
    const cart = context.get('cart') as string[];
    cart.push('b');
    context.set('cart', cart);
    if (isStale) await another({ cart: ['foreign'] });
    await perdure.appendEvent({ session, event: createEvent({ author: 'a' }) });
    expect(session.state['cart']).toBe(cart);
    const appending = perdure.appendEvent({ session, event: adding });
    if (isStale) await expect(appending).rejects.toMatchObject({ code: 'StaleSession' });
    else await appending;
    expect((await read()).state).toEqual({ cart: isStale ? ['foreign'] : ['a', 'b'] });
  },
);

/** ADK behaves as ours here, apart from what docs/state.md lists: the operations avoid those cases. */
it('K5 random operations do the same in ADK’s services and in ours', async () => {
  const adkDatabase = new DatabaseSessionService(await freshDatabase({ empty: true }));
  const services: BaseSessionService[] = [
    new AdkInMemorySessionService(),
    adkDatabase,
    new PerdureSessionService(new InMemorySessionService()),
    perdure,
  ];
  const random = randomIntegers('operations');
  const value = () => [1, 'x', null, true, { a: [1.5, { b: '' }] }, [], 0][random(7)];
  const names = ['a', 'b', 'user:a', 'app:a', 'temp:a', 'x:a'];
  for (let round = 0; round < 8; round += 1) {
    const appName = newId('prj');
    // ADK's service in memory puts `user:` and `app:` keys of a new session in the session.
    const hasShared = round % 2 === 1;
    const compared = hasShared ? services.slice(1) : services;
    const held = compared.map(() => new Set<string>());
    const times: number[] = [];
    const shown = (session: Session | undefined) =>
      session && {
        state: { ...session.state },
        events: session.events.map(({ id, author, actions }) => [id, author, { ...actions.stateDelta }]),
      };
    for (let n = 0; n < 40; n += 1) {
      const userId = ['ada', 'bob'][random(2)]!;
      const sessionId = `s${random(3)}`;
      const key = { appName, userId, sessionId };
      const stateDelta = Object.fromEntries(names.filter(() => random(3) === 0).map((name) => [name, value()]));
      const initial = Object.fromEntries(
        Object.entries(stateDelta).filter(([name]) => hasShared || !/^(?:user|app):/.test(name)),
      );
      const operation = random(8);
      const isDeleted = random(3) === 0;
      const timestamp = await laterTime();
      times.push(timestamp);
      const config = {
        ...(random(3) > 0 && { numRecentEvents: 1 + random(3) }),
        // Between the times of two events.
        ...(random(2) === 0 && { afterTimestamp: times[random(times.length)]! - 1 }),
      };
      const part = [{}, { limit: 1 + random(2), page: 1 + random(3) }, { limit: 2, offset: random(4) }, { offset: 1 }];
      const order = [undefined, 'asc', 'desc'][random(3)] as 'asc' | 'desc' | undefined;
      const listing = { appName, ...(random(2) === 0 && { userId }), ...(order && { order }), ...part[random(4)] };
      const answers = await Promise.all(
        compared.map(async (service, index) => {
          const sessions = held[index]!;
          const id = `${userId}/${sessionId}`;
          if (operation === 0) {
            if (sessions.has(id)) return 'exists';
            sessions.add(id);
            return shown(await service.createSession({ ...key, state: structuredClone(initial) }));
          }
          if (operation === 1 && isDeleted) {
            await service.deleteSession(key);
            sessions.delete(id);
          }
          if (operation <= 2) return shown(await service.getSession({ ...key, config }));
          if (operation === 3) {
            const { sessions: list, ...page } = await service.listSessions(listing);
            const ids = list.map((session) => [session.userId, session.id]);
            return { page, ids: order === undefined ? ids.length : ids };
          }
          if (!sessions.has(id)) return 'none';
          // Read again, because other sessions may have changed keys of the user.
          const session = (await service.getSession(key))!;
          const actions = createEventActions({ stateDelta: structuredClone(stateDelta) });
          const event = createEvent({ id: `e${round}-${n}`, author: 'a', timestamp, actions });
          await service.appendEvent({ session, event });
          return [shown(session), shown(await service.getSession(key)), { ...event.actions.stateDelta }];
        }),
      );
      for (const answer of answers.slice(1)) expect(answer).toEqual(answers[0]);
    }
  }
});

/** A time later than all that services have drawn till now, and not the next millisecond. */
async function laterTime(): Promise<number> {
  const last = Date.now();
  while (Date.now() < last + 2) await new Promise(setImmediate);
  return Date.now();
}
