import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { Event, PostgresSessionService } from '../../client/state/index.ts';
import { tablesWith } from '../../tools/test-kit/canary.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { eventsOf, startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { allHistories } from '../faults/history.ts';

const CANARY = 'yellowbird';
const nothing = z.object({});

const remember = defineTool({
  name: 'remember',
  description: 'Writes state',
  input: nothing,
  execute: (_input, { state }) => {
    state.update({ 'temp:draft': CANARY, 'user:theme': 'dark' });
    state.increment('user:visits');
    return 'remembered';
  },
});
const recall = defineTool({
  name: 'recall',
  description: 'Reads state',
  input: nothing,
  execute: (_input, { state }) => (state['temp:draft'] === CANARY ? 'there' : 'gone'),
});
/** Says in which scopes something is cached, and caches something in each. */
const looking = (name: string) =>
  defineTool({
    name,
    description: 'Uses the cache',
    input: nothing,
    execute: async (_input, { cache }) => {
      const found: string[] = [];
      for (const scope of ['session', 'user', 'app'] as const) {
        if ((await cache.get('page', { scope })) === CANARY) found.push(scope);
        await cache.set('page', CANARY, { ttlMs: 60_000, scope });
      }
      return found.join(', ');
    },
  });
const lookUp = looking('look_up');
const agents = [
  defineAgent({
    ...{ id: 'stateful', description: 'Uses state', mode: 'primary' },
    tools: [remember, recall, lookUp, looking('search')],
    prompt: 'Theme: {user:theme?}. Draft: {temp:draft?}. Not a key: {{user:theme}}.',
  }),
  defineAgent({
    id: 'demanding',
    description: 'Needs state',
    mode: 'primary',
    tools: [],
    prompt: 'Hello {user:name}.',
  }),
  defineAgent({ id: 'other', description: 'Uses the cache', mode: 'primary', tools: [lookUp], prompt: 'Look.' }),
];

let runtime: TestRuntime;
let host: TestHost;
beforeAll(async () => {
  runtime = await startRuntime({ agents });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces, agents: ['stateful'] });
});

const systemOf = (messages: readonly { role: string; content?: unknown }[]) => JSON.stringify(messages[0]?.content);

describe('state in a turn', () => {
  it('K4 temp: is seen by every later call and step of its turn, on another worker too, and leaves nothing behind', async () => {
    const systems: string[] = [];
    let isHeld = true;
    runtime.model.script((request) => {
      systems.push(systemOf(request.messages));
      const answered = request.messages.slice(request.messages.findLastIndex(({ role }) => role === 'user'));
      const tools = answered.filter(({ role }) => role === 'tool').length;
      if (tools === 0) return [callTool('call_1', 'remember', {})];
      if (tools === 1 && isHeld) return [hang()];
      return tools === 1 ? [callTool('call_2', 'recall', {})] : [say('done')];
    });
    const session = await TestSession.open(runtime, { agent: 'stateful' });
    const seq = await session.send('one');
    await eventually(() => expect(systems.length).toBeGreaterThanOrEqual(2));
    expect(await tablesWith(runtime.db, CANARY)).toEqual(['chat_runs']);
    const exported = await host.as('ada').fetch(`/api/sessions/${session.id}/export`);
    const lines = await exported.text();
    expect(lines).toContain('remembered');
    expect(lines).not.toContain(CANARY);
    await runtime.startWorker();
    isHeld = false;
    await runtime.first.stop();
    const run = await session.ended(seq);
    expect(await session.parts(run.answer_id)).toMatchObject([
      ...[{}, { type: 'tool-remember' }, { type: 'step-start' }],
      ...[{ type: 'tool-recall', output: 'there' }, {}, { text: 'done' }],
    ]);
    const filled = `Theme: dark. Draft: ${CANARY}. Not a key: {user:theme}.`;
    expect(systems[0]).toContain('Theme: . Draft: .');
    for (const system of systems.slice(1)) expect(system).toContain(filled);
    expect(await tablesWith(runtime.db, CANARY)).toEqual([]);
    expect((await allHistories(runtime.temporal)).join('\n')).not.toContain(CANARY);

    const next = await session.ended(await session.send('two'));
    expect(systems.at(-1)).toContain('Draft: yellowbird');
    expect(next.state).toBe('finished');
    const { rows } = await runtime.db.query(`SELECT key, value FROM scoped_state WHERE owner = 'ada' ORDER BY key`);
    expect(rows).toEqual([
      { key: 'theme', value: 'dark' },
      { key: 'visits', value: 2 },
    ]);
    const stored = await runtime.db.query(`SELECT body FROM prompt_sections WHERE body LIKE 'Theme:%'`);
    expect(stored.rows).toEqual([{ body: agents[0]!.prompt }]);
  });

  it('K3 the log, and no message, tells what a tool has changed, and the state with which a session began', async () => {
    runtime.model.script(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? [say('done')] : [callTool('call_1', 'remember', {})],
    );
    const who = { appName: 'perdure', userId: 'olga' };
    const service = new PostgresSessionService({ database: runtime.db, agent: 'stateful' });
    const { id } = await service.createSession({ ...who, state: { step: 'cart', 'user:theme': 'light' } });
    const session = TestSession.of(runtime, id, who.userId);
    await session.ended(await session.send('remember'));
    const { body } = await host.as(who.userId).get(`/api/sessions/${id}/log`);
    const { items } = body as { items: { kind: string }[] };
    expect(items.filter(({ kind }) => kind === 'state')).toMatchObject([
      {
        actor: 'user',
        data: { initial: true, event: { author: 'system' }, set: { step: 'cart', 'user:theme': 'light' }, deleted: [] },
      },
      {
        actor: 'tool',
        data: {
          event: { author: 'remember', invocationId: '1' },
          set: { 'user:theme': 'dark', 'user:visits': 1 },
          deleted: [],
        },
      },
    ]);
    const all = (await host.as(who.userId).get(`/api/sessions/${id}/messages?hidden=true`)).body;
    expect(all).toEqual({
      items: [expect.objectContaining({ role: 'user' }), expect.objectContaining({ role: 'assistant' })],
      next: null,
    });
  });

  it('S10 a tool finds in its cache what it has put there itself, by session, user and app; other tools and agents have others', async () => {
    runtime.model.script((request, index) =>
      request.messages.at(-1)?.role === 'tool' ? [say('done')] : [callTool(`call_${index}`, lastUserText(request), {})],
    );
    const finds = async (session: TestSession, tool: string) => {
      const run = await session.ended(await session.send(tool));
      const parts = (await session.parts(run.answer_id)) as { type: string; output?: string }[];
      return parts.find(({ type }) => type === `tool-${tool}`)?.output;
    };
    const open = (user: string, agent = 'stateful') => TestSession.open(runtime, { user, agent });
    const session = await open('cacher');
    expect(await finds(session, 'look_up')).toBe('');
    expect(await finds(session, 'look_up')).toBe('session, user, app');
    expect(await finds(await open('cacher'), 'look_up')).toBe('user, app');
    expect(await finds(await open('stranger'), 'look_up')).toBe('app');
    expect(await finds(session, 'search')).toBe('');
    expect(await finds(await open('cacher', 'other'), 'look_up')).toBe('');
  });

  it('K6 a prompt whose key is not set ends the turn with an error that names it, and works once it is set', async () => {
    let system = '';
    runtime.model.script((request) => {
      system = systemOf(request.messages);
      return [say('hi')];
    });
    const session = await TestSession.open(runtime, { agent: 'demanding' });
    const failed = await session.ended(await session.send('one'));
    expect(failed).toMatchObject({ state: 'error', error_code: 'StateNotSet' });
    await runtime.db.query(
      `SELECT append_state_event('perdure', user_id, session_id, '{"id": "e"}', '[{"scope": "user", "key": "name", "value": "Ada"}]', NULL, 'user')
         FROM sessions WHERE session_id = $1`,
      [session.id],
    );
    expect((await session.ended(await session.send('two'))).state).toBe('finished');
    expect(system).toContain('Hello Ada.');
  });
});

