// What prompts and tools see of the session of their turn.
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { type AgentDefinition, defineAgent, defineTool, type PromptSession } from '../../agent/definition/define.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import type { SubmitOptions } from '../../client/send/submission.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, fail, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';

const look = defineTool({
  name: 'look',
  description: 'Looks at the session.',
  input: z.object({}),
  repeatable: true,
  execute: (_input, { session }) => session,
});

/** Sessions that the prompt was evaluated for, by the worker that did. */
const evaluated: { worker: string; session: PromptSession }[] = [];

const common = { description: 'Tries prompts.', mode: 'primary', tools: [look] } as const;
const agentsOf = (worker: string): AgentDefinition[] => [
  defineAgent({
    ...common,
    id: 'changing',
    prompt: async (session) => {
      evaluated.push({ worker, session });
      return `Evaluation ${evaluated.length} by ${worker}, for ${session.attributes['tenant'] as string}.`;
    },
  }),
  // As if they had been edited between the two workers.
  defineAgent({ ...common, id: 'was-function', prompt: worker === 'one' ? () => 'Says {name}.' : 'Now a text.' }),
  defineAgent({ ...common, id: 'was-text', prompt: worker === 'one' ? 'Says {name?}.' : () => 'Now {made}.' }),
  defineAgent({ ...common, id: 'steady', prompt: 'Stays as it is.' }),
  defineAgent({ ...common, id: 'throwing', prompt: () => throws('a reason of its own') }),
  defineAgent({ ...common, id: 'empty', prompt: () => ' ' }),
  defineAgent({ ...common, id: 'silent', prompt: () => new Promise(() => {}) }),
];

function throws(message: string): never {
  throw new Error(message);
}

let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  runtime = await startRuntime({
    agents: agentsOf('one'),
    script(request, number) {
      const text = lastUserText(request);
      const before = requestsFor(text).length;
      if (text.startsWith('fail') && before === failing(text)) return [fail(503)];
      if (text.includes('in a long session')) return played(request, number);
      const hasLooked = request.messages.at(-1)?.role === 'tool';
      return hasLooked ? [say('Done.')] : [callTool(`call-${number}`, 'look', {})];
    },
  });
  client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
});

/** Turns with texts, with several calls in a step and several steps, and with calls that fail. */
function played({ messages }: ChatRequest, number: number) {
  const since = messages.findLastIndex(({ role }) => role === 'user');
  const steps = messages.slice(since).filter(({ role }) => role === 'assistant').length;
  if (!JSON.stringify(messages[since]).includes('play') || steps === 4) return [say('Done: "äöü" \u2028 1 < 2.')];
  const name = steps === 2 ? 'no-such-tool' : 'look';
  const input = steps === 1 ? { z: 1, a: [null, 1.5, 'ß'] } : {};
  return [say(`Step ${steps}.`), callTool(`one-${number}`, name, input), callTool(`two-${number}`, 'look', {})];
}

/** The number of the request that fails: a text is kept from the first words on, a function's result at once. */
function failing(text: string): number {
  return text.endsWith('was-text') ? 2 : 1;
}

/** The requests to the model for a message. */
function requestsFor(text: string): ChatRequest[] {
  return runtime.model.requests.map(({ body }) => body).filter((body) => lastUserText(body) === text);
}

const systemOf = ({ messages }: ChatRequest) => JSON.stringify(messages[0]?.content);

/** Sends a message in a new session, and waits for the answer. */
async function ask(agent: string, text: string, options: SubmitOptions = {}, metadata: Record<string, unknown> = {}) {
  const { session } = await client.openSession('ada', { agent, metadata });
  const id = session.session_id;
  const { run_seq: run } = await client.submit('ada', id, { text }, options);
  for await (const _ of client.follow('ada', id, run));
  const { items } = await client.reads.messages('ada', id);
  const { rows } = await runtime.db.query<Record<string, unknown>>('SELECT * FROM chat_runs WHERE session_id = $1', [
    id,
  ]);
  return { id, answer: items[1] as unknown as { metadata: Record<string, unknown>; parts: never[] }, run: rows[0]! };
}

