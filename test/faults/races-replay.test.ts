// What commands at once leave in a history has to replay, or the session is stuck with its next worker.
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { fetchHistory, listExecutions } from '../../scripts/histories/history.ts';
import { replay } from '../../scripts/histories/replay.ts';
import { workflowBundle } from '../../worker/bundle.ts';
import {
  abortUpdate,
  cancelUpdate,
  closeUpdate,
  openExistingUpdate,
  publishUpdate,
} from '../../workflows/definitions.ts';
import { callTool, say } from '../support/model-actions.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TestSession } from '../support/session.ts';
import { inParallel } from './parallel.ts';

const SESSIONS = 24;

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    script: (request) =>
      request.messages.at(-1)?.role === 'tool'
        ? [say('done')]
        : [say('first'), callTool('call_1', 'build_and_deploy', { confirm_new_project: true })],
  });
});

/** Commands that end up in the workflow at once, most of them moving what the search attributes show. */
async function storm(session: TestSession, nth: number): Promise<void> {
  await Promise.allSettled([
    session.command(openExistingUpdate, { project_id: `p-${session.id}` }),
    session.command(abortUpdate),
    session.command(cancelUpdate),
    session.send('and another'),
    session.command(publishUpdate),
    nth % 2 === 0 ? session.command(closeUpdate, { abort: true }) : session.command(abortUpdate),
  ]);
}

it('W5 commands at once make histories that replay', { timeout: 120_000 }, async () => {
  const ids = Array.from({ length: SESSIONS }, () => '');
  await inParallel(SESSIONS, 6, async (nth) => {
    const session = await TestSession.open(runtime);
    ids[nth] = session.id;
    const run = await session.send('build it');
    await storm(session, nth);
    await session.ended(run);
    await session.ended(await session.send('still there?'));
  });
  const executions = await Promise.all(
    ids.map((workflowId) => listExecutions(runtime.temporal, { limit: 10, workflowId })),
  );
  const histories = await Promise.all(
    executions.flat().map(async (execution) => ({
      name: execution.workflowId,
      history: await fetchHistory(runtime.temporal, execution),
    })),
  );
  const bundle = await workflowBundle(path.join(import.meta.dirname, '../../node_modules/.cache/perdure'));
  const results = await replay(bundle, histories);
  expect(results.filter(({ broke }) => broke !== undefined).map(({ broke }) => broke)).toEqual([]);
  expect(results.length).toBeGreaterThan(0);
});
