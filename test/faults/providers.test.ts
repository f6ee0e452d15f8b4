// Transient and permanent failures of a provider, also while streaming; and the limits of a turn.
import { createAnthropic } from '@ai-sdk/anthropic';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { defineAgent, type Limits } from '../../agent/definition/define.ts';
import { hideSecrets } from '../../config/secrets.ts';
import { readEvents } from '../../store/events.ts';
import { readSession } from '../../store/sessions.ts';
import { readStatus } from '../../store/status.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { type EventServer, startEventServer } from '../../tools/test-kit/event-server.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import {
  callTool,
  cut,
  fail,
  finish,
  hang,
  type ModelAction,
  raw,
  report,
  say,
  think,
} from '../../tools/test-kit/model-actions.ts';
import type { ChatRequest } from '../../tools/test-kit/model-server.ts';
import { PROVIDER_APIS } from '../../tools/test-kit/provider-apis.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { statusQuery, updates } from '../../workflows/definitions.ts';
import faultAgent, { effects } from './agent.ts';
import { expectSound } from './sound.ts';

const limited = (id: string, limits: Partial<Limits>) => defineAgent({ ...faultAgent, id, limits });

/** And up to two seconds at random. */
const TWO_MINUTES = expect.stringMatching(/^rate limited, retry in 12[0-2] s$/) as string;

const KEY = 'sk-secret-of-the-worker';

let runtime: TestRuntime;
/** Of the provider `claude`. */
let claude: EventServer;
beforeAll(async () => {
  claude = await startEventServer();
  afterFile(() => claude.close());
  runtime = await startRuntime({
    providers: { claude: createAnthropic({ apiKey: 'k', baseURL: claude.url }) },
    agents: [
      { ...faultAgent, max_output_tokens: 321 },
      limited('few-steps', { steps: 2 }),
      limited('few-tokens', { tokens: 1_000 }),
      limited('some-time', { wall_clock_ms: 3_000 }),
      limited('little-output', { tool_output_bytes: 1_000 }),
    ],
    settings: { providerAttempts: 3 },
    hide: hideSecrets({ openaiApiKey: KEY }),
  });
});

/** A session whose model gives these answers, one per call; the last one is repeated. */
async function talkTo(...answers: ModelAction[][]): Promise<TestSession> {
  const before = runtime.model.requests.length;
  runtime.model.script((_request, index) => answers[Math.min(index - before, answers.length - 1)]!);
  return TestSession.open(runtime, { agent: 'faults' });
}

const lastRequest = (): ChatRequest => runtime.model.requests.at(-1)!.body;

describe('a transient failure of the provider', () => {
  it('R5 429 with Retry-After: the status has attempt and reason, in the row and in the query', async () => {
    const session = await talkTo([fail(429, { retryAfter: 120 })]);
    const seq = await session.send('hello');
    const shown = await eventually(async () => {
      const status = await readStatus(runtime.db, session.id);
      expect(status).toMatchObject({ state: 'retrying', attempt: 1, message: TWO_MINUTES });
      return status;
    });
    await eventually(async () => expect(await session.handle.query(statusQuery)).toEqual(shown));
    await session.command(updates.abort);
    expect((await session.ended(seq)).state).toBe('aborted');
    expect(await readStatus(runtime.db, session.id)).toEqual({ state: 'idle' });
    await expectSound(runtime, session.id);
  });

  it('R6 429, then 5xx: the call is retried', async () => {
    const session = await talkTo([fail(429, { retryAfter: 0 })], [fail(503)], [say('here I am')]);
    const run = await session.ended(await session.send('hello'));
    expect(run.state).toBe('finished');
    expect(await session.parts(run.answer_id)).toMatchObject([{ type: 'step-start' }, { text: 'here I am' }]);
  });

  it('R6 5xx on every attempt: the turn ends with an error that says so', async () => {
    const session = await talkTo([fail(503)]);
    const run = await session.ended(await session.send('hello'));
    expect(run).toMatchObject({ state: 'error', error_code: 'ProviderUnavailable' });
    expect(run.error_message).toContain('gave up after 3 attempts');
  });

  it('T5 a connection cut while streaming: the lost text, `data-interrupted`, the new text; the model sees only the new', async () => {
    const session = await talkTo([say('lost words'), cut()], [say('new words')]);
    const run = await session.ended(await session.send('hello'));
    expect(run.state).toBe('finished');
    expect(await session.parts(run.answer_id)).toMatchObject([
      { type: 'step-start' },
      { type: 'text', text: 'lost words' },
      { type: 'data-interrupted' },
      { type: 'step-start' },
      { type: 'text', text: 'new words' },
    ]);
    expect(JSON.stringify(lastRequest().messages)).not.toContain('lost words');
    await session.ended(await session.send('and then?'));
    const seen = JSON.stringify(lastRequest().messages);
    expect(seen).toContain('new words');
    expect(seen).not.toContain('lost words');
    await expectSound(runtime, session.id);
  });
});

