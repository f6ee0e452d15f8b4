// Many messages at once: the order of the runs, and what the model saw in each.
import { beforeAll, describe, expect, it } from 'vitest';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText, type RecordedRequest } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent from './agent.ts';
import { inParallel } from './parallel.ts';
import { expectSound } from './sound.ts';

const SESSIONS = 3;
const AT_ONCE = 20;

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    agents: [faultAgent],
    settings: { sweepIntervalMs: 3_600_000 },
    // The provider's tool call id is the same in every step.
    script: (request) =>
      request.messages.at(-1)!.role === 'tool'
        ? [say(`re ${lastUserText(request)}`)]
        : [callTool('call_1', 'look', { at: lastUserText(request) })],
  });
});

describe('messages sent at once', () => {
  it('W7 two of them: the second is queued, and not in the model’s view before its turn', () => sendAtOnce(1, 2));

  it('W7 twenty in each of three sessions: answered in the order of acceptance, one at a time', () =>
    sendAtOnce(SESSIONS, AT_ONCE));
});

async function sendAtOnce(sessions: number, messages: number): Promise<void> {
  await inParallel(sessions, sessions, async () => {
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const texts = Array.from({ length: messages }, (_, n) => `${session.id} ${n}`);
    const runs = await Promise.all(texts.map((text) => session.send(text)));
    const inOrder = texts.toSorted((a, b) => runs[texts.indexOf(a)]! - runs[texts.indexOf(b)]!);
    for (const run of runs) expect((await session.ended(run, 40_000)).state).toBe('finished');
    expect(runs.toSorted((a, b) => a - b)).toEqual(texts.map((_, n) => n + 1));

    const requests = runtime.model.requests.filter(({ body }) => lastUserText(body).startsWith(session.id));
    expect(requests).toHaveLength(2 * messages);
    for (const [n, request] of requests.entries()) {
      const turn = Math.floor(n / 2);
      expect(userTexts(request.body), 'a turn sees no message after its own').toEqual(inOrder.slice(0, turn + 1));
    }
    expectOneAtATime(requests);
    for (const text of texts) await expectAnswer(session, runs[texts.indexOf(text)]!, text);
    await expectSound(runtime, session.id);
  });
}

/** T3: the provider repeats its tool call ids; ours are unique, and every call has its own outcome. */
async function expectAnswer(session: TestSession, seq: number, text: string): Promise<void> {
  const parts = await session.parts((await session.run(seq)).answer_id);
  expect(parts).toMatchObject([
    { type: 'step-start' },
    { type: 'tool-look', state: 'output-available', input: { at: text }, output: { seen: text } },
    { type: 'step-start' },
    { type: 'text', text: `re ${text}` },
  ]);
  expect(parts[1]!['toolCallId']).toMatch(/^call_[0-9a-f]{12}/);
}

function expectOneAtATime(requests: readonly RecordedRequest[]): void {
  for (const [n, request] of requests.slice(1).entries()) {
    expect(requests[n]!.endedAt, 'the previous one has ended').toBeLessThanOrEqual(request.startedAt);
  }
}

function userTexts(request: ChatRequest): string[] {
  return request.messages
    .filter((message) => message.role === 'user')
    .map(({ content }) => (typeof content === 'string' ? content : content!.map((part) => part.text ?? '').join('')));
}
