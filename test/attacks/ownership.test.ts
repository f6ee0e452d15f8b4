// A user requests another user's data on every route and with every kind of id.
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Caller } from '../../host/context.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import {
  chunksOf,
  eventsOf,
  type ServerSentEvent,
  startHost,
  type TestCaller,
  type TestHost,
} from '../../tools/test-kit/host.ts';
import { planned } from '../../tools/test-kit/initiative.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';
import { sentRaw } from './raw.ts';
import { requestTo, type Filling, type Route, routesOf, comparable, type Sending } from './routes.ts';
import { allRows } from './rows.ts';

const ADAS = {
  alias: 'the chat of ada',
  project: 'prj-of-ada',
  message: 'msg-of-ada',
  call: 'call_of_ada',
  attachment: 'att_of_ada',
};
const SECRET = 'what only ada may read';
/** Unknown ids, each in the form of one of Ada's. */
const UNKNOWN = {
  alias: 'the chat of nil',
  project: 'prj-of-nil',
  message: 'msg-of-nil',
  call: 'call_of_nil',
  attachment: 'att_of_nil',
};

let host: TestHost;
let db: pg.Pool;
let ada: TestCaller;
let eve: TestCaller;
/** Eve, if she may change `app:` state, and if she may read all sessions in the console. */
let admin: TestCaller;
let reader: TestCaller;
let routes: Route[];
/** Ada's session; one of Eve's; an id without a session. */
let hers: string;
let eves: string;
const unknownId = newId('ses');
let adasRoot: string;

beforeAll(async () => {
  const runtime = await startRuntime({ script: () => [say('An answer.')] });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
  const withRight = async (right: Partial<Caller>) => {
    const identify = async () => ({ user: 'eve', ...right });
    return (await startHost({ databaseUrl, temporal, workspaces, parts: { identify } })).as('eve');
  };
  [admin, reader] = await Promise.all([withRight({ admin: true }), withRight({ readsAll: true })]);
  db = runtime.db;
  ada = host.as('ada');
  eve = host.as('eve');
  routes = await routesOf(host.url);
  await ada.post('/api/sessions', { project_id: ADAS.project });
  const message = { id: ADAS.message, role: 'user', parts: [{ type: 'text', text: SECRET }] };
  const body = JSON.stringify({ id: ADAS.alias, messages: [message] });
  const chat = await ada.fetch('/api/chat', { method: 'POST', body });
  hers = chat.headers.get('x-perdure-session')!;
  await chunksOf(chat);
  await untilLoaded(hers);
  await db.query('INSERT INTO tool_outputs (session_id, tool_call_id, output) VALUES ($1, $2, $3)', [
    hers,
    ADAS.call,
    SECRET,
  ]);
  const file = Buffer.from(SECRET).toString('hex');
  await db.query(`INSERT INTO attachments VALUES ($1, $2, 'att_x', decode($3, 'hex'), 'text/plain', $4, 3)`, [
    ...[hers, ADAS.attachment, file, SECRET],
  ]);
  const { session, chat: frame } = await host.client.reads.session('ada', hers);
  adasRoot = workspaceRoot(workspaces, { ...frame, ...session });
  await mkdir(adasRoot, { recursive: true });
  await writeFile(path.join(adasRoot, 'index.html'), SECRET);
  eves = (await eve.post('/api/sessions', {})).body.session.session_id as string;
});

/** The workflow of a turn that is over is woken then, and loads the session. */
function untilLoaded(session: string): Promise<void> {
  return eventually(async () => {
    const { rows } = await db.query<{ epoch: number }>('SELECT epoch FROM chat_sessions WHERE session_id = $1', [
      session,
    ]);
    expect(rows).toEqual([{ epoch: 1 }]);
  });
}

async function ask({ path: to, init }: Sending, caller = eve) {
  const response = await caller.fetch(to, init);
  return comparable(response);
}

