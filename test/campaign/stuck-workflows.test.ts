// A worker is deployed whose workflow code cannot replay an existing session.
import { Registry } from 'prom-client';
import { beforeAll, expect, it } from 'vitest';
import type { SessionStatus } from '../../domain/runs.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestCaller } from '../../tools/test-kit/host.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { expectSound } from '../faults/sound.ts';
import { variant } from '../histories/variant.ts';
import { parsed } from '../operations/parsed.ts';

const EACH_TRY = 'const model = run.last_model ?? run.model ?? session.settings.default_model;';
const STUCK = /cannot go on with this session/;

let runtime: TestRuntime;
let badCode: { code: string };
let ada: TestCaller;
beforeAll(async () => {
  [runtime, badCode] = await Promise.all([
    startRuntime({ script: () => [say('fine')], settings: { sweepIntervalMs: 200 } }),
    variant('workflows/turn.ts', [EACH_TRY, `${EACH_TRY} await sleep(1);`]),
  ]);
  const { databaseUrl, temporal } = runtime;
  ada = (await startHost({ databaseUrl, temporal })).as('ada');
});

async function statusOf(session: TestSession): Promise<SessionStatus> {
  const { body } = await ada.get(`/api/sessions/${session.id}/status`);
  return body as SessionStatus;
}

async function kindsOf(session: TestSession): Promise<string[]> {
  const { body } = await ada.get(`/api/sessions/${session.id}/log`);
  return (body.items as { kind: string }[]).map(({ kind }) => kind);
}

/** A whole turn on the current code. */
async function talk(session: TestSession): Promise<void> {
  expect((await session.ended(await session.send('hello'))).state).toBe('finished');
}

it('W5 a session that the deployed code cannot replay reports it, others continue, and it continues with code that can', async () => {
  const [old, other] = await Promise.all([TestSession.open(runtime), TestSession.open(runtime)]);
  await talk(old);
  // This session's history does not contain the changed code path.
  await other.command(updates.abort);
  await runtime.first.stop();
  const registry = new Registry();
  const bad = await runtime.startWorker({ workflowBundle: badCode, registry });
  const stuckNow = async () => parsed(await registry.metrics()).value('perdure_stuck_sessions');
  expect(await stuckNow()).toBe(0);
  const { run, message } = await old.accept('after the deploy');
  // The message gets no answer, but is accepted.
  const woken = old.wake(run, message).catch(() => {});
  await talk(await TestSession.open(runtime));

  const status = await eventually(async () => {
    const found = await statusOf(old);
    expect(found).toMatchObject({ state: 'retrying', message: expect.stringMatching(STUCK) as string });
    return found;
  });
  expect(status).toMatchObject({ message_id: message, started_at: expect.any(Number) as number });
  const { body: listed } = await ada.get('/api/sessions');
  const inList = (listed.items as { session: { session_id: string }; status: unknown }[]).find(
    ({ session }) => session.session_id === old.id,
  );
  expect(inList!.status).toEqual(status);
  expect(await kindsOf(old)).toEqual(['opened', 'stuck']);
  const said = runtime.logs.filter(({ msg, session }) => /cannot continue/.test(msg) && session === old.id);
  expect(said).toMatchObject([{ level: 50, cause: 'NonDeterministicError' }]);
  await eventually(async () => expect(await stuckNow()).toBe(1));

  const fresh = await TestSession.open(runtime);
  for (const session of [other, fresh, other, fresh]) await talk(session);
  for (const session of [other, fresh]) expect(await statusOf(session)).toEqual({ state: 'idle' });
  expect((await old.run(run)).state).toBe('queued');

  await bad.stop();
  await runtime.startWorker();
  expect((await old.ended(run)).state).toBe('finished');
  await woken;
  await eventually(async () => expect(await statusOf(old)).toEqual({ state: 'idle' }));
  expect(await kindsOf(old)).toEqual(['opened', 'stuck', 'unstuck']);
  expect(await old.handle.describe()).toMatchObject({ status: { name: 'RUNNING' } });
  for (const session of [old, other, fresh]) await expectSound(runtime, session.id);
});
