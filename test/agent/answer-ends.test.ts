// How the answers of providers end, over HTTP in the protocol of each.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { classifyProviderError, failureOfFinish } from '../../agent/provider-failures/classify-provider-error.ts';
import { type StepInput, streamModelCall } from '../../agent/step/stream-model-call.ts';
import { type EventServer, startEventServer } from '../../tools/test-kit/event-server.ts';
import { modelOf, PROVIDER_APIS } from '../../tools/test-kit/provider-apis.ts';
import { reduced } from '../../tools/test-kit/reduce.ts';
import { collect, hello, type Played, writeFile } from './step-play.ts';

let server: EventServer;
beforeAll(async () => void (server = await startEventServer()));
afterAll(() => server.close());

/** Plays a step in which the model answers with these events; tool calls are `ours_1`, `ours_2`, … */
function play(model: StepInput['model'], events: string[]): Promise<Played> {
  let calls = 0;
  server.answer(events);
  return collect(
    streamModelCall({
      model,
      system: '',
      messages: hello,
      tools: [writeFile],
      signal: new AbortController().signal,
      newToolCallId: () => `ours_${++calls}`,
    }),
  );
}

/** The parts of the message that a reader has. */
const partsOf = async ({ chunks }: Played) => (await reduced(chunks))?.parts ?? [];

const ARGS = '{"path":"a","content":"x"}';

describe.each(Object.entries(PROVIDER_APIS))('%s', (_name, api) => {
  const model = () => modelOf(api, server.url);

  it('T5 a stream that ends in mid-text is no answer, and is tried again', async () => {
    const { error, result, chunks } = await play(model(), [...api.open(), ...api.text('The three steps are: first, ')]);
    expect([result, chunks.at(-1)?.type]).toEqual([undefined, expect.stringMatching(/^text-/)]);
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'NetworkError' });
  });

  it('T5 neither is one that ends before it, or after a tool call', async () => {
    for (const events of [[], api.open(), [...api.open(), ...api.call(0, 'L1', ARGS)]]) {
      const { error, result } = await play(model(), events);
      expect(result).toBeUndefined();
      expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'NetworkError' });
    }
  });

  it('R6 one with a finish is', async () => {
    const played = await play(model(), [...api.open(), ...api.text('Hello'), ...api.end('stop')]);
    expect(played.result).toMatchObject({ finishReason: 'stop', toolCalls: [] });
    expect(await partsOf(played)).toMatchObject([{ type: 'step-start' }, { text: 'Hello', state: 'done' }]);
  });

  it('R6 a call that is sent three times is one call', async () => {
    const calls = [0, 1, 2].flatMap((at) => api.call(at, 'L1', at === 1 ? '{"content":"x","path":"a"}' : ARGS));
    const played = await play(model(), [...api.open(), ...calls, ...api.end('tool-calls')]);
    const input = { path: 'a', content: 'x' };
    expect(played.result?.toolCalls).toEqual([{ toolCallId: 'ours_1', toolName: 'write_file', input }]);
    expect(await partsOf(played)).toMatchObject([{ type: 'step-start' }, { state: 'input-available', input }]);
  });

  it('R6 calls with one id and other arguments, and with other ids, are different calls', async () => {
    const paths = ['a', 'b', 'a'];
    const calls = paths.flatMap((path, at) => api.call(at, at < 2 ? 'L1' : 'L2', JSON.stringify({ path })));
    const played = await play(model(), [...api.open(), ...calls, ...api.end('tool-calls')]);
    expect(played.result?.toolCalls.map(({ input }) => input)).toEqual(paths.map((path) => ({ path })));
    const ids = ['L1', 'L1', 'L2'].map((providerToolCallId) => ({ perdure: { providerToolCallId } }));
    const parts = (await partsOf(played)).slice(1);
    expect(parts).toMatchObject(paths.map((path, at) => ({ input: { path }, callProviderMetadata: ids[at] })));
  });

  it('R7 a call that the output limit cuts does not stay open, and does not run', async () => {
    const events = [...api.open(), ...api.call(0, 'L1', '{"path":"a","content":"aaa', true), ...api.end('length')];
    const played = await play(model(), events);
    const [, part, ...others] = await partsOf(played);
    const errorText = expect.stringMatching(/reached its limit within the call of "write_file"/) as string;
    const resultProviderMetadata = { perdure: { providerToolCallId: 'L1', cut: true } };
    expect(others).toEqual([]);
    expect(part).toMatchObject({ type: 'tool-write_file', state: 'output-error', errorText, resultProviderMetadata });
    expect(played.result).toMatchObject({ finishReason: 'length', toolCalls: [{ invalid: true }], isCut: true });
  });

  it('R7 a call that was complete when the output ended there runs', async () => {
    const { result } = await play(model(), [...api.open(), ...api.call(0, 'L1', ARGS), ...api.end('length')]);
    expect(result).toMatchObject({ toolCalls: [{ input: { path: 'a' } }], isCut: false });
    expect(result?.toolCalls[0]?.invalid).toBeUndefined();
  });
});

it.each(['insufficient_system_resource', 'error', 'abort'])('R6 the finish reason %s is a failure', async (word) => {
  for (const name of ['a compatible server', 'OpenAI’s chat completions']) {
    const api = PROVIDER_APIS[name]!;
    const end = api.end('stop').map((each) => each.replace('"stop"', JSON.stringify(word)));
    const { result } = await play(modelOf(api, server.url), [...api.text('I will now list'), ...end]);
    expect(result?.rawFinishReason).toBe(word);
    expect(failureOfFinish(result!.finishReason)).toEqual({
      kind: 'retryable',
      code: 'ProviderUnavailable',
      reason: 'the model provider broke off its answer',
    });
  }
});
