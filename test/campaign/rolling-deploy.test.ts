// Two workers and two hosts are replaced one after the other under load.
import { setTimeout as delay } from 'node:timers/promises';
import type { UIMessage, UIMessageChunk } from 'ai';
import type pg from 'pg';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { eventsOf } from '../../tools/test-kit/host.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import {
  type ChatRequest,
  lastUserText,
  type ModelServer,
  startModelServer,
} from '../../tools/test-kit/model-server.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { type Processes, processesOn } from '../../tools/test-kit/processes.ts';
import { reduced } from '../../tools/test-kit/reduce.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { Balancer } from './balancer.ts';

const TALKERS = 4;
const LONG = 3;
/** An answer that starts before the deploy takes 100 s, so it does not end within the grace period. */
const LONG_WORDS = 5_000;
const PACE_MS = 20;
/** Characters of a long answer that are stored before the deploy starts. */
const LITTLE = 20;
const SETTINGS = {
  // A step that is not handed over continues when its heartbeat times out, which is after the limit of this test.
  PERDURE_HEARTBEAT_TIMEOUT: '2h',
  // On a busy machine a worker may get no CPU for a second, which is not what this test is about.
  PERDURE_LEASE: '30s',
  PERDURE_SHUTDOWN_GRACE: '1s',
  PERDURE_DRAIN_DELAY: '1s',
};

const wordsOf = (count: number) => Array.from({ length: count }, (_, n) => `word${n} `);

/** Words of this answer come before and after the hosts are replaced. */
const ACROSS_HOSTS = 'across hosts';
const hostsReplaced = new Gate();

async function* speak(request: ChatRequest): AsyncGenerator<ModelAction> {
  if (lastUserText(request) === ACROSS_HOSTS) {
    yield say('before');
    await hostsReplaced.pass();
    yield say(' after');
    return;
  }
  const isLong = lastUserText(request).startsWith('long');
  const hasTool = request.messages.at(-1)?.role === 'tool';
  // The second attempt at a long answer is short.
  const again = isLong && (tries.get(lastUserText(request)) ?? 0) > 0;
  tries.set(lastUserText(request), (tries.get(lastUserText(request)) ?? 0) + 1);
  if (!isLong && !hasTool) {
    yield callTool('call_1', 'write_file', { path: 'notes.txt', content: lastUserText(request) });
    return;
  }
  for (const word of wordsOf(isLong && !again ? LONG_WORDS : 25)) {
    await delay(PACE_MS);
    yield say(word);
  }
}
const tries = new Map<string, number>();

let model: ModelServer;
let processes: Processes;
let db: pg.Pool;
const balancer = new Balancer();
beforeAll(async () => {
  model = await startModelServer(speak);
  afterFile(() => model.close());
  const databaseUrl = await freshDatabase();
  db = patientPool(databaseUrl);
  afterFile(() => db.end());
  processes = await processesOn({ databaseUrl, ...(await freshNamespace()) }, model.url);
});

/** Ends what runs beside the test, which is over. */
const over = new AbortController();
const beside: Promise<unknown>[] = [];

/** Work beside the test, which awaits its result later. It ends with the test at the latest. */
function alongside<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  beside.push(work);
  return work;
}

async function post(user: string, path: string, body: object, headers = {}): Promise<Response> {
  return balancer.fetch(user, path, {
    signal: over.signal,
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  });
}

/** Reads the answer to a message to its end, reconnecting. Returns the chunks of the last connection and the number of connections. */
async function follow(
  user: string,
  session: string,
  message: object,
): Promise<{ chunks: UIMessageChunk[]; connections: number }> {
  for (let connections = 1; ; connections += 1) {
    const chunks: UIMessageChunk[] = [];
    const response = await post(user, '/api/chat', { id: session, messages: [message] });
    expect(response.status).toBe(200);
    try {
      for await (const { data } of eventsOf(response)) chunks.push(data as UIMessageChunk);
    } catch {
      // The connection broke because its host stopped.
      over.signal.throwIfAborted();
    }
    if (chunks.at(-1)?.type === 'finish') return { chunks, connections };
  }
}

interface Turn {
  answer: UIMessage | undefined;
  connections: number;
}

async function turn(user: string, session: string, text: string): Promise<Turn> {
  const message = { id: newId('msg'), role: 'user', parts: [{ type: 'text', text }] };
  const { chunks, connections } = await follow(user, session, message);
  return { answer: await reduced(chunks), connections };
}

async function open(user: string): Promise<string> {
  const { session } = (await (await post(user, '/api/sessions', {})).json()) as { session: { session_id: string } };
  return session.session_id;
}

async function stored(user: string, session: string): Promise<UIMessage[]> {
  const response = await balancer.fetch(user, `/api/sessions/${session}/messages?limit=200`);
  return ((await response.json()) as { items: UIMessage[] }).items;
}

/** Sends a command. A host that has no answer after ten seconds gives up with 503. */
async function openProject(session: string, key: string): Promise<void> {
  const path = `/api/sessions/${session}/open`;
  const response = await post('commander', path, { project_id: 'prj-of-a-deploy' }, { 'idempotency-key': key });
  expect([response.status, await response.json()]).toEqual([200, expect.anything()]);
}