/** Whether a route names a session. */
const namesSession = (route: Route) => route.params.includes('id') || route.query.includes('session_id');

function ofSession(route: Route, session: string, more: Filling = {}): Sending {
  return requestTo(route, {
    ...more,
    params: {
      id: session,
      message_id: ADAS.message,
      tool_call_id: ADAS.call,
      attachment_id: ADAS.attachment,
      digest: 'd',
      ...more.params,
    },
    query: { ...(route.query.includes('session_id') && { session_id: session }), ...more.query },
  });
}

describe('another user', () => {
  it('Q3 gets the same response for another user’s session as for an unknown one, by id and by alias, on every route', async () => {
    const before = await allRows(db);
    const named = routes.filter(namesSession);
    expect(named.length).toBeGreaterThan(20);
    for (const route of named) {
      // A valid body, an invalid one, and one that is not JSON.
      for (const body of route.body === undefined ? [undefined] : [route.body, { surprise: 1 }, '{"']) {
        const [foreign, unknown] = await Promise.all(
          [hers, unknownId].map((id) => ask(ofSession(route, id, { body }))),
        );
        expect(foreign, route.name).toEqual(unknown);
        if (body === route.body) expect(foreign!.status, route.name).toBe(404);
        const [byAlias, byNone] = await Promise.all(
          [ADAS.alias, UNKNOWN.alias].map((id) => ask(ofSession(route, id, { body }))),
        );
        expect(byAlias, route.name).toEqual(byNone);
      }
    }
    expect(await allRows(db)).toEqual(before);
  });

  it('Q3 gets it also with the right to change app: state, or outside of the console to read all sessions', async () => {
    const before = await allRows(db);
    const named = routes.filter(namesSession);
    const inConsole = ({ path: at }: Route) => at.startsWith('/api/console/');
    expect(named.filter(inConsole).length).toBeGreaterThan(3);
    const asked = [
      ...named.map((route) => ({ route, caller: admin })),
      ...named.filter((route) => !inConsole(route)).map((route) => ({ route, caller: reader })),
    ];
    for (const { route, caller } of asked) {
      const [foreign, unknown] = await Promise.all([hers, unknownId].map((id) => ask(ofSession(route, id), caller)));
      expect(foreign, route.name).toEqual(unknown);
      expect(foreign!.status, route.name).toBe(404);
    }
    expect(await allRows(db)).toEqual(before);
  });

  it('Q3 cannot post to another user’s session, not through /chat either, where an alias belongs to the caller', async () => {
    const chat = routes.find((route) => route.operationId === 'chat')!;
    const bodyFor = (id: string, more: object = {}) => ({ ...(chat.body as object), id, ...more });
    const before = await allRows(db);
    for (const more of [{}, { messageId: ADAS.message }, { trigger: 'regenerate-message' }, { messages: [] }]) {
      const [foreign, unknown] = await Promise.all(
        [hers, unknownId].map((id) => ask(requestTo(chat, { body: bodyFor(id, more) }))),
      );
      expect(foreign).toEqual(unknown);
      expect(foreign!.status).toBeGreaterThanOrEqual(400);
    }
    expect(await allRows(db)).toEqual(before);
    const opened = await eve.fetch('/api/chat', requestTo(chat, { body: bodyFor(ADAS.alias) }).init);
    const own = opened.headers.get('x-perdure-session');
    await chunksOf(opened);
    await untilLoaded(own!);
    expect(own).not.toBe(hers);
    expect((await ada.get(`/api/sessions/${encodeURIComponent(ADAS.alias)}`)).body.session.session_id).toBe(hers);
  });

  it('Q3 gets the same response for another user’s message, tool call, parent or project as for an unknown one', async () => {
    // What her own session refuses is in that session's log.
    const before = await allRows(db, eves);
    for (const route of routes.filter((each) => each.params.some((name) => name !== 'id') && namesSession(each))) {
      const [foreign, unknown] = await Promise.all(
        [ADAS, UNKNOWN].map(({ message, call, attachment }) =>
          ask(
            ofSession(route, eves, { params: { message_id: message, tool_call_id: call, attachment_id: attachment } }),
          ),
        ),
      );
      expect(foreign, route.name).toEqual(unknown);
      // Of a call that is unknown or over, nobody waits for an output.
      expect(foreign!.status, route.name).toBe(route.operationId === 'giveToolOutput' ? 409 : 404);
    }
    const asked = routes.flatMap((route) => route.query.map((name) => ({ route, name })));
    for (const { route, name } of asked.filter(({ name: each }) => each !== 'session_id')) {
      const pairs = [
        [hers, unknownId],
        [ADAS.project, UNKNOWN.project],
        [ADAS.message, UNKNOWN.message],
        [ADAS.alias, UNKNOWN.alias],
      ] as const;
      for (const pair of pairs) {
        const [foreign, unknown] = await Promise.all(
          pair.map((value) => ask(ofSession(route, eves, { query: { [name]: value } }))),
        );
        expect(foreign, `${route.name}?${name}`).toEqual(unknown);
        expect(foreign!.text).not.toContain(hers);
      }
    }
    expect(await allRows(db, eves)).toEqual(before);
  });

  it('Q3 cannot use another user’s project, folder or user id in a body', async () => {
    const before = await allRows(db, eves);
    const refused = [
      await eve.post('/api/sessions', { project_id: ADAS.project }),
      await eve.post(`/api/sessions/${eves}/open`, { project_id: ADAS.project }),
      await eve.post('/api/initiatives', { ...planned([['one']]), project_id: ADAS.project }),
    ];
    expect(refused.map((answer) => [answer.status, answer.body.code as string])).toEqual([
      [404, 'ProjectNotFound'],
      [404, 'ProjectNotFound'],
      [404, 'ProjectNotFound'],
    ]);
    const folder = path.basename(path.dirname(adasRoot));
    for (const workspace_root of [adasRoot, path.dirname(adasRoot), `../${folder}/x`, `x/../../${folder}/y`]) {
      const answer = await eve.post('/api/sessions', { workspace_root });
      expect(answer, workspace_root).toMatchObject({
        status: 400,
        body: { errors: [{ field: 'workspace_root', expected: expect.any(String) }] },
      });
    }
    for (const name of ['user_id', 'session_id', 'sub', 'alias', 'parent_id', 'permissions']) {
      expect((await eve.post('/api/sessions', { [name]: 'ada' })).status).toBe(400);
    }
    expect(await allRows(db, eves)).toEqual(before);
  });

  it('Q3 gets no access by metadata that names another user', async () => {
    const metadata = { user_id: 'ada', session_id: hers, parent_id: hers, hidden_by: { cause: 'edit', id: 'x' } };
    const { body } = await eve.post('/api/sessions', { metadata });
    expect(body.session.user_id).toBe('eve');
    const own = body.session.session_id as string;
    await eve.post(`/api/sessions/${own}/messages`, { id: 'm1', text: 'hi', metadata });
    const { items } = (await eve.get(`/api/sessions/${own}/messages`)).body;
    expect(items[0].metadata).toMatchObject({ session_id: own });
    expect(items[0].metadata).not.toHaveProperty('hidden_by');
    expect((await eve.get(`/api/sessions/${hers}`)).status).toBe(404);
    await eventually(async () => expect((await eve.get(`/api/sessions/${own}/status`)).body.state).toBe('idle'));
  });

  it('Q3 gets no outcome with another user’s Idempotency-Key', async () => {
    const command = (caller: TestCaller, id: string) =>
      caller.post(`/api/sessions/${id}/cancel`, { reason: 'mine' }, { 'idempotency-key': 'shared-key' });
    const first = await command(ada, hers);
    const before = await allRows(db);
    expect((await command(eve, hers)).status).toBe(404);
    expect(await allRows(db)).toEqual(before);
    expect(await command(eve, eves)).toMatchObject({ status: first.status });
    const { items } = await host.client.reads.log('eve', eves);
    expect(items.filter((item) => item.kind === 'reason')).toHaveLength(1);
  });

  it('Q3 sees only their own sessions in the rendezvous', async () => {
    const received: string[] = [];
    const response = await eve.fetch('/api/rendezvous');
    const events = eventsOf(response);
    const read = async (until: (event: string, id: string | undefined) => boolean) => {
      for (;;) {
        const { value } = await events.next();
        if (value === undefined) return;
        const { event, data } = value as ServerSentEvent;
        received.push(JSON.stringify(data));
        if (until(event, data.session_id as string | undefined)) return;
      }
    };
    await read((event) => event === 'ready');
    const other = (await ada.post('/api/sessions', {})).body.session.session_id as string;
    await ada.post(`/api/sessions/${hers}/messages`, { id: 'm-more', text: 'more' });
    const own = (await eve.post('/api/sessions', {})).body.session.session_id as string;
    await read((_event, id) => id === own);
    await events.return(undefined);
    for (const foreign of [hers, other, SECRET, ADAS.project]) expect(received.join('\n')).not.toContain(foreign);
    expect(received.join('\n')).toContain(eves);
    await eventually(async () => expect((await ada.get(`/api/sessions/${hers}/status`)).body.state).toBe('idle'));
  });

  it('Q3 cannot guess or forge the URL of a preview', async () => {
    const { preview_url } = (await ada.get(`/api/sessions/${hers}/files`)).body;
    expect(await (await fetch(host.url + preview_url)).text()).toBe(SECRET);
    const preview = routes.find((route) => route.params.includes('token'))!;
    const parts = (preview_url as string).split('/')[2]!.split('.');
    const swapped = parts.with(3, Buffer.alloc(40).toString('base64url')).join('.');
    const unsecured = [Buffer.from('{"alg":"none"}').toString('base64url'), parts[3], ''].join('.');
    const answers = await Promise.all(
      [unknownId, hers, ADAS.alias, ADAS.project, adasRoot, swapped, unsecured, parts.slice(0, 4).join('.'), '%00'].map(
        async (token) =>
          comparable(await fetch(host.url + requestTo(preview, { params: { token, file: 'index.html' } }).path)),
      ),
    );
    for (const answer of answers) expect(answer).toMatchObject({ status: 404, text: answers[0]!.text });
  });

  it('Q3 cannot forge the host name of a preview, which serves nothing but its files', async () => {
    const { preview_site_url } = (await ada.get(`/api/sessions/${hers}/files`)).body;
    const { hostname, port } = new URL(preview_site_url as string);
    const under = (name: string, target: string) => sentRaw(host.url, target, { host: `${name}:${port}` });
    expect(await under(hostname, '/')).toEqual({ status: 200, text: SECRET });
    for (const target of ['/api/sessions', '/metrics', '/openapi.json', `/api/sessions/${hers}`, '/../../etc/passwd']) {
      expect((await under(hostname, target)).status, target).toBe(404);
    }
    const [first = '', ...rest] = hostname.split('.');
    const forged = [
      [`${first.slice(0, -1)}${first.endsWith('a') ? 'b' : 'a'}`, ...rest].join('.'),
      [first.slice(1), ...rest].join('.'),
      rest.join('.'),
      'preview.localhost',
      'x.preview.localhost',
      `${'0'.repeat(63)}.preview.localhost`,
      `${hostname}.evil.example`,
      `${hostname}.`,
    ];
    for (const name of forged) {
      const { status, text } = await under(name, '/index.html');
      expect([404, 403], name).toContain(status);
      expect(text).not.toContain(SECRET);
    }
  });
});
