// Text that Postgres refuses, from models, tools and providers.
import { beforeAll, describe, expect, it } from 'vitest';
import { callTool, fail, type ModelAction, say, think } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent from './agent.ts';
import { expectSound } from './sound.ts';

const BAD = 'a\0b\ud800c';
const CLEAN = 'a\ufffdb\ufffdc';
/** The same text with JSON escapes. */
const ESCAPED = String.raw`a\u0000b\ud800c`;

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent] });
});

/** The answer's parts if the model gives these answers, one per call. */
async function answer(...answers: ModelAction[][]): Promise<(Record<string, unknown> & { type: string })[]> {
  const before = runtime.model.requests.length;
  runtime.model.script((_request, index) => answers[index - before] ?? [say('done')]);
  const session = await TestSession.open(runtime, { agent: 'faults' });
  const run = await session.ended(await session.send('go'));
  expect(run.state).toBe('finished');
  await expectSound(runtime, session.id);
  return session.parts(run.answer_id);
}

describe('T5 U+0000 and lone surrogates are stored as U+FFFD', () => {
  it('in text and reasoning, in one delta and split between deltas', async () => {
    const emoji = '\u{1F600}';
    const parts = await answer([think(BAD), say(BAD), say(`x${emoji[0]!}`), say(`${emoji[1]!}y`)]);
    expect(parts).toMatchObject([
      { type: 'step-start' },
      { type: 'reasoning', text: CLEAN },
      { type: 'text', text: `${CLEAN}x${emoji}y` },
    ]);
  });

  it.each([
    ['raw', JSON.stringify({ words: BAD })],
    ['escaped', `{"words":"${ESCAPED}"}`],
  ])('in tool input and output (%s)', async (_how, input) => {
    const parts = await answer([callTool('call_1', 'echo', input)]);
    expect(parts[1]).toMatchObject({ state: 'output-available', input: { words: CLEAN }, output: { words: CLEAN } });
  });

  it('in the keys and values of a tool’s own output', async () => {
    const parts = await answer([callTool('call_1', 'garble', {})]);
    expect(parts[1]).toMatchObject({ state: 'output-available', output: { [CLEAN]: CLEAN } });
  });

  it('in a tool’s error', async () => {
    const parts = await answer(
      [callTool('call_1', 'stumble', { words: 'oh' })],
      [callTool('call_1', 'garble_error', {})],
    );
    expect(parts[1]).toMatchObject({ state: 'output-error', errorText: 'oh' });
    expect(parts[3]).toMatchObject({ state: 'output-error', errorText: CLEAN });
  });

  it('in a tool’s name and the provider’s id of the call', async () => {
    const parts = await answer([callTool(BAD, `echo${BAD}`, { words: 'hi' })]);
    expect(parts[1]).toMatchObject({ state: 'output-error' });
    expect(JSON.stringify(parts)).not.toMatch(/\\u0000|\\ud800/);
  });

  it('in input that is not JSON', async () => {
    const parts = await answer([callTool('call_1', 'echo', `{"words": "${BAD}`)]);
    expect(parts[1]).toMatchObject({ state: 'output-error' });
  });

  it('in a provider’s error', async () => {
    runtime.model.script(() => [fail(400, { message: BAD, code: BAD })]);
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const run = await session.ended(await session.send('go'));
    expect(run).toMatchObject({ state: 'error', error_code: 'ProviderRejected' });
    await expectSound(runtime, session.id);
  });
});