const textsOf = (message: UIMessage | undefined) =>
  (message?.parts ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : []));

it(
  'R2 T5 a rolling restart of two workers and two hosts under load loses no text, no command and no reader',
  async () => {
    const [oldWorkers, oldHosts] = await Promise.all([
      Promise.all([processes.worker(SETTINGS), processes.worker(SETTINGS)]),
      Promise.all([processes.host(SETTINGS), processes.host(SETTINGS)]),
    ]);
    for (const host of oldHosts) balancer.add(host);
    const deployed = new AbortController();

    onTestFinished(async () => {
      over.abort();
      hostsReplaced.open();
      await Promise.allSettled(beside);
    });

    const talk = async (user: string) => {
      const session = await open(user);
      const turns: Turn[] = [];
      while (!deployed.signal.aborted) turns.push(await turn(user, session, `turn ${turns.length} of ${user}`));
      return { user, session, turns };
    };
    const talkers = Array.from({ length: TALKERS }, (_, n) => alongside(talk(`talker-${n}`)));
    let commands = 0;
    const command = async () => {
      const session = await open('commander');
      while (!deployed.signal.aborted) {
        await openProject(session, `open-${commands}`);
        commands += 1;
        await delay(40, undefined, { signal: over.signal });
      }
      return session;
    };
    const commander = alongside(command());
    const longOnes = await Promise.all(
      Array.from({ length: LONG }, async (_, n) => ({ user: `long-${n}`, session: await open(`long-${n}`) })),
    );
    const sayLong = async ({ user, session }: { user: string; session: string }, n: number) => ({
      ...{ user, session },
      ...(await turn(user, session, `long ${n}`)),
    });
    const long = longOnes.map((one, n) => alongside(sayLong(one, n)));
    await eventually(async () => {
      for (const { user, session } of longOnes) {
        const [said = ''] = textsOf((await stored(user, session)).at(-1));
        expect(said.length, 'stored before the deploy').toBeGreaterThan(LITTLE);
      }
    });

    const leases = async () => (await db.query('SELECT FROM worker_leases')).rowCount;
    for (const worker of oldWorkers) {
      await processes.worker(SETTINGS);
      await eventually(async () => expect(await leases()).toBe(3));
      worker.kill('SIGTERM');
      expect(await worker.exited).toEqual({ code: 0, signal: null });
      // So that its steps were handed over by it, and not by who finds that its lease lapsed. On a busy machine another one may
      // just have been taken for lost.
      const { rows: held } = await db.query<{ worker_id: string; at: Date }>(
        'SELECT worker_id, clock_timestamp() AS at FROM worker_leases',
      );
      expect(held).not.toEqual([]);
      await eventually(async () => {
        const renewed = 'SELECT FROM worker_leases WHERE worker_id = ANY ($1) AND renewed_at > $2';
        const { rowCount } = await db.query(renewed, [held.map((each) => each.worker_id), held[0]?.at]);
        expect(rowCount, 'leases left that somebody renews').toBe(held.length);
      });
    }
    const reader = await open('reader');
    const acrossHosts = alongside(turn('reader', reader, ACROSS_HOSTS));
    await Promise.race([hostsReplaced.reached, acrossHosts]);
    for (const host of oldHosts) {
      balancer.add(await processes.host(SETTINGS));
      host.kill('SIGTERM');
      expect(await host.exited).toEqual({ code: 0, signal: null });
      expect(balancer.drained.has(host), 'it was not ready before it stopped').toBe(true);
    }
    hostsReplaced.open();
    const enough = alongside(eventually(() => expect(commands).toBeGreaterThan(20), { timeout: 60_000 }));
    await Promise.race([enough, commander]);
    deployed.abort();

    const commanded = await commander;
    const { rows: opened } = await db.query(
      `SELECT FROM session_events WHERE session_id = $1 AND kind = 'transition' AND actor = 'user'`,
      [commanded],
    );
    expect(opened, 'each command is carried out once').toHaveLength(commands);
    const { answer: whole, connections } = await acrossHosts;
    expect(connections, 'its reader lost a host and reconnected').toBeGreaterThan(1);
    expect(textsOf(whole)).toEqual(['before after']);
    for (const { user, session, turns } of await Promise.all(talkers)) {
      const answers = (await stored(user, session)).filter(({ role }) => role === 'assistant');
      expect(turns.map(({ answer }) => answer)).toEqual(answers);
      for (const answer of answers) {
        expect(textsOf(answer).at(-1), 'the complete answer').toBe(wordsOf(25).join(''));
        expect(answer.parts.filter(({ type }) => type === 'tool-write_file')).toMatchObject([
          { state: 'output-available' },
        ]);
      }
    }
    for (const { user, session, answer } of await Promise.all(long)) {
      expect(answer).toEqual((await stored(user, session)).at(-1));
      const [lost] = textsOf(answer);
      expect(lost!.length, 'text from before the deploy stays').toBeGreaterThan(LITTLE);
      expect(wordsOf(LONG_WORDS).join('').startsWith(lost!)).toBe(true);
      expect(answer?.parts.map(({ type }) => type)).toContain('data-interrupted');
      expect(textsOf(answer).at(-1)).toBe(wordsOf(25).join(''));
    }
  },
  patient(300_000),
);
