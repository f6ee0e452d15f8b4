// The workflow is terminated at every point of a tool turn, and the next command is sent: the session continues unchanged.
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { snapshotQuery, updates } from '../../workflows/definitions.ts';
import faultAgent, { effects } from '../faults/agent.ts';
import { untilEvents } from '../faults/history.ts';
import { inParallel } from '../faults/parallel.ts';
import { expectSound } from '../faults/sound.ts';
import { aroundCalls, type SqlCall } from '../faults/sql-calls.ts';

/** A tool turn has at most 25 events, fewer if its units are reported together, and about a dozen database calls. */
const EVENTS = 25;
const CALLS = 12;
const AT_ONCE = 8;
const NEXT = ['submit', 'abort', 'publish'] as const;

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent], settings: { sweepIntervalMs: 3_600_000 }, script });
});

const PAY = 'pay for ';
/** A step without an activity has lost its workflow. */
const ADOPTED_MS = 500;
/** Long enough to terminate the workflow between two events that an activity separates. */
const THINKING_MS = 100;

/** Calls the tool `pay` if asked to, then says so. Each step goes on once its activity has come: Temporal is not behind. */
async function* script(request: ChatRequest): AsyncGenerator<ModelAction> {
  const asked = lastUserText(request);
  if (!asked.startsWith(PAY)) {
    yield say(`you said ${asked}`);
    return;
  }
  const adopted = async () => {
    const sql = `SELECT FROM chat_runs WHERE session_id = $1 AND state = 'running' AND head_start_at IS NULL`;
    expect((await runtime.db.query(sql, [asked.slice(PAY.length)])).rowCount).toBe(1);
  };
  await eventually(adopted, { timeout: ADOPTED_MS }).catch(() => {});
  await delay(THINKING_MS);
  if (request.messages.at(-1)!.role === 'tool') yield* [say('I have '), say('paid')];
  else yield callTool('call_1', 'pay', { amount: 5 });
}

/** Plays a turn that `terminate` interrupts, sends the next command, and checks the result. */
async function cutOff(
  next: (typeof NEXT)[number],
  terminate: (session: TestSession, run: number) => Promise<void>,
): Promise<void> {
  const session = await TestSession.open(runtime, { agent: 'faults' });
  const first = await session.accept(`${PAY}${session.id}`);
  const terminated = terminate(session, first.run);
  // The wake-up may fail with the workflow; the message is accepted anyway.
  const woken = session.wake(first.run, first.message).catch(() => {});
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
  await woken;
}

/** Until the workflow has nothing left to do. */
function untilIdle(session: TestSession): Promise<void> {
  return eventually(async () => {
    expect(await session.handle.query(snapshotQuery)).toMatchObject({ run: null, queue: [] });
  });
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

describe('a workflow that is terminated in a tool turn', () => {
  it('W8 after every event of its history', async () => {
    const points = new Set<number>();
    // The first workflow task takes as long as a step, too.
    using _ = aroundCalls(runtime.db, {
      before: async ({ name }: SqlCall) => {
        if (name === 'load_session') await delay(THINKING_MS);
      },
    });
    await inParallel(EVENTS, AT_ONCE, (n) =>
      cutOff(NEXT[n % NEXT.length]!, async (session, run) => {
        // The run may be over in its row before the workflow knows of it.
        const told = session.ended(run).then(() => untilIdle(session));
        await Promise.race([untilEvents(runtime.temporal, session.id, n + 1), told]);
        await session.handle.terminate();
        points.add((await session.handle.describe()).historyLength);
      }),
    );
    // A workflow task adds several events at once.
    expect(points.size, 'the turn was interrupted at several points').toBeGreaterThan(5);
  });

  for (const when of ['before', 'after'] as const) {
    it(`W8 ${when} every database call`, () =>
      inParallel(CALLS, AT_ONCE, (n) =>
        cutOff(NEXT[n % NEXT.length]!, async (session, run) => {
          await atCall(session, run, when, n + 1);
        }),
      ));
  }
});

/** Terminates the session's workflow at its nth database call, or when its turn has ended with fewer. */
async function atCall(session: TestSession, run: number, when: 'before' | 'after', nth: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let calls = 0;
  using _hook = aroundCalls(runtime.db, {
    [when]: async ({ args }: SqlCall) => {
      if (args[0] !== session.id || ++calls !== nth) return;
      await session.handle.terminate();
      resolve();
    },
  });
  await Promise.race([promise, session.ended(run)]);
}