describe('an answer that is not whole', () => {
  const { open, text, end } = PROVIDER_APIS['Anthropic’s messages']!;

  it('T5 a stream that ends in mid-text is tried again, and the model sees only the whole answer', async () => {
    claude.answer(
      [...open(), ...text('The three steps are: first, ')],
      [...open(), ...text('One, two, three.'), ...end('stop')],
    );
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const { run: seq, message } = await session.accept('three steps, please', undefined, 'claude/c');
    await session.wake(seq, message);
    const run = await session.ended(seq);
    expect([run.state, claude.requests.length]).toEqual(['finished', 2]);
    expect(await session.parts(run.answer_id)).toMatchObject([
      { type: 'step-start' },
      { type: 'text', text: 'The three steps are: first, ', state: 'done' },
      { type: 'data-interrupted' },
      { type: 'step-start' },
      { type: 'text', text: 'One, two, three.', state: 'done' },
    ]);
    const again = await session.accept('and then?');
    await session.wake(again.run, again.message);
    await session.ended(again.run);
    const asked = JSON.stringify(claude.requests.at(-1)!['messages']);
    expect(asked).toContain('One, two, three.');
    expect(asked).not.toContain('first, ');
    await expectSound(runtime, session.id);
  });

  it('R6 one with an unknown finish reason is tried again; its calls do not run, and the log has the reason', async () => {
    const word = 'insufficient_system_resource';
    const session = await talkTo(
      [say('I will now'), callTool('c', 'pay', { amount: 5 }), report({ input: 20, output: 6 }), finish(word)],
      [say('Here they are'), report({ input: 21, output: 4 })],
    );
    const run = await session.ended(await session.send('three steps, please'));
    expect(run.state).toBe('finished');
    expect(await session.parts(run.answer_id)).toMatchObject([
      { type: 'step-start' },
      { text: 'I will now' },
      { type: 'tool-pay', state: 'output-error', errorText: 'interrupted before it began' },
      { type: 'data-interrupted' },
      { type: 'step-start' },
      { text: 'Here they are' },
    ]);
    const logged = runtime.logs.filter((line) => line['session'] === session.id && 'error_type' in line);
    expect(logged).toMatchObject([{ code: 'ProviderUnavailable', error_type: word }]);
    const { chat } = (await readSession(runtime.db, session.user, session.id))!;
    expect(chat).toMatchObject({ prompt_tokens: 41, completion_tokens: 10 });
    const { items } = await readEvents(runtime.db, session.id, 0, 100);
    const noted = items.filter(({ kind }) => kind === 'provider_error').map(({ data }) => data);
    expect(noted).toEqual([expect.not.objectContaining({ spent: expect.anything() as unknown })]);
    await expectSound(runtime, session.id);
  });

  it('R6 with an unknown finish reason every time, the turn ends with an error', async () => {
    const session = await talkTo([say('I will now'), finish('insufficient_system_resource')]);
    const run = await session.ended(await session.send('three steps, please'));
    expect(run).toMatchObject({ state: 'error', error_code: 'ProviderUnavailable' });
    expect(run.error_message).toMatch(/^the model provider broke off its answer; gave up after 3 attempts: send/);
  });
});

it('R7 a call that the output limit cuts twice ends the turn, which says so, after two calls of the model', async () => {
  const before = runtime.model.requests.length;
  const session = await talkTo([say('I write'), callTool('c', 'echo', '{"words":"aaa'), finish('length')]);
  const run = await session.ended(await session.send('write'));
  expect(runtime.model.requests.length - before).toBe(2);
  expect(run).toMatchObject({ state: 'error', error_code: 'LimitReached' });
  expect(run.error_message).toMatch(/limit of 321 tokens within a tool call again: .*max_output_tokens/);
  const told = lastRequest().messages.at(-1);
  expect([told?.role, told?.content]).toEqual(['tool', expect.stringMatching(/less at once/)]);
  const calls = (await session.parts(run.answer_id)).filter(({ type }) => type === 'tool-echo');
  expect(calls).toMatchObject([{ state: 'output-error' }, { state: 'output-error' }]);
  await expectSound(runtime, session.id);
});

it('R6 a tool call that is sent twice runs once, and is stored once', async () => {
  const call = callTool('L1', 'pay', { amount: 5 });
  const session = await talkTo([call, call], [say('paid')]);
  const run = await session.ended(await session.send('pay'));
  expect(run.state).toBe('finished');
  const parts = await session.parts(run.answer_id);
  expect(parts.filter(({ type }) => type === 'tool-pay')).toMatchObject([{ state: 'output-available' }]);
  expect(await effects(runtime.workspaces, session.id)).toHaveLength(1);
  await expectSound(runtime, session.id);
});

