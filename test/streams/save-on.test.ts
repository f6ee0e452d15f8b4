// Answers that are saved by steps or by turns instead of while they stream.
import type { UIMessageChunk } from 'ai';
import { expect, it } from 'vitest';
import { createClient } from '../../client/client.ts';
import { readAnswers } from '../../store/answers.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, cut, fail, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, type ModelScript } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import faultAgent from '../faults/agent.ts';
import { aroundCalls, sessionsOf } from '../faults/sql-calls.ts';
import { startWorkerProcess, WHEN_LOST } from '../faults/worker-process.ts';

const start = (saveOn: 'chunk' | 'step' | 'turn', script: ModelScript) =>
  startRuntime({ script, agents: [faultAgent], settings: { ...WHEN_LOST, saveOn, sweepIntervalMs: 3_600_000 } });
const open = (runtime: TestRuntime) => TestSession.open(runtime, { agent: faultAgent.id });

/** How many answers' models have said their first word. */
async function begun({ registry }: TestRuntime): Promise<number> {
  const text = await registry.getSingleMetricAsString('perdure_model_first_chunk_seconds');
  return Number(/_count\S* (\d+)/.exec(text)?.[1] ?? 0);
}

it('T4 an answer that is saved by steps is written once a step; if it is aborted, with what had come', async () => {
  const gates = [new Gate(), new Gate()];
  const runtime = await start('step', async function* (_request, index) {
    yield say('one ');
    await gates[index]!.pass();
    yield say('two');
  });
  const calls: string[] = [];
  using _watch = aroundCalls(runtime.db, {
    before: (call) => void (/append|settle/.test(call.name) && sessionsOf(call).length > 0 && calls.push(call.name)),
  });
  const session = await open(runtime);
  const run = await session.send('go');
  await eventually(async () => expect(await begun(runtime)).toBe(1));
  gates[0]!.open();
  const { state, answer_id } = await session.ended(run);
  expect(state).toBe('finished');
  expect(calls).toEqual(['settle_step']);
  expect(await session.parts(answer_id)).toEqual([
    { type: 'step-start' },
    { type: 'text', text: 'one two', state: 'done' },
  ]);
  const other = await open(runtime);
  // The abort and the last write are not ordered; what comes after the abort is not stored.
  const saved = new Gate();
  using _order = aroundCalls(runtime.db, {
    before: (call) => (call.name === 'settle_run' && call.args[0] === other.id ? saved.pass() : undefined),
    after: (call) => (/append/.test(call.name) && sessionsOf(call).includes(other.id) ? saved.open() : undefined),
  });
  const aborted = await other.send('go');
  await eventually(async () => expect(await begun(runtime)).toBe(2));
  expect(await other.command(updates.abort)).toMatchObject({ aborted: true });
  const ended = await other.ended(aborted);
  expect(ended.state).toBe('aborted');
  expect(await other.parts(ended.answer_id)).toMatchObject([{ type: 'step-start' }, { type: 'text', text: 'one ' }]);
  gates[1]!.open();
});

it('T4 an answer that is saved by turns is stored with each step, and shown when the turn is over', async () => {
  const gate = new Gate();
  const runtime = await start('turn', async function* (_request, index) {
    yield say(`step ${index} `);
    if (index === 0) {
      yield callTool('call_1', 'look', { at: 'it' });
    } else {
      await gate.pass();
      yield say('end');
    }
  });
  const client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
  const session = await open(runtime);
  const run = await session.send('go');
  const chunks: UIMessageChunk[] = [];
  const following = (async () => {
    for await (const chunk of client.follow('ada', session.id, run)) chunks.push(chunk);
  })();
  await gate.reached;
  const request = { userId: 'ada', sessionId: session.id, runSeq: run, cursor: { index: 0, parts: [] } };
  const shown = async () => (await readAnswers(runtime.db, [request]))[0]!()!.parts.map(({ data }) => data.type);
  const { answer_id } = await session.run(run);
  expect((await session.parts(answer_id)).map(({ type }) => type)).toEqual(['step-start', 'text', 'tool-look']);
  expect(await shown()).toEqual([]);
  expect(chunks.filter(({ type }) => !/^(?:start|message-metadata|data-status)$/.test(type))).toEqual([]);
  gate.open();
  await following;
  expect(await shown()).toEqual(['step-start', 'text', 'tool-look', 'step-start', 'text']);
  const texts = chunks.flatMap((chunk) => (chunk.type === 'text-delta' ? [chunk.delta] : []));
  expect(texts).toEqual(['step 0 ', 'step 1 end']);
  expect(chunks.some(({ type }) => type === 'tool-output-available')).toBe(true);
});

