import { SignJWT } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { REHEARSAL_MODEL } from '../../agent/scripted/rehearsal-model.ts';
import { newId } from '../../domain/ids.ts';
import { tokenUser } from '../../host/auth/token-user.ts';
import { eraseSession } from '../../store/erasure.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { type Answer, chunksOf, startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { fail, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { listExecutions } from '../../worker/replay/history.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { variant } from '../histories/variant.ts';

// What the console reads, from a worker's real turns.

const SECRET = 'a secret of at least thirty-two bytes';
const UI = 'https://temporal.example/namespaces/ops/workflows';
const WORKER = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

let host: TestHost;
let ada: TestCaller;
/** A host that requires tokens, on the same system. */
let guarded: TestHost;
let runtime: TestRuntime;
beforeAll(async () => {
  let asked = 0;
  runtime = await startRuntime({
    script(request) {
      const text = lastUserText(request);
      if (text === 'fail') return [fail(400, { message: 'that is no question' })];
      if (text === 'stumble' && asked++ === 0) return [fail(429, { retryAfter: 0, message: 'too many words' })];
      return [say(`You said: ${text}.`)];
    },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  const options = { databaseUrl, temporal, workspaces, models: ['openai/test', REHEARSAL_MODEL] };
  host = await startHost({ ...options, parts: { temporalWorkflows: UI } });
  guarded = await startHost({ ...options, parts: { identify: tokenUser({ secret: SECRET }) } });
  ada = host.as('ada');
});

/** Has a message answered, and waits until its turn is over. */
async function said(text: string, { caller = ada, model = 'openai/test', id = newId('msg') } = {}): Promise<string> {
  const message = { id: newId('msg'), role: 'user', parts: [{ type: 'text', text }] };
  const body = JSON.stringify({ id, model, messages: [message] });
  const response = await caller.fetch('/api/chat', { method: 'POST', body });
  await chunksOf(response);
  const session = response.headers.get('x-perdure-session')!;
  await eventually(async () => expect((await caller.get(`/api/sessions/${session}/status`)).body.state).toBe('idle'));
  return session;
}

interface Turns {
  items: { run_seq: number; prompt_digest: string; steps: { work: unknown }[]; calls: { work: unknown }[] }[];
  next: string | null;
}

async function turnsOf(session: string, query = ''): Promise<Turns> {
  return (await ada.get(`/api/console/sessions/${session}/turns${query}`)).body as Turns;
}

async function withClaims(claims: object): Promise<(path: string) => Promise<Answer>> {
  const key = new TextEncoder().encode(SECRET);
  const token = await new SignJWT({ sub: 'root', ...claims })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('5m')
    .sign(key);
  return async (path) => {
    const response = await guarded.as('nobody').fetch(path, { headers: { authorization: `Bearer ${token}` } });
    return { status: response.status, headers: response.headers, body: await response.json() };
  };
}

describe('the console reads', () => {
  it('W6 a turn with its steps and tool calls: tokens, durations, fences, and the worker that did them', async () => {
    const session = await said('build a site about owls', { model: REHEARSAL_MODEL });
    const { items, next } = await turnsOf(session);
    const work = {
      worker: expect.stringMatching(WORKER),
      attempt: 1,
      ms: expect.any(Number),
      ended_at: expect.any(String),
    };
    const tool = (name: string, step: number) => ({
      ...{ name, state: 'output-available', error: null, child_id: null, step },
      work: { ...work, first_ms: null },
    });
    expect(next).toBeNull();
    expect(items).toMatchObject([
      {
        ...{ run_seq: 1, kind: 'turn', state: 'finished', text: 'build a site about owls', failures: [], retry: null },
        prompt_digest: expect.stringMatching(/^[0-9a-f]{64}$/),
        calls: [tool('build_and_deploy', 0), tool('write_file', 1), tool('todo_complete', 2)],
      },
    ]);
    const [turn] = items;
    expect(turn!.steps.length).toBeGreaterThanOrEqual(4);
    for (const [step, each] of turn!.steps.entries()) {
      expect(each).toMatchObject({ step, model: REHEARSAL_MODEL, work: { ...work, first_ms: expect.any(Number) } });
    }
    // One worker did all, each unit under a greater ordinal.
    const works = [...turn!.steps, ...turn!.calls].map((each) => each.work as { worker: string; fence: number[] });
    expect(new Set(works.map(({ worker }) => worker)).size).toBe(1);
    expect(new Set(works.map(({ fence }) => fence.slice(0, 2).join('.'))).size).toBe(works.length);
  });

  it('W6 R6 what the provider said about failed calls, and at which attempt the step succeeded', async () => {
    const session = await said('stumble');
    expect((await turnsOf(session)).items).toMatchObject([
      {
        state: 'finished',
        steps: [{ work: { attempt: 2 } }],
        failures: [
          { code: 'RateLimited', status: 429, model: 'test', message: expect.stringContaining('too many words') },
        ],
      },
    ]);
  });

  it('W6 a session with its epoch and the address of its workflow, if Temporal’s UI is known', async () => {
    const session = await said('hello');
    expect((await ada.get(`/api/console/sessions/${session}`)).body).toMatchObject({
      session: { session_id: session },
      ...{ is_own: true, epoch: expect.any(Number), temporal_url: `${UI}/${session}` },
    });
    const read = await withClaims({ sub: 'ada' });
    expect((await read(`/api/console/sessions/${session}`)).body).toMatchObject({ temporal_url: null });
  });

  it('W6 T7 a turn that was imported, with steps that say something else than this code writes, or nothing', async () => {
    const session = await said('hello');
    const exported = await (await ada.fetch(`/api/sessions/${session}/export`)).text();
    const [known] = (await turnsOf(session)).items[0]!.steps as object[];
    const lines = exported
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { kind: string; role?: string; metadata: { steps: object[] } });
    const answer = lines.find(({ kind, role }) => kind === 'message' && role === 'assistant')!;
    const step = answer.metadata.steps[0]!;
    answer.metadata.steps = [{}, { model: 5, finish_reason: ['stop'] }, step];
    const body = lines.map((line) => JSON.stringify(line)).join('\n');
    const imported = await ada.fetch('/api/import', { method: 'POST', body });
    expect(imported.status).toBe(201);
    const { session_id: copy } = (await imported.json()) as { session_id: string };
    const nothing = { model: null, finish_reason: null, usage: null, cost_usd: null, work: null };
    expect((await turnsOf(copy)).items).toMatchObject([
      {
        ...{ state: 'finished', text: 'hello' },
        steps: [
          { step: 0, ...nothing },
          { step: 1, ...nothing },
          { ...known, step: 2, work: null },
        ],
      },
    ]);
  });

  it('W6 P4 the exact prompt of a turn by its digest, in this session only', async () => {
    const session = await said('hello');
    const [turn] = (await turnsOf(session)).items;
    const { status, body } = await ada.get(`/api/console/sessions/${session}/prompts/${turn!.prompt_digest}`);
    expect([status, body.digest]).toEqual([200, turn!.prompt_digest]);
    expect(Object.keys(body.sections as object)).toEqual(['agent', 'instructions', 'skills', 'environment', 'tools']);
    expect(body).toEqual((await ada.get(`/api/prompts/${turn!.prompt_digest}`)).body);
    const { body: opened } = await ada.post('/api/sessions', {});
    const empty = opened.session.session_id as string;
    for (const path of [
      `${empty}/prompts/${turn!.prompt_digest}`,
      `${session}/prompts/${'0'.repeat(64)}`,
      `${session}/prompts/x`,
    ]) {
      expect(await ada.get(`/api/console/sessions/${path}`)).toMatchObject({
        status: 404,
        body: { code: 'PromptNotFound' },
      });
    }
  });

  it('T8 turns, newest first, and the event log in pages', async () => {
    const id = newId('msg');
    const session = await said('one', { id });
    await said('two', { id });
    await said('three', { id });
    const first = await turnsOf(id, '?limit=2');
    expect([first.items.map((turn) => turn.run_seq), first.next]).toEqual([[3, 2], '2']);
    const rest = await turnsOf(session, `?limit=2&before=${first.next}`);
    expect([rest.items.map((turn) => turn.run_seq), rest.next]).toEqual([[1], null]);
    const log = await ada.get(`/api/console/sessions/${session}/log?limit=1`);
    expect(log.body).toEqual((await ada.get(`/api/sessions/${session}/log?limit=1`)).body);
    for (const query of ['?before=-1', '?before=x', '?limit=0', '?surprise=1']) {
      expect(await ada.get(`/api/console/sessions/${session}/turns${query}`)).toMatchObject({
        status: 400,
        body: { code: 'BadRequest' },
      });
    }
  });

  it('W6 T9 no turns of a session that is erased while they are read', async () => {
    const session = await said('hello');
    const erasing = await runtime.db.connect();
    try {
      await erasing.query('BEGIN');
      await erasing.query('LOCK TABLE chat_runs IN ACCESS EXCLUSIVE MODE');
      const turns = ada.get(`/api/console/sessions/${session}/turns`);
      await eventually(async () => {
        const waits = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'chat_runs'::regclass
                          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
        expect((await runtime.db.query(waits)).rowCount).toBeGreaterThan(0);
      });
      await eraseSession(erasing, { sessionId: session, userId: 'ada', home: userFolder('', 'ada'), wholeUser: false });
      await erasing.query('COMMIT');
      expect(await turns).toMatchObject({ status: 404, body: { code: 'SessionNotFound' } });
    } finally {
      erasing.release();
    }
  });

  it('W6 a session as it stood after an event: phase, state and transcript', async () => {
    const session = await said('build a site about owls', { model: REHEARSAL_MODEL });
    const { body: log } = await ada.get(`/api/console/sessions/${session}/log`);
    const events = log.items as { seq: number; data: { event?: string } }[];
    const { seq } = events.find(({ data }) => data.event === 'start_build')!;
    const { body: past } = await ada.get(`/api/console/sessions/${session}/past/${seq}`);
    expect(past).toMatchObject({ seq, kind: 'transition', phase: 'building', unknown: null, more: false });
    const [question, answer] = past.messages as { role: string; parts: { type: string; data: unknown }[] }[];
    expect(question).toMatchObject({ role: 'user', parts: [{ data: { text: 'build a site about owls' } }] });
    // The call that raised the event had no outcome yet.
    const call = answer!.parts.find(({ type }) => type === 'tool-build_and_deploy');
    expect(call).toEqual({ type: 'tool-build_and_deploy', data: null });
    expect((await ada.get(`/api/console/sessions/${session}/past/1`)).body).toMatchObject({
      phase: 'chatting',
      messages: [],
    });
    for (const none of ['0', '999999', '99999999999999', 'x', '1.5']) {
      const answered = await ada.get(`/api/console/sessions/${session}/past/${none}`);
      expect(answered).toMatchObject({ status: 404, body: { code: 'NotFound' } });
    }
  });

  it('T8 own sessions, with side chats, children and archived ones', async () => {
    const caller = host.as('lister');
    const ids: string[] = [];
    for (const metadata of [{}, { ephemeral: true }, {}]) {
      ids.unshift((await caller.post('/api/sessions', { metadata })).body.session.session_id as string);
    }
    const listed = async (query: string) => {
      const { body } = await caller.get(`/api/console/sessions${query}`);
      const { items, next } = body as { items: { session: { session_id: string } }[]; next: string | null };
      return [items.map(({ session }) => session.session_id), next];
    };
    expect(await listed('')).toEqual([ids, null]);
    expect(await listed('?user=lister')).toEqual([ids, null]);
    expect(await listed('?limit=2')).toEqual([ids.slice(0, 2), ids[1]]);
    expect(await listed(`?limit=2&after=${ids[1]}`)).toEqual([ids.slice(2), null]);
  });
});

/** Has a session replayed, once Temporal lists it, and returns what came of it. */
async function replayed(caller: TestCaller, session: string): Promise<Answer['body']> {
  await eventually(async () => {
    expect(await listExecutions(runtime.temporal, { limit: 1, workflowId: session })).toHaveLength(1);
  });
  const path = `/api/console/sessions/${session}/replay`;
  const asked = await caller.post(path);
  expect([asked.status, asked.body.state]).toEqual([202, expect.stringMatching(/^(?:queued|running)$/)]);
  const replay = await eventually(
    async () => {
      const { body } = await caller.get(path);
      expect(body.state).not.toMatch(/^(?:queued|running)$/);
      return body as unknown;
    },
    { timeout: 150_000 },
  );
  expect(replay).toMatchObject({ state: 'done', problem: null });
  return replay;
}

describe('a replay', () => {
  it(
    'W5 W6 says that the histories of a session pass with the code of the workers',
    { timeout: patient(180_000) },
    async () => {
      const session = await said('hello');
      const path = `/api/console/sessions/${session}/replay`;
      expect((await ada.get(path)).body).toMatchObject({ state: 'none', executions: [] });
      const { executions, worker } = await replayed(ada, session);
      const passed = { outcome: 'passed', broke: null, events: expect.any(Number), started_at: expect.any(String) };
      expect(executions).toEqual([{ run_id: expect.stringMatching(WORKER), ...passed }]);
      expect(worker).toMatch(WORKER);
      expect(await host.as('eve').get(path)).toMatchObject({ status: 404, body: { code: 'SessionNotFound' } });
      expect(await host.as('eve').post(path)).toMatchObject({ status: 404, body: { code: 'SessionNotFound' } });
    },
  );

  it('W5 W6 names the event at which the code differs from a history', { timeout: patient(180_000) }, async () => {
    // A worker of other code, with a task queue of its own, runs the session.
    const eachTry = 'const model = run.last_model ?? run.model ?? session.settings.default_model;';
    const workflowBundle = await variant('workflows/turn.ts', [eachTry, `${eachTry} await sleep(1);`]);
    const other = { taskQueue: 'other-code' };
    const worker = await runtime.startWorker({ workflowBundle, settings: other });
    const { databaseUrl, temporal, workspaces } = runtime;
    const caller = (await startHost({ databaseUrl, temporal, workspaces, clientOptions: other })).as('ada');
    const session = await said('hello', { caller });
    const { executions } = await replayed(caller, session);
    expect(executions).toMatchObject([
      { outcome: 'broke', broke: expect.stringMatching(/^event \d+ \(TimerStarted\): \w/) },
    ]);
    await worker.stop();
  });
});

describe('numbers', () => {
  const sum = (counts: unknown) => (counts as number[]).reduce((all, count) => all + count, 0);
  const codesIn = (codes: unknown) => (codes as { code: string }[]).map(({ code }) => code);

  it('W6 U2 count the turns, steps, tokens and errors of a user', async () => {
    const caller = host.as('counter');
    await said('one', { caller });
    await said('two', { caller });
    const id = newId('msg');
    const message = { id, role: 'user', parts: [{ type: 'text', text: 'fail' }] };
    const failing = { id: newId('msg'), model: 'openai/test', messages: [message] };
    await chunksOf(await caller.fetch('/api/chat', { method: 'POST', body: JSON.stringify(failing) }));
    const following = await caller.fetch(`/api/rendezvous`, { headers: { accept: 'text/event-stream' } });
    const { status, body } = await eventually(async () => {
      const answer = await caller.get('/api/console/numbers');
      expect(sum(answer.body.turns.error)).toBe(1);
      return answer;
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      range: 'hour',
      user: 'counter',
      now: { queued: 0, running: 0, streams: 1, lost_workers: 0 },
    });
    expect(sum(body.turns.finished)).toBe(2);
    expect(body.now.workers).toBeGreaterThanOrEqual(1);
    expect(sum(body.work.steps)).toBeGreaterThanOrEqual(2);
    expect(sum(body.tokens.input)).toBeGreaterThan(0);
    expect(codesIn(body.errors.turns)).toEqual(['ProviderRejected']);
    expect(codesIn(body.errors.provider)).toEqual(['ProviderRejected']);
    await following.body?.cancel();
    const nobody = (await host.as('nobody at all').get('/api/console/numbers?range=week')).body;
    expect([sum(nobody.turns.finished), sum(nobody.work.steps), nobody.now.streams]).toEqual([0, 0, 0]);
    for (const query of ['range=year', 'surprise=1']) {
      expect(await caller.get(`/api/console/numbers?${query}`)).toMatchObject({
        status: 400,
        body: { code: 'BadRequest' },
      });
    }
  });

  it('Q3 those of other users need the claim', async () => {
    await said('hello');
    const [without, reads] = [await withClaims({}), await withClaims({ sub: 'operator', perdure_reads_all: true })];
    for (const query of ['all=true', 'user=ada']) {
      expect(await without(`/api/console/numbers?${query}`)).toMatchObject({
        status: 403,
        body: { code: 'Forbidden' },
      });
      const { body } = await reads(`/api/console/numbers?range=day&${query}`);
      expect(sum(body.turns.finished)).toBeGreaterThan(0);
      expect(body.user).toBe(query === 'all=true' ? null : 'ada');
    }
  });
});

describe('who may read', () => {
  it('Q3 without the claim nobody reads or lists what another user has, and says nothing of it', async () => {
    const session = await said('for ada only');
    const [turn] = (await turnsOf(session)).items;
    const paths = ['', '/turns', '/log', '/past/1', '/replay', `/prompts/${turn!.prompt_digest}`];
    for (const claims of [
      {},
      { perdure_reads_all: false },
      { perdure_reads_all: 'true' },
      { perdure_reads_all: 1 },
      { reads_all: true },
      // That one changes app: state.
      { perdure_admin: true },
    ]) {
      const read = await withClaims(claims);
      expect((await read('/api/console')).body).toEqual({ user: 'root', reads_all: false });
      for (const path of paths) {
        const foreign = await read(`/api/console/sessions/${session}${path}`);
        expect(foreign).toMatchObject({ status: 404, body: { code: 'SessionNotFound' } });
        expect(foreign.body).toEqual((await read(`/api/console/sessions/${newId('ses')}${path}`)).body);
      }
      for (const query of ['all=true', 'user=ada', 'all=true&user=ada']) {
        expect(await read(`/api/console/sessions?${query}`)).toMatchObject({
          status: 403,
          body: { code: 'Forbidden' },
        });
      }
      expect((await read('/api/console/sessions')).body).toEqual({ items: [], next: null });
    }
  });

  it('Q3 the claim perdure_reads_all reads all sessions in the console, which is logged, and nowhere else', async () => {
    const session = await said('for ada and the operators', { id: 'the alias of ada' });
    const read = await withClaims({ perdure_reads_all: true });
    const [turn] = (await turnsOf(session)).items;
    expect((await read('/api/console')).body).toEqual({ user: 'root', reads_all: true });
    expect((await read(`/api/console/sessions/${session}`)).body).toMatchObject({ is_own: false });
    expect((await read(`/api/console/sessions/${session}/turns`)).body).toEqual(await turnsOf(session));
    expect((await read(`/api/console/sessions/${session}/log`)).status).toBe(200);
    expect((await read(`/api/console/sessions/${session}/prompts/${turn!.prompt_digest}`)).status).toBe(200);
    const all = (await read('/api/console/sessions?all=true&user=ada&limit=200')).body;
    expect(JSON.stringify(all)).toContain(session);
    expect(JSON.stringify((await read('/api/console/sessions?all=true&user=eve')).body)).not.toContain(session);
    expect((await read('/api/console/sessions?all=true&limit=1')).status).toBe(200);
    const notes = guarded.logs.filter((line) => line['reader'] === 'root');
    expect(notes.filter((line) => line['session'] === session)).toHaveLength(4);
    expect(notes.flatMap(({ list_of: of }) => (of === undefined ? [] : [of]))).toEqual(['ada', 'eve', null]);
    // An alias belongs to its user; a session that does not exist is not found; other routes do not know the claim.
    for (const id of ['the alias of ada', newId('ses'), '\0']) {
      const path = `/api/console/sessions/${encodeURIComponent(id)}/turns`;
      expect(await read(path)).toMatchObject({ status: 404, body: { code: 'SessionNotFound' } });
    }
    for (const path of [session, `${session}/messages`, `${session}/log`, `${session}/state`]) {
      expect(await read(`/api/sessions/${path}`)).toMatchObject({ status: 404 });
    }
  });
});
