// A separate project that uses Perdure's public names only: type-checked, and run as JavaScript.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createModels, memorySession, run } from 'perdure';
import { createClient, type PerdureClient, temporalClient } from 'perdure/client';
import { nextPhase, type Phase, PerdureError, type SessionStatus } from 'perdure/domain';
import { catalogOf, createHost, hostMetrics, type Identify } from 'perdure/host';
import { migrate } from 'perdure/migrations';
import { Event, PostgresSessionService } from 'perdure/state';
import { startWorker } from 'perdure/worker';
import { pino } from 'pino';
import agents, { croupier } from './agents.js';

/** A turn in memory, without any server. */
async function inMemory(): Promise<string> {
  const models = createModels({});
  const session = memorySession({ agent: croupier, workspaceRoot: process.cwd() });
  let text = '';
  for await (const chunk of run(session, 'hello', models.resolve(models.defaultRef))) {
    if (chunk.type === 'text-delta') text += chunk.delta;
  }
  return text;
}

/** The text of a session's first turn, through the client. */
async function overClient(client: PerdureClient): Promise<{ text: string; phase: Phase }> {
  const { session } = await client.openSession('ada');
  const { run_seq: runSeq } = await client.submit('ada', session.session_id, { id: 'm1', text: 'hello' });
  let text = '';
  for await (const chunk of client.follow('ada', session.session_id, runSeq)) {
    if (chunk.type === 'text-delta') text += chunk.delta;
  }
  const status: SessionStatus = await client.reads.status('ada', session.session_id);
  if (status.state !== 'idle') throw new Error(`the status is ${status.state}`);
  return { text, phase: session.phase };
}

/** The same over HTTP, with a `fetch` handler. */
async function overHttp(client: PerdureClient): Promise<{ status: number; code: unknown }> {
  const identify: Identify = async (request) => {
    const user = request.headers.get('x-user');
    if (user === null) throw new PerdureError('Unauthorized', 'who is it?');
    return { user };
  };
  const log = pino({ level: 'silent' });
  const host = createHost({ client, identify, log, metrics: hostMetrics(), maxBodyBytes: 1024 ** 2 });
  const server: Server = createServer((incoming, outgoing) => {
    const request = new Request(`http://localhost${incoming.url ?? '/'}`, { headers: { 'x-user': 'grace' } });
    void host.fetch(request).then(async (response) => {
      outgoing.writeHead(response.status).end(await response.text());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const response = await fetch(`http://127.0.0.1:${port}/api/sessions/ses_00000000000000000000000000`);
  const { code } = (await response.json()) as { code: unknown };
  host.close();
  server.close();
  return { status: response.status, code };
}

/** What two events leave in the state of a session. Google's ADK, an optional peer, is not installed here. */
async function scopedState(database: string): Promise<Record<string, unknown>> {
  const sessions = new PostgresSessionService({ database });
  const session = await sessions.createSession({ appName: 'shop', userId: 'ada', state: { 'user:visits': 1 } });
  session.state.increment('user:visits');
  await sessions.appendEvent({ session, event: new Event({ author: 'main', actions: session.state.changes() }) });
  await sessions.end();
  return session.state.getAll();
}

const env = process.env as Record<string, string>;
await migrate(env['DATABASE_URL'] ?? '');
const worker = await startWorker({ agents, log: pino({ level: 'silent' }) });
const client = createClient({
  database: env['DATABASE_URL'] ?? '',
  temporal: temporalClient({
    connectionOptions: { address: env['TEMPORAL_ADDRESS'] ?? '' },
    namespace: env['TEMPORAL_NAMESPACE'] ?? '',
  }),
  catalog: catalogOf({ agents, models: createModels({}) }),
});
try {
  const done = {
    inMemory: await inMemory(),
    overClient: await overClient(client),
    overHttp: await overHttp(client),
    nextPhase: nextPhase('verifying', 'publish'),
    state: await scopedState(env['DATABASE_URL'] ?? ''),
  };
  console.log(JSON.stringify(done));
} finally {
  await client.end();
  await worker.stop();
}