it('P1 a prompt is a function of the session, evaluated once per turn, also if the model call is retried', async () => {
  const from = evaluated.length;
  const options = { attributes: { tenant: 'acme' } };
  const { id, answer, run } = await ask('changing', 'fail and retry', options, { plan: 'pro' });
  expect(evaluated.slice(from)).toEqual([
    {
      worker: 'one',
      session: {
        sessionId: id,
        userId: 'ada',
        projectId: null,
        metadata: { plan: 'pro' },
        attributes: { tenant: 'acme' },
        date: new Date().toISOString().slice(0, 10),
      },
    },
  ]);
  const systems = requestsFor('fail and retry').map(systemOf);
  expect(systems).toHaveLength(3);
  expect(new Set(systems).size).toBe(1);
  expect(systems[0]).toContain(`Evaluation ${from + 1} by one, for acme.`);
  const digest = answer.metadata['system_prompt_digest'];
  expect(run['prompt_digest']).toBe(digest);
  const { rows } = await runtime.db.query<{ body: string }>(
    `SELECT body FROM system_prompts p CROSS JOIN unnest(p.sections) AS section JOIN prompt_sections s ON s.digest = section
      WHERE session_id = $1 AND p.digest = decode($2, 'hex')`,
    [id, digest],
  );
  expect(rows.map(({ body }) => body)).toContain(`Evaluation ${from + 1} by one, for acme.`);

  await client.submit('ada', id, { text: 'once more' });
  await eventually(() => expect(evaluated).toHaveLength(from + 2));
});

it('P1 each request of a long session begins with the bytes of the one before, so that providers can cache them', async () => {
  const { session } = await client.openSession('ada', { agent: 'steady' });
  const id = session.session_id;
  for (const text of ['tell', 'play with tools', 'play on', 'tell more', 'play with tools again']) {
    const { run_seq: run } = await client.submit('ada', id, { text: `${text} in a long session` });
    for await (const _ of client.follow('ada', id, run));
  }
  const all = runtime.model.requests.map(({ body }) => body);
  const requests = all.filter((body) => lastUserText(body).endsWith('in a long session'));
  expect(requests.length).toBeGreaterThan(12);
  const openEnd = ({ messages }: ChatRequest) => JSON.stringify(messages).slice(0, -1);
  for (const [at, request] of requests.entries()) {
    const before = requests[at - 1] ?? request;
    expect(openEnd(request).slice(0, openEnd(before).length), `request ${at}`).toBe(openEnd(before));
    expect({ ...request, messages: [] }).toEqual({ ...before, messages: [] });
  }
  const { items } = await client.reads.messages('ada', id);
  const digests = items.flatMap(({ metadata }) => metadata['system_prompt_digest'] ?? []) as string[];
  expect(digests).toHaveLength(5);
  expect(new Set(digests).size).toBe(1);
  const { digest, sections } = await client.reads.prompt('ada', digests[0]!);
  expect(digest).toBe(digests[0]);
  const system = [sections.agent, sections.environment].join('\n\n');
  expect([sections.instructions, sections.skills]).toEqual(['', '']);
  expect(requests[0]!.messages[0]).toMatchObject({ role: 'system', content: system });
  expect(JSON.parse(sections.tools)).toMatchObject([{ name: 'look' }]);
  for (const [user, asked] of [
    ['eve', digest],
    ['ada', digest.toUpperCase()],
    ['ada', '0'.repeat(64)],
  ] as const) {
    await expect(client.reads.prompt(user, asked)).rejects.toMatchObject({ code: 'PromptNotFound' });
  }
});