describe('events of state', () => {
  /** Opens a session, and collects the `state` events that its owner receives; the last one is its newest. */
  async function followed(user: string): Promise<{ id: string; told: unknown[] }> {
    const { body } = await host.as(user).post('/api/sessions', {});
    const id = (body as { session: { session_id: string } }).session.session_id;
    const stop = new AbortController();
    const response = await host.as(user).fetch(`/api/sessions/${id}/events`, { signal: stop.signal });
    const told: unknown[] = [];
    const isReady = Promise.withResolvers<void>();
    const read = async () => {
      for await (const { event, data } of eventsOf(response)) {
        if (event === 'state') told.push(data);
        isReady.resolve();
      }
    };
    const reading = read().catch(isReady.reject);
    onTestFinished(async () => {
      stop.abort();
      await reading;
    });
    await isReady.promise;
    return { id, told };
  }

  const scopesOf = (told: readonly unknown[]) => told.flatMap((data) => (data as { scopes: string[] }).scopes);

  it('K3 tell the owner of every change of state, of whichever session, and nobody else; they hold no values', async () => {
    const pointers: string[] = [];
    onTestFinished(runtime.bus.subscribe((pointer) => pointers.push(JSON.stringify(pointer))));
    const one = await followed('eve');
    const two = await followed('eve');
    const foreign = await followed('mallory');
    const { body } = await host.as('eve').post(`/api/sessions/${one.id}/state`, {
      stateDelta: { secret: CANARY, 'user:secret': CANARY },
    });
    await eventually(() =>
      expect(one.told).toEqual([{ scopes: ['session', 'user'], lastUpdateTime: body.lastUpdateTime }]),
    );
    await eventually(() => expect(two.told).toEqual([{ scopes: ['user'], lastUpdateTime: expect.any(Number) }]));

    await host.as('eve').post(`/api/sessions/${one.id}/state`, { stateDeletions: ['user:secret'] });
    await eventually(() => expect(scopesOf(two.told)).toEqual(['user', 'user']));

    // Another program, without a bus, changes the state of everybody.
    const service = new PostgresSessionService({ database: runtime.db });
    const session = (await service.getSession({ appName: 'perdure', userId: 'mallory', sessionId: foreign.id }))!;
    expect(foreign.told).toEqual([]);
    await service.appendEvent({
      session,
      event: new Event({ author: 'x', actions: { stateDelta: { 'app:motd': CANARY } } }),
    });
    for (const { told } of [one, two, foreign]) await eventually(() => expect(scopesOf(told).at(-1)).toBe('app'));
    expect(pointers.length).toBeGreaterThan(0);
    expect(`${pointers.join()}${JSON.stringify([one, two, foreign])}`).not.toContain(CANARY);
    expect(pointers.join()).not.toContain('eve');
    await runtime.db.query(`DELETE FROM scoped_state WHERE scope = 'app'`);
  });

  it('K6 tell of what a tool has changed', async () => {
    runtime.model.script(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? [say('done')] : [callTool('call_1', 'remember', {})],
    );
    const one = await followed('grace');
    const two = await followed('grace');
    await host.as('grace').post(`/api/sessions/${one.id}/messages`, { id: 'm1', text: 'remember' });
    for (const { told } of [one, two]) await eventually(() => expect(scopesOf(told)).toEqual(['user']));
  });
});
