// What the options of `startWorker` and the fields of an agent and a message change, seen by the model provider.
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { createModels } from '../../agent/models/models.ts';
import { createClient, type MessageInput, type PerdureClient } from '../../client/index.ts';
import type { Usage } from '../../domain/usage.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { finish, hang, report, say } from '../../tools/test-kit/model-actions.ts';
import { type ModelServer, startModelServer } from '../../tools/test-kit/model-server.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freePort, freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { quietRuntime } from '../../worker/replay/quiet.ts';
import { type StartedWorker, startWorker } from '../../worker/start.ts';

const look = defineTool({ name: 'look', description: 'Looks around.', input: z.object({}), execute: () => null });
const agent = { description: 'Tries options.', mode: 'primary', prompt: 'Be brief.', tools: [look] } as const;
const agents = [
  defineAgent({ ...agent, id: 'plain' }),
  defineAgent({ ...agent, id: 'tuned', model: 'openai/of-agent', temperature: 0.3, max_output_tokens: 77 }),
];

const MODELS = {
  'openai/default': { variants: { deep: { reasoning: 'high', provider_options: { openai: { user: 'a-tester' } } } } },
  'openai/plain': { modalities: ['text'] },
  'openai/short': { max_output: 900 },
};

const lines: string[] = [];
/** A hook, which fails for some models. */
function cost({ model: ref, usage }: { model: string; usage: Usage }): number | undefined {
  if (ref === 'acme/throws') throw new Error('no price list');
  if (ref === 'acme/odd') return Number.NaN;
  return ref === 'acme/fast' ? usage.output * 0.01 : undefined;
}

const HELLO = [say('hello'), report({ input: 10, output: 5 })];

let model: ModelServer;
let client: PerdureClient;
let worker: StartedWorker;
let metricsPort: number;
let env: Record<string, string>;

beforeAll(async () => {
  quietRuntime();
  model = await startModelServer(() => HELLO);
  const database = await freshDatabase();
  const { address, namespace, client: temporal } = await freshNamespace();
  metricsPort = await freePort();
  env = {
    DATABASE_URL: database,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    OPENAI_BASE_URL: model.url,
    PERDURE_MODEL: 'openai/default',
    PERDURE_MODELS: path.join(scratchDir(), 'models.json'),
    PERDURE_PROVIDER_IDLE: `${patient(1_000)}ms`,
    PERDURE_DIR: path.resolve('node_modules/.cache/perdure-options'),
    PERDURE_WORKSPACES: scratchDir(),
    PERDURE_METRICS_PORT: String(metricsPort),
  };
  await mkdir(path.dirname(env['PERDURE_MODELS']!));
  await writeFile(env['PERDURE_MODELS']!, JSON.stringify(MODELS));
  worker = await startWorker({
    env,
    agents,
    providers: { acme: (id) => createModels({ openaiBaseUrl: model.url }).resolve(`openai/acme-${id}`).model },
    hooks: { cost },
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    moreMetrics: () => Promise.resolve('of_mine 1\n'),
  });
  client = createClient({ database, temporal });
});

afterAll(async () => {
  await client?.end();
  await worker?.stop();
  await model?.close();
});

/** The request to the model for one message, and the session afterwards. */
async function ask(options: { agent: string; model?: string }, message: Pick<MessageInput, 'model'> = {}) {
  const { session } = await client.openSession('ada', options);
  const { run_seq } = await client.submit('ada', session.session_id, { text: session.session_id, ...message });
  for await (const _ of client.follow('ada', session.session_id, run_seq));
  const { body } = model.requests.find((request) => JSON.stringify(request.body).includes(session.session_id))!;
  const { chat } = await client.reads.session('ada', session.session_id);
  return { body: body as unknown as Record<string, unknown>, chat };
}

it('P2 an agent’s prompt, tools, model, temperature and max_output_tokens reach the provider', async () => {
  const { body } = await ask({ agent: 'tuned' });
  expect(body).toMatchObject({ model: 'of-agent', temperature: 0.3, max_tokens: 77 });
  expect(JSON.stringify(body['messages'])).toContain('Be brief.');
  expect(body['tools']).toMatchObject([{ function: { name: 'look', description: 'Looks around.' } }]);
  const plain = (await ask({ agent: 'plain' })).body;
  expect([plain['model'], plain['temperature'], plain['max_tokens']]).toEqual(['default', undefined, undefined]);
});

it('X10 max_output of PERDURE_MODELS reaches the provider, unless the agent has a limit', async () => {
  const short = { model: 'openai/short' };
  expect((await ask({ agent: 'plain' }, short)).body['max_tokens']).toBe(900);
  expect((await ask({ agent: 'tuned' }, short)).body['max_tokens']).toBe(77);
  // What is only known of a model is no limit of the application's.
  expect((await ask({ agent: 'plain' }, { model: 'openai/gpt-4o' })).body['max_tokens']).toBeUndefined();
});

it('P2 the model is the message’s, else the session’s, else the agent’s, else PERDURE_MODEL', async () => {
  const asked = async (...args: Parameters<typeof ask>) => (await ask(...args)).body['model'];
  expect(await asked({ agent: 'tuned', model: 'openai/of-session' }, { model: 'openai/of-message' })).toBe(
    'of-message',
  );
  expect(await asked({ agent: 'tuned', model: 'openai/of-session' })).toBe('of-session');
  expect(await asked({ agent: 'tuned' })).toBe('of-agent');
  expect(await asked({ agent: 'plain' })).toBe('default');
});