describe('an empty answer', () => {
  it('R6 ends the turn with an error after one call', async () => {
    const before = runtime.model.requests.length;
    const session = await talkTo([think('I need not say anything'), say(' \n')]);
    const run = await session.ended(await session.send('hello'));
    expect(run).toMatchObject({ state: 'error', error_code: 'EmptyAnswer' });
    expect(runtime.model.requests.length - before).toBe(1);
    await expectSound(runtime, session.id);
  });

  it('R6 after tool calls is the end of the turn', async () => {
    const session = await talkTo([callTool('c', 'echo', { words: 'a' })], []);
    expect((await session.ended(await session.send('echo'))).state).toBe('finished');
    await expectSound(runtime, session.id);
  });

  it('R7 that is reasoning up to the output limit names the limit', async () => {
    const session = await talkTo([think('well, well'), finish('length')]);
    const run = await session.ended(await session.send('hello'));
    expect(run).toMatchObject({ state: 'error', error_code: 'LimitReached' });
    expect(run.error_message).toMatch(/limit of 321 tokens before the answer/);
  });
});

describe('a connection that stays open after the answer', () => {
  it('R6 delays neither its turn nor the next', async () => {
    const end = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
    const session = await talkTo([say('first'), raw(end), hang()], [say('second')]);
    const first = await session.ended(await session.send('hello'));
    const second = await session.ended(await session.send('and then?'));
    expect([first.state, second.state]).toEqual(['finished', 'finished']);
    expect(await session.parts(first.answer_id)).toMatchObject([{ type: 'step-start' }, { text: 'first' }]);
  });
});

describe('a permanent failure of the provider', () => {
  it('W7 pauses the queue; the next submission resumes it, in order', async () => {
    const session = await talkTo([fail(401, { message: 'key sk-123' })], [say('fine')]);
    const first = await session.accept('first');
    const second = await session.accept('second');
    await session.wake(first.run, first.message);
    await session.wake(second.run, second.message);
    const failed = await session.ended(first.run);
    expect(failed).toMatchObject({ state: 'error', error_code: 'ProviderUnauthorized' });
    expect(failed.error_message).not.toContain('sk-123');
    await eventually(async () => expect(await session.handle.query(statusQuery)).toMatchObject({ state: 'error' }));
    expect(await readStatus(runtime.db, session.id)).toEqual({ state: 'error', message: failed.error_message });
    expect((await session.run(second.run)).state).toBe('queued');

    const third = await session.send('third');
    expect((await session.ended(third)).state).toBe('finished');
    expect((await session.run(second.run)).state).toBe('finished');
    const asked = lastRequest().messages.filter((message) => message.role === 'user');
    expect(JSON.stringify(asked)).toMatch(/first.*second.*third/);
    await expectSound(runtime, session.id);
  });
});

describe('what is known about a failure', () => {
  it('R6 is in the worker’s log without the message, in the event log with it, and in the metrics', async () => {
    const overloaded = { error: { type: 'overloaded_error', message: 'come back tomorrow' } };
    const session = await talkTo(
      [fail(429, { retryAfter: 0, requestId: 'req_1', message: 'too many words' })],
      [say('well'), raw(`data: ${JSON.stringify(overloaded)}\n\n`)],
      [fail(400, { requestId: 'req_3', message: `the key ${KEY} may not: ${'long '.repeat(2_000)}` })],
    );
    const counted = await counts();
    const run = await session.ended(await session.send('hello'));
    expect(run).toMatchObject({ state: 'error', error_code: 'ProviderRejected' });

    const known = { provider: 'openai', model: 'test' };
    const failures = [
      { code: 'RateLimited', ...known, status: 429, request_id: 'req_1', error_type: 'scripted' },
      { code: 'Overloaded', ...known, error_type: 'overloaded_error' },
      { code: 'ProviderRejected', ...known, status: 400, request_id: 'req_3', error_type: 'scripted' },
    ];
    const lines = runtime.logs.filter((line) => line['session'] === session.id);
    expect(lines.filter(({ msg }) => msg === 'the model provider failed')).toMatchObject(failures);
    expect(JSON.stringify(lines)).not.toMatch(/too many words|come back|may not/);

    const { items } = await readEvents(runtime.db, session.id, 0, 100);
    const events = items.filter(({ kind }) => kind === 'provider_error').map(({ data }) => data);
    expect(events).toMatchObject(failures);
    expect(events.map((event) => event['run_seq'])).toEqual([run.seq, run.seq, run.seq]);
    const [first, second, third] = events.map(({ message }) => String(message));
    expect([first, second]).toEqual(['too many words', 'come back tomorrow']);
    expect(third).toMatch(/^the key \[redacted\] may not: long/);
    expect(third).toHaveLength(4_000);

    const added = (await counts()).map((count, n) => count - counted[n]!);
    expect(added).toEqual([1, 1, 1]);
  });

  it('R6 of an answer that is no stream: one call, and its first 200 bytes in the event log', async () => {
    const before = runtime.model.requests.length;
    const session = await talkTo([raw(`<html>${'é'.repeat(200)}`)]);
    const run = await session.ended(await session.send('hello'));
    expect(run).toMatchObject({ state: 'error', error_code: 'UnreadableAnswer' });
    expect(runtime.model.requests).toHaveLength(before + 1);
    const { items } = await readEvents(runtime.db, session.id, 0, 100);
    const said = items.filter(({ kind }) => kind === 'provider_error').map(({ data }) => String(data['message']));
    expect(said).toEqual([expect.stringMatching(/: <html>é{97}$/)]);
    expect(JSON.stringify(runtime.logs.filter((line) => line['session'] === session.id))).not.toContain('<html>');
  });

  /** How often calls have failed with each code. */
  async function counts(): Promise<number[]> {
    const { values } = await runtime.registry.getSingleMetric('perdure_provider_errors_total')!.get();
    return ['RateLimited', 'Overloaded', 'ProviderRejected'].map(
      (code) => values.find(({ labels }) => labels['class'] === code && labels['provider'] === 'openai')?.value ?? 0,
    );
  }
});

