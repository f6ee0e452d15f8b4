// Deploys a workflow change behind `patched` beside the current code, on a real server.
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { fetchHistory, listExecutions, typeOf } from '../../worker/replay/history.ts';
import { replay } from '../../worker/replay/replay.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';
import { variant } from '../histories/variant.ts';

const CHANGE = 'a-pause-before-every-step';
const EACH_TRY = 'const model = run.last_model ?? run.model ?? session.settings.default_model;';
const SESSIONS = 12;

let runtime: TestRuntime;
let patchedCode: { code: string };
let bareCode: { code: string };
beforeAll(async () => {
  [runtime, patchedCode, bareCode] = await Promise.all([
    startRuntime({
      script: (request) =>
        request.messages.at(-1)?.role === 'tool' || lastUserText(request) === 'plain'
          ? [say('It is done.')]
          : [callTool('call_1', 'todo_add', { name: 'x' })],
    }),
    variant('workflows/turn.ts', [EACH_TRY, `${EACH_TRY} if (patched('${CHANGE}')) await sleep(1);`]),
    variant('workflows/turn.ts', [EACH_TRY, `${EACH_TRY} await sleep(1);`]),
  ]);
});

async function talk(sessions: TestSession[], turns: number): Promise<void> {
  await Promise.all(
    sessions.map(async (session) => {
      for (let n = 0; n < turns; n += 1) {
        const run = await session.ended(await session.send(n % 2 === 0 ? 'plain' : 'with a tool'), 40_000);
        expect(run.state).toBe('finished');
      }
    }),
  );
}

/** The newest histories of the server, as `npm run replay -- --last` reads them. */
async function histories() {
  const executions = await eventually(async () => {
    const listed = await listExecutions(runtime.temporal, { limit: 100 });
    expect(listed.length).toBeGreaterThanOrEqual(SESSIONS);
    return listed;
  });
  return Promise.all(
    executions.map(async (each) => ({ name: each.runId, history: await fetchHistory(runtime.temporal, each) })),
  );
}

/** The number of markers of the change in a history. Code may have other patches. */
const markers = (history: { events: { eventType: string }[] }) =>
  [...JSON.stringify(history.events).matchAll(/"data":"([^"]+)"/g)].filter(
    ([, data]) => Buffer.from(data!, 'base64').toString() === `{"id":"${CHANGE}","deprecated":false}`,
  ).length;

describe('an incompatible change', () => {
  it('W5 is deployed with `patched`: old and new workers side by side under load, then only new ones', async () => {
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => TestSession.open(runtime)));
    await talk(sessions, 2);
    const before = await histories();
    expect(before.filter(({ history }) => markers(history) > 0)).toEqual([]);

    const bare = await replay(bareCode, before);
    for (const { of, broke } of bare) {
      const step = of.history.events.find((event) => typeOf(event) === 'ActivityTaskScheduled')!;
      expect(broke).toContain(`event ${step.eventId} (ActivityTaskScheduled)`);
    }
    expect((await replay(patchedCode, before)).filter(({ broke }) => broke)).toEqual([]);

    const patchedWorker = await runtime.startWorker({ workflowBundle: patchedCode });
    await talk(sessions, 2);
    await runtime.first.stop();
    await talk(sessions, 2);
    const after = await histories();
    expect(after.filter(({ history }) => markers(history) > 0).length, 'histories that took the new way').toBe(
      SESSIONS,
    );
    expect((await replay(patchedCode, after)).filter(({ broke }) => broke)).toEqual([]);
    const old = await replay(await workflowBundle('node_modules/.cache/perdure'), after);
    expect(
      old.filter(({ broke }) => broke),
      'today’s code cannot replay the new way',
    ).toHaveLength(SESSIONS);
    await patchedWorker.stop();
  });
});
