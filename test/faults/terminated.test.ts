// The workflow is terminated at every point of a tool turn, and the next command is sent: the session continues unchanged.
import { beforeAll, describe, expect, it } from 'vitest';
import { updates } from '../../workflows/definitions.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent, { effects } from './agent.ts';
import { untilEvents } from './history.ts';
import { inParallel } from './parallel.ts';
import { expectSound } from './sound.ts';
import { aroundCalls, type SqlCall } from './sql-calls.ts';

/** A tool turn has 25 events and about a dozen database calls. */
const EVENTS = 25;
const CALLS = 12;
const AT_ONCE = 4;
const NEXT = ['submit', 'abort', 'publish'] as const;

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent], settings: { sweepIntervalMs: 3_600_000 }, script });
});

/** Calls the tool `pay` if asked to, then says so. */
function script(request: ChatRequest) {
  const asked = lastUserText(request);
  if (asked !== 'pay') return [say(`you said ${asked}`)];
  return request.messages.at(-1)!.role === 'tool'
    ? [say('I have '), say('paid')]
    : [callTool('call_1', 'pay', { amount: 5 })];
}

/** Plays a turn that `terminate` interrupts, sends the next command, and checks the result. */
async function cutOff(next: (typeof NEXT)[number], terminate: (session: TestSession) => Promise<void>): Promise<void> {
  const session = await TestSession.open(runtime, { agent: 'faults' });
  const first = await session.accept('pay');
  const terminated = terminate(session);
  // The wake-up may fail with the workflow; the message is accepted anyway.
  void session.wake(first.run, first.message).catch(() => {});
  await terminated;
  if (next === 'abort') await session.command(updates.abort);
  if (next === 'publish') await expect(session.command(updates.publish)).rejects.toThrow();
  const ended = next === 'submit' ? undefined : await session.ended(first.run);
  const second = await session.send('thanks');
  expect((await session.ended(second)).state).toBe('finished');
  const run = ended ?? (await session.ended(first.run));
  if (next !== 'abort') expect(run.state).toBe('finished');

  const parts = await session.parts(run.answer_id);
  if (run.state === 'finished') expect(parts.at(-1)).toMatchObject({ type: 'text', text: 'I have paid' });
  expect(
    parts.filter((part) => part.type === 'tool-pay' && part['state'] === 'output-available').length,
  ).toBeLessThanOrEqual(1);
  expect((await effects(runtime.workspaces, session.id)).length, 'paid at most once').toBeLessThanOrEqual(1);
  expect(await session.parts((await session.run(second)).answer_id)).toMatchObject([{}, { text: 'you said thanks' }]);
  expectEveryCallAnswered(session);
  await expectSound(runtime, session.id);
  await session.handle.terminate().catch(() => {});
}

/** R3: every tool call in the model's view has an outcome. */
function expectEveryCallAnswered(session: TestSession): void {
  for (const { body } of runtime.model.requests) {
    const answered = new Set(body.messages.flatMap((message) => message.tool_call_id ?? []));
    const calls = body.messages.flatMap((message) => message.tool_calls ?? []);
    expect(
      calls.filter((call) => !answered.has(call.id)),
      session.id,
    ).toEqual([]);
  }
}

describe('a workflow that is terminated in a tool turn', { timeout: 120_000 }, () => {
  it('W8 after every event of its history', async () => {
    const points = new Set<number>();
    await inParallel(EVENTS, AT_ONCE, (n) =>
      cutOff(NEXT[n % NEXT.length]!, async (session) => {
        await untilEvents(runtime.temporal, session.id, n + 1);
        await session.handle.terminate();
        points.add((await session.handle.describe()).historyLength);
      }),
    );
    expect(points.size, 'the turn was interrupted at many points').toBeGreaterThan(5);
  });

  for (const when of ['before', 'after'] as const) {
    it(`W8 ${when} every database call`, () =>
      inParallel(CALLS, AT_ONCE, (n) =>
        cutOff(NEXT[n % NEXT.length]!, async (session) => {
          await atCall(session, when, n + 1);
        }),
      ));
  }
});

/** Terminates the session's workflow at its nth database call, or when its turn has ended with fewer. */
async function atCall(session: TestSession, when: 'before' | 'after', nth: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let calls = 0;
  using _hook = aroundCalls(runtime.db, {
    [when]: async ({ args }: SqlCall) => {
      if (args[0] !== session.id || ++calls !== nth) return;
      await session.handle.terminate();
      resolve();
    },
  });
  await Promise.race([promise, untilEvents(runtime.temporal, session.id, EVENTS)]);
}