it('T4 R3 of a step that is saved when it is complete, a killed worker leaves nothing; another one repeats it', async () => {
  const gate = new Gate();
  const runtime = await start('step', async function* (_request, index) {
    yield say(index === 0 ? 'lost words' : 'new words');
    if (index === 0) await gate.pass();
  });
  await runtime.first.stop();
  const killed = await startWorkerProcess(runtime);
  afterFile(killed.stop);
  const session = await open(runtime);
  const { run, message } = await session.accept('go');
  const woken = session.wake(run, message);
  await gate.reached;
  process.kill(killed.pid, 'SIGKILL');
  await killed.exited;
  const { rows } = await runtime.db.query('SELECT FROM chat_parts WHERE session_id = $1', [session.id]);
  expect(rows, 'the message’s own part').toHaveLength(1);
  await runtime.startWorker();
  await woken;
  const { state, answer_id } = await session.ended(run);
  expect(state).toBe('finished');
  expect(await session.parts(answer_id)).toEqual([
    { type: 'step-start' },
    { type: 'text', text: 'new words', state: 'done' },
  ]);
  expect(runtime.model.requests).toHaveLength(2);
  gate.open();
});

const POLICIES = ['chunk', 'step'] as const;

it.each(POLICIES)(
  'P1 an answer that is saved by %ss is not written before the prompt that it names, also if its model fails',
  async (saveOn) => {
    const runtime = await start(saveOn, (request, index) =>
      lastUserText(request) === 'go' && index === 0 ? [say('one '), cut()] : [say('all')],
    );
    const [session, other] = [await open(runtime), await open(runtime)];
    const storing = new Gate();
    const calls: string[] = [];
    using _order = aroundCalls(runtime.db, {
      before: (call) => {
        if (!sessionsOf(call).includes(session.id)) return undefined;
        if (/append|settle/.test(call.name)) calls.push(call.name);
        return call.name === 'keep_prompt' ? storing.pass() : undefined;
      },
    });
    const run = await session.send('go');
    await storing.reached;
    await eventually(() => expect(runtime.model.requests).toHaveLength(1));
    expect((await other.ended(await other.send('meanwhile'))).state).toBe('finished');
    expect(calls).toEqual([]);
    storing.open();
    const { state, answer_id } = await session.ended(run);
    expect(state).toBe('finished');
    const texts = (await session.parts(answer_id)).filter(({ type }) => type === 'text');
    expect(texts).toMatchObject([{ text: 'one ' }, { text: 'all' }]);
  },
);

it.each(POLICIES)(
  'P1 an answer that is saved by %ss is not written before the prompt that it names, also if its model refuses the request',
  async (saveOn) => {
    const runtime = await start(saveOn, () => [fail(400, { code: 'content_filter', message: 'content_filter' })]);
    const session = await open(runtime);
    const storing = new Gate();
    const settled: boolean[] = [];
    let isStored = false;
    using _order = aroundCalls(runtime.db, {
      before: (call) => {
        if (!sessionsOf(call).includes(session.id)) return undefined;
        if (/settle/.test(call.name)) settled.push(isStored);
        return call.name === 'keep_prompt' ? storing.pass() : undefined;
      },
      after: (call) => void (isStored ||= call.name === 'keep_prompt' && sessionsOf(call).includes(session.id)),
    });
    const run = await session.send('go');
    await storing.reached;
    await eventually(() => expect(runtime.model.requests).toHaveLength(1));
    expect((await open(runtime).then(async (other) => other.ended(await other.send('meanwhile')))).state).toBe('error');
    expect(settled).toEqual([]);
    storing.open();
    const { error_code, answer_id } = await session.ended(run);
    expect(error_code).toBe('ContentFilter');
    expect((await session.parts(answer_id)).map(({ type }) => type)).toContain('data-refused');
    expect(settled).toEqual([true]);
  },
);
