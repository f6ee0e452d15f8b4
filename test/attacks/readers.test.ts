// A user who opens as many streams as possible: the number is limited, and commands are carried out.
import { beforeAll, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { requestTo, type Route, routesOf } from './routes.ts';

/** Default of PERDURE_MAX_READERS. */
const MOST = 200;

let host: TestHost;
let eve: TestCaller;
let streams: Route[];
let session: string;
let initiative: string;
beforeAll(async () => {
  const runtime = await startRuntime({ script: () => [say('An answer that does not end'), hang()] });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
  eve = host.as('eve');
  streams = (await routesOf(host.url)).filter((route) => route.streams);
  session = (await eve.post('/api/sessions', {})).body.session.session_id as string;
  await eve.post(`/api/sessions/${session}/messages`, { id: 'm-chat', text: 'hello' });
  const plan = { title: 'A shop', phases: [{ name: 'Build', plans: [{ name: 'Pages', tasks: [{ name: 'List' }] }] }] };
  initiative = (await eve.post('/api/initiatives', plan)).body.initiative.initiative_id as string;
});

/** Opens one stream on a route; /chat joins the stream of a message that was sent before. */
function openOne(route: Route): Promise<Response> {
  const message = { id: 'm-chat', role: 'user', parts: [{ type: 'text', text: 'hello' }] };
  const chat = { id: session, messages: [message] };
  const params = { name: 'ask_site-builder', arguments: { session } };
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const body = { mcp: call, chat }[route.operationId];
  const id = route.path.startsWith('/api/initiatives') ? initiative : session;
  const { path, init } = requestTo(route, { params: { id }, body });
  return eve.fetch(path, init);
}

it('Q3 a user has a limited number of streams over all routes, and commands are carried out beside them', async () => {
  expect(streams.length).toBeGreaterThanOrEqual(4);
  const opened = await Promise.all(Array.from({ length: MOST }, (_, at) => openOne(streams[at % streams.length]!)));
  expect(opened.map(({ status }) => status)).toEqual(opened.map(() => 200));
  for (const route of streams) {
    const refused = await openOne(route);
    expect([route.name, refused.status, refused.headers.has('retry-after')]).toEqual([route.name, 429, true]);
    expect(await refused.json()).toMatchObject({
      code: 'TooMany',
      detail: 'expected at most 200 open streams per user and host (PERDURE_MAX_READERS)',
    });
  }
  const ada = host.as('ada');
  const commands = [
    await ada.get('/healthz'),
    await ada.post('/api/sessions', {}),
    await ada.get('/api/sessions'),
    await eve.post(`/api/sessions/${session}/messages`, { id: 'm-queued', text: 'next' }),
    await eve.delete(`/api/sessions/${session}/messages/m-queued`),
    await eve.post(`/api/sessions/${session}/open`, { project_id: 'prj-of-eve' }),
  ];
  for (const { status } of commands) expect(status).toBeLessThan(300);
  const stream = await ada.fetch('/api/rendezvous');
  expect(stream.status, 'another user has a limit of their own').toBe(200);
  await stream.body?.cancel();
  // A message whose answer cannot be streamed is not accepted.
  const body = { id: session, messages: [{ id: newId('msg'), role: 'user', parts: [{ type: 'text', text: 'more' }] }] };
  expect((await eve.post('/api/chat', body)).status).toBe(429);
  expect((await eve.get(`/api/sessions/${session}/messages`)).body.items).toHaveLength(2);
  expect((await eve.post(`/api/sessions/${session}/abort`)).body.aborted).toBe(true);
  await Promise.all(opened.map(async (response) => response.body?.cancel()));
  await eventually(async () => {
    const again = await openOne(streams.find((route) => route.operationId === 'followSession')!);
    await again.body?.cancel();
    expect(again.status).toBe(200);
  });
  await eventually(async () => {
    const text = (await eve.get('/metrics')).body as string;
    expect(text.match(/^perdure_http_streams\{.*\} (\d+)$/gm)?.toSorted()).toEqual([
      'perdure_http_streams{route="chat"} 0',
      'perdure_http_streams{route="events"} 0',
      'perdure_http_streams{route="initiative"} 0',
      'perdure_http_streams{route="mcp"} 0',
      'perdure_http_streams{route="multiplex"} 0',
      'perdure_http_streams{route="rendezvous"} 0',
    ]);
  });
});
