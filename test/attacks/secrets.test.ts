// Secrets in the environment of worker and host are echoed by a provider and leaked by tools; afterwards no output may
// contain them.
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { SignJWT } from 'jose';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, fail, type ModelAction, raw, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, type ModelServer, startModelServer } from '../../tools/test-kit/model-server.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { type HostProcess, type OurProcess, processesOn } from '../../tools/test-kit/processes.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freePort, freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { allHistories } from '../faults/history.ts';
import { requestTo, type Route, routesOf } from './routes.ts';
import { allRows } from './rows.ts';

/** Random, so that every occurrence is a leak. */
const SECRETS = {
  openai: `sk-open-${randomBytes(12).toString('hex')}`,
  anthropic: `sk-anth-${randomBytes(12).toString('hex')}`,
  jwt: `jwt "secret" ${randomBytes(24).toString('hex')}`,
  gateway: `token+${randomBytes(12).toString('hex')}`,
  password: `pg/word+ ${randomBytes(12).toString('hex')}`,
};
const USER = `perdure_${randomBytes(6).toString('hex')}`;
const BEARER = `Bearer ${SECRETS.openai}`;

/** The model's answers in each turn; the last one is repeated. */
const TURNS: Record<string, ModelAction[][]> = {
  unauthorized: [[fail(401, { message: `Incorrect API key provided: ${SECRETS.openai}`, code: BEARER })]],
  rejected: [[fail(400, { message: `bad request with ${BEARER}`, code: SECRETS.openai })]],
  unavailable: [[fail(500, { message: BEARER })], [fail(429, { message: BEARER, retryAfter: 0 })], [say('fine')]],
  'error in the stream': [
    [say('so'), raw(`data: {"error":{"message":"${BEARER}","type":"authentication_error"}}\n\n`)],
  ],
  'garbage in the stream': [
    [say('so'), raw(`data: ${SECRETS.openai} is no JSON\n\n`)],
    [raw(`data: {"choices": "${SECRETS.openai}"}\n\n`)],
    [say('fine')],
  ],
  'garbage in an error': [[raw(`data: {"error": ${SECRETS.openai}\n\n`)], [say('fine')]],
  tools: [
    ['stumble', 'tell', 'tell_at_length', 'look'].map((name, n) => callTool(`call_${n}`, name, {})),
    [say('fine')],
  ],
};

const told = scratchDir();

let db: pg.Pool;
let model: ModelServer;
let host: HostProcess;
let lost: HostProcess;
let worker: OurProcess;
let histories: () => Promise<string[]>;
let metricsPort: number;
const heard: string[] = [];

beforeAll(async () => {
  const superuser = await freshDatabase();
  const servers = await freshNamespace();
  db = patientPool(superuser);
  await db.query(`CREATE ROLE ${USER} SUPERUSER LOGIN PASSWORD ${pg.escapeLiteral(SECRETS.password)}`);
  const url = new URL(superuser);
  url.username = USER;
  url.password = encodeURIComponent(SECRETS.password);
  const asked = new Map<string, number>();
  model = await startModelServer((request) => {
    const text = lastUserText(request);
    const answers = TURNS[text] ?? [[say('fine')]];
    const count = asked.get(text) ?? 0;
    asked.set(text, count + 1);
    return answers[Math.min(count, answers.length - 1)]!;
  });
  const processes = await processesOn({ ...servers, databaseUrl: url.href }, model.url);
  metricsPort = await freePort();
  const env = {
    OPENAI_API_KEY: SECRETS.openai,
    ANTHROPIC_API_KEY: SECRETS.anthropic,
    ANTHROPIC_BASE_URL: `https://${SECRETS.gateway}@127.0.0.1/v1`,
    PERDURE_JWT_SECRET: SECRETS.jwt,
    PERDURE_AGENTS: path.resolve('test/attacks/agents.ts'),
    PERDURE_LOG_LEVEL: 'trace',
    TOLD: told,
  };
  url.port = String(await freePort());
  [worker, host, lost] = await Promise.all([
    processes.worker({ ...env, PERDURE_METRICS_PORT: String(metricsPort) }),
    processes.host(env),
    processes.host({ ...env, DATABASE_URL: url.href }),
  ]);
  histories = () => allHistories(servers.client);
});
afterAll(async () => {
  await Promise.all([worker, host, lost].map((each) => each?.stop()));
  await model.close();
  await db.query(`DROP ROLE ${USER}`);
  await db.end();
});

type Init = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> };

/** Sends a request as Ada and records the response. */
async function ask(url: string, to: string, init: Init = {}): Promise<{ status: number; text: string }> {
  const key = new TextEncoder().encode(SECRETS.jwt);
  const token = await new SignJWT({ sub: 'ada' })
    .setExpirationTime('1h')
    .setProtectedHeader({ alg: 'HS256' })
    .sign(key);
  const response = await fetch(url + to, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } });
  const text = await response.text();
  heard.push(JSON.stringify([...response.headers]), text);
  return { status: response.status, text };
}