it('P5 ctx.session has the metadata and what the sign-in hook passed on with this message', async () => {
  const { answer, id } = await ask('changing', 'look', { attributes: { tenant: 'acme' } }, { plan: 'pro' });
  const session = { sessionId: id, userId: 'ada', projectId: null, metadata: { plan: 'pro' } };
  expect(answer.parts).toContainEqual(
    expect.objectContaining({ type: 'tool-look', output: { ...session, attributes: { tenant: 'acme' } } }),
  );
  const { run_seq: run } = await client.submit('ada', id, { text: 'look without' });
  for await (const _ of client.follow('ada', id, run));
  const { items } = await client.reads.messages('ada', id);
  expect(items[3]?.parts).toContainEqual(
    expect.objectContaining({ type: 'tool-look', output: { ...session, attributes: {} } }),
  );
});

it.each([
  ['throwing', 'it threw an error'],
  ['empty', 'it returned something else'],
])('P1 a prompt that is %s ends the turn, and names the agent and what was expected', async (agent, problem) => {
  const { run } = await ask(agent, `ask ${agent}`);
  const message = `agent "${agent}": prompt: expected a function that returns a text; ${problem}`;
  expect(run).toMatchObject({ state: 'error', error_code: 'AgentNotConfigured' });
  expect(run['error_message']).toContain(message);
  expect(run['error_message']).not.toContain('of its own');
  expect(runtime.logs.find(({ msg }) => msg.includes(message))).toMatchObject({ level: 50, agent });
});

it('R3 an abort ends a turn whose prompt never comes', async () => {
  const { session } = await client.openSession('ada', { agent: 'silent' });
  const id = session.session_id;
  await client.submit('ada', id, { text: 'ask silent' });
  await eventually(async () => expect((await client.reads.status('ada', id)).state).toBe('busy'));
  await client.commands.abort('ada', id, {});
  await eventually(async () => expect((await client.reads.status('ada', id)).state).toBe('idle'));
  expect(requestsFor('ask silent')).toEqual([]);
});

it('P1 another worker continues a turn with its prompt, also if the agent has another one by now', async () => {
  const begin = async (agent: string) => {
    const { session } = await client.openSession('ada', { agent });
    const text = `fail and move ${agent}`;
    const { run_seq } = await client.submit('ada', session.session_id, { text }, { attributes: { tenant: 'acme' } });
    await eventually(() => expect(requestsFor(text)).toHaveLength(failing(text)));
    return { agent, text, id: session.session_id, run: run_seq };
  };
  const begun = await Promise.all(['changing', 'was-function', 'was-text'].map(begin));
  await runtime.startWorker({ agents: agentsOf('two') });
  await runtime.first.stop();
  const first = { changing: 'by one, for acme.', 'was-function': 'Says {name}.', 'was-text': 'Says .' };
  const next = { changing: 'by two, for acme.', 'was-function': 'Now a text.', 'was-text': 'Now {made}.' };
  for (const { agent, text, id, run } of begun) {
    for await (const _ of client.follow('ada', id, run));
    const systems = requestsFor(text).map(systemOf);
    expect(systems).toHaveLength(3);
    expect(systems[0]).toContain(first[agent as keyof typeof first]);
    expect(new Set(systems).size).toBe(1);
    if (agent === 'changing') expect(evaluated.filter(({ session }) => session.sessionId === id)).toHaveLength(1);

    const later = `next ${agent}`;
    const { run_seq } = await client.submit('ada', id, { text: later }, { attributes: { tenant: 'acme' } });
    for await (const _ of client.follow('ada', id, run_seq));
    expect(systemOf(requestsFor(later)[0]!)).toContain(next[agent as keyof typeof next]);
  }
});

it.each([
  [{ tenant: 'x'.repeat(5_000) }, 'attributes: expected at most 4096 bytes of JSON'],
  [{ token: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl' }, 'attributes: expected no token'],
  [['acme'], 'attributes: expected a plain object'],
])('Q3 attributes that cannot be stored are refused: %j', async (attributes, message) => {
  const { session } = await client.openSession('ada', { agent: 'changing' });
  const sent = client.submit('ada', session.session_id, { text: 'x' }, { attributes } as unknown as SubmitOptions);
  await expect(sent).rejects.toThrow(message);
});