it('U1 cache writes that a compatible server reports are cache_write, not input, in the message and the sums', async () => {
  const session = await talkTo([say('hi'), report({ input: 100, output: 5, cached: 30, cacheWritten: 60 })]);
  const run = await session.ended(await session.send('hello'));
  const usage = { input: 10, output: 5, reasoning: 0, cache_read: 30, cache_write: 60 };
  const { rows } = await runtime.db.query('SELECT metadata FROM chat_messages WHERE id = $1', [run.answer_id]);
  expect(rows[0]).toMatchObject({ metadata: { usage, steps: [{ usage }] } });
  const sums = await runtime.db.query('SELECT * FROM chat_sessions WHERE session_id = $1', [session.id]);
  expect(sums.rows[0]).toMatchObject({ prompt_tokens: 10, cache_read: 30, cache_write: 60, total_tokens: 105 });
});

describe('a limit ends the turn and names itself', () => {
  const again = [report({ input: 700, output: 10 }), callTool('call_1', 'look', { at: 'it' })];

  it.each([
    ['steps', 'few-steps'],
    ['tokens', 'few-tokens'],
  ])('R7 %s', async (limit, agent) => {
    const before = runtime.model.requests.length;
    runtime.model.script(() => again);
    const session = await TestSession.open(runtime, { agent });
    const run = await session.ended(await session.send('go on and on'));
    expect(run).toMatchObject({ state: 'error', error_code: 'LimitReached' });
    expect(run.error_message).toContain(`(${limit})`);
    expect(runtime.model.requests.length - before).toBe(2);
    await expectSound(runtime, session.id);
  });

  it.each([5, -5])('R7 wall_clock, although the worker’s clock is %i hours off', async (hours) => {
    const before = runtime.model.requests.length;
    runtime.model.script(() => [say('well'), hang()]);
    const now = Date.now.bind(Date);
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + hours * 3_600_000);
    try {
      const session = await TestSession.open(runtime, { agent: 'some-time' });
      const run = await session.ended(await session.send('go on'));
      expect(run.error_message).toContain('3 seconds (wall_clock)');
      expect(run).toMatchObject({ state: 'error', error_code: 'LimitReached' });
      expect(runtime.model.requests.length - before).toBe(1);
      await expectSound(runtime, session.id);
    } finally {
      clock.mockRestore();
    }
  });

  it('R7 the full text of a tool output over its limit is stored apart', async () => {
    const before = runtime.model.requests.length;
    const words = 'a lot of words ';
    runtime.model.script((_request, index) =>
      index === before ? [callTool('call_1', 'echo', { words, times: 200 })] : [say('I see')],
    );
    const session = await TestSession.open(runtime, { agent: 'little-output' });
    const run = await session.ended(await session.send('echo'));
    const call = (await session.parts(run.answer_id)).find((part) => part.type === 'tool-echo')!;
    expect(String(call['output'])).toContain('set aside');
    expect(String(call['output']).length).toBeLessThan(1_200);
    const { rows } = await runtime.db.query<{ output: string }>(
      'SELECT output FROM tool_outputs WHERE tool_call_id = $1',
      [call['toolCallId']],
    );
    expect(JSON.parse(rows[0]!.output)).toEqual({ words: words.repeat(200) });
    expect(JSON.stringify(lastRequest()).length).toBeLessThan(20_000);
  });
});