it('R6 PERDURE_PROVIDER_IDLE: a provider that is silent for longer is asked again', async () => {
  const from = model.requests.length;
  model.script((_request, index) => (index === from ? [hang()] : [say('hello'), report({ input: 10, output: 5 })]));
  await ask({ agent: 'plain' });
  expect(model.requests.length - from).toBe(2);
});

it('X10 a variant changes the calls of one turn, and the prompt and the answer name it', async () => {
  const deep = { model: { provider_id: 'openai', model_id: 'default', variant: 'deep' } };
  const { body, chat } = await ask({ agent: 'plain' }, deep);
  expect(body).toMatchObject({ model: 'default', reasoning_effort: 'high', user: 'a-tester' });
  expect(JSON.stringify(body['messages'])).toContain('- Model: openai/default (deep)');
  const { items } = await client.reads.messages('ada', chat.session_id);
  expect(items.at(-1)?.metadata).toMatchObject({ model: 'openai/default', variant: 'deep' });
  const { run_seq } = await client.submit('ada', chat.session_id, { text: 'go on' });
  for await (const _ of client.follow('ada', chat.session_id, run_seq));
  const next = model.requests.at(-1)!.body;
  expect(JSON.stringify(next)).toContain('go on');
  expect([next.model, next['reasoning_effort'], next['user']]).toEqual(['default', undefined, undefined]);
});

it('X10 a model that cannot take the images of an earlier turn gets a note in their place', async () => {
  const { session } = await client.openSession('ada', { agent: 'plain' });
  const image = { type: 'file' as const, mediaType: 'image/png', url: 'data:image/png;base64,aGVsbG8=' };
  const turn = async (message: MessageInput) => {
    const { run_seq } = await client.submit('ada', session.session_id, message);
    for await (const _ of client.follow('ada', session.session_id, run_seq));
    return JSON.stringify(model.requests.at(-1)!.body.messages);
  };
  expect(await turn({ parts: [image] })).toContain('aGVsbG8=');
  const later = await turn({ text: 'and now?', model: 'openai/plain' });
  expect(later).not.toContain('aGVsbG8=');
  expect(later).toContain('[file of type image/png: this model cannot read it]');
});

it('H5 providers add models, and hooks.cost adds the price of a step to the session', async () => {
  const priced = await ask({ agent: 'plain' }, { model: 'acme/fast' });
  expect(priced.body['model']).toBe('acme-fast');
  expect(priced.chat.cost_usd).toBeCloseTo(0.05);
  expect((await ask({ agent: 'plain' })).chat.cost_usd).toBeNull();
});

it.each([
  ['acme/throws', 'the hook cost threw an error: expected the price of a step'],
  ['acme/odd', 'the hook cost returned something else: expected the price of a step'],
])('U3 a cost hook that fails for %s is named in the log; the answer stays, without a price', async (ref, logged) => {
  const from = model.requests.length;
  const { chat } = await ask({ agent: 'plain' }, { model: ref });
  expect([model.requests.length - from, chat.cost_usd]).toEqual([1, null]);
  expect(lines.join('')).toContain(logged);
});

it('U3 an answer that is made again has a price, too', async () => {
  const ends = [[finish('insufficient_system_resource')]];
  model.script(() => [...HELLO, ...(ends.pop() ?? [])]);
  onTestFinished(() => model.script(() => HELLO));
  expect((await ask({ agent: 'plain' }, { model: 'acme/fast' })).chat.cost_usd).toBeCloseTo(0.1);
});

it('H5 moreMetrics are served with the worker’s, and log receives its lines', async () => {
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  expect(metrics).toContain('of_mine 1');
  expect(metrics).toContain('perdure_steps_total');
  await eventually(() => expect(lines.join('')).toContain('"agents":["plain","tuned"]'));
});

it('H5 a worker whose metrics port is in use does not start, and closes its connections', async () => {
  const database = await freshDatabase();
  await expect(startWorker({ env: { ...env, DATABASE_URL: database }, agents })).rejects.toThrow('EADDRINUSE');
  const db = new pg.Client({ connectionString: env['DATABASE_URL']! });
  await db.connect();
  const open = 'SELECT pid, query FROM pg_stat_activity WHERE datname = $1';
  const name = new URL(database).pathname.slice(1);
  await eventually(async () => expect((await db.query(open, [name])).rows).toEqual([]));
  await db.end();
});

it('H9 a worker whose default model cannot be resolved does not start', async () => {
  await expect(startWorker({ env: { ...env, PERDURE_MODEL: 'acme/x' }, agents })).rejects.toThrow(
    'PERDURE_MODEL, the default model: expected a model that can be resolved; the model "acme/x" is not configured',
  );
});

it('H5 an option and its variable exclude each other, and unknown options are refused by name', async () => {
  const both = { DATABASE_URL: 'postgres://localhost:1/none', PERDURE_AGENTS: 'a.ts', PERDURE_PROVIDERS: 'p.ts' };
  const refused = startWorker({ env: both, agents, providers: {} });
  await expect(refused).rejects.toThrow('PERDURE_AGENTS: expected nothing with `agents`');
  await expect(refused).rejects.toThrow('PERDURE_PROVIDERS: expected nothing with `providers`');
  const misspelt = { agent: agents } as object;
  await expect(startWorker(misspelt)).rejects.toThrow('agent: no such option');
});