/** A secret and its end: plain, encoded for URLs and JSON, and as base64 at any offset. */
function formsOf(whole: string): string[] {
  return [whole, whole.slice(-20)].flatMap(writtenAs);
}

function writtenAs(secret: string): string[] {
  const shifted = [0, 1, 2].map((before) =>
    Buffer.from('x'.repeat(before) + secret)
      .toString('base64')
      .slice(4, -4),
  );
  return [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), ...shifted];
}

/** The names of the texts that contain a secret, with the secret. */
function leaks(texts: Record<string, string>): string[] {
  return Object.entries(texts).flatMap(([where, text]) =>
    Object.entries(SECRETS).flatMap(([name, secret]) => {
      const form = formsOf(secret).find((each) => text.includes(each));
      if (form === undefined) return [];
      const at = text.indexOf(form);
      return [`${name} in ${where}: …${text.slice(Math.max(0, at - 120), at)}[here]`];
    }),
  );
}

it('Q3 no secret is in a log, row, history, response, stream or metric, however turns fail', async () => {
  const [sessions] = await Promise.all([everyTurn(), tell()]);
  expect(model.requests[0]!.headers['authorization'], 'the key is in use').toBe(BEARER);
  await refusals();
  const routes = (await routesOf(host.url)).filter((route) => route.method === 'GET' && !route.streams);
  await Promise.all(sessions.flatMap((id) => routes.map((route) => read(route, id))));
  await unreachable();
  await eventually(async () => expect(await histories()).toHaveLength(sessions.length));
  const rows = await allRows(db);
  expect(rows['chat_parts'], 'the tools’ outputs are stored without the secrets').toContain('[redacted]');
  expect(rows['chat_parts']).toMatch(/""found"": 0/);
  expect(rows['tool_outputs']).toContain('[redacted]');
  const logs = await Promise.all([worker, host, lost].map((each) => each.output()));
  expect(logs[0]).toContain('[redacted]');
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const temporal = (await histories()).join('\n');
  expect(
    leaks({
      ...rows,
      ...{ 'the worker’s log': logs[0]!, 'the host’s log': logs[1]!, 'the log of a host without Postgres': logs[2]! },
      ...{ 'the histories': temporal, 'the worker’s metrics': metrics, 'the responses': heard.join('\n') },
    }),
  ).toEqual([]);
});

/** A turn in a session of its own for each entry of `TURNS`. The sessions' ids. */
async function everyTurn(): Promise<string[]> {
  const sessions: string[] = [];
  for (const text of Object.keys(TURNS)) {
    const body = JSON.stringify({
      id: `about ${text}`,
      messages: [{ id: newId('msg'), role: 'user', parts: [{ type: 'text', text }] }],
    });
    const { status, text: stream } = await ask(host.url, '/api/chat', { method: 'POST', body });
    expect([text, status]).toEqual([text, 200]);
    sessions.push(/"session_id":"(ses_\w+)"/.exec(stream)![1]!);
  }
  return sessions;
}

/** Lets the long tool end when a history shows it. */
async function tell(): Promise<void> {
  await eventually(async () => expect((await histories()).join('\n')).toContain('tell_at_length'));
  await mkdir(told);
}

/** Requests with secrets in wrong places, such as the URL. */
async function refusals(): Promise<void> {
  const wrong: Record<string, string>[] = [
    { authorization: `Bearer ${Buffer.from(SECRETS.jwt).toString('base64url')}` },
    { authorization: `Bearer ${SECRETS.openai}` },
    { authorization: `Basic ${Buffer.from(`ada:${SECRETS.anthropic}`).toString('base64')}` },
  ];
  for (const headers of wrong) expect((await ask(host.url, '/api/sessions', { headers })).status).toBe(401);
}

async function read(route: Route, id: string): Promise<void> {
  const parts = (
    await db.query<{ call: string }>('SELECT tool_call_id AS call FROM tool_outputs WHERE session_id = $1', [id])
  ).rows;
  const params = {
    id,
    message_id: 'm1',
    tool_call_id: parts[0]?.call ?? 'none',
    token: 't',
    file: 'f',
    digest: 'd',
    attachment_id: 'att_x',
  };
  await ask(host.url, requestTo(route, { params }).path);
}

/** A host without a reachable Postgres, and one whose connections were terminated. */
async function unreachable(): Promise<void> {
  expect((await ask(lost.url, '/api/sessions')).status).toBe(503);
  await eventually(async () => expect(await lost.output()).toContain('cannot be reached'));
  await db.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1', [USER]);
  await eventually(async () => expect((await ask(host.url, '/api/sessions')).status).toBe(200));
}
