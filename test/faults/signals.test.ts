// Raw signals, as the Temporal UI, the CLI and any SDK send them.
import type { Client as TemporalClient } from '@temporalio/client';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SessionSnapshot } from '../../domain/activities.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { commandRows, events, raise } from './rows.ts';
import { expectSound } from './sound.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ script: () => [say('Once upon'), hang()] });
});

/** Sends a signal by name, without our definitions. */
function signal(client: TemporalClient, session: TestSession, name: string, ...args: unknown[]): Promise<void> {
  return client.workflow.getHandle(session.id).signal(name, ...args);
}

function signalWithStart(
  client: TemporalClient,
  session: TestSession,
  name: string,
  ...args: unknown[]
): Promise<unknown> {
  return client.workflow.signalWithStart('session', {
    workflowId: session.id,
    taskQueue: 'perdure',
    args: [session.id],
    signal: name,
    signalArgs: args,
  });
}

describe('a raw signal', () => {
  it('W2 cancel aborts the run and the build, and its reason is in the event log', async () => {
    const session = await TestSession.open(runtime);
    await raise(runtime.db, session.id, ['start_build']);
    const run = await session.send('go');
    await signal(runtime.temporal, session, 'cancel', { reason: 'enough \0 \ud800 said' });
    expect((await session.ended(run)).state).toBe('aborted');
    const row = await session.row();
    expect(row.phase).toBe('chatting');
    expect(row.cancel_token).toMatch(/^signal-/);
    const kinds = (await commandRows(runtime.db, session.id)).map(({ kind, actor, data }) => ({
      kind,
      actor,
      text: data['text'],
    }));
    expect(kinds).toEqual([
      { kind: 'reason', actor: 'operator', text: 'enough \ufffd \ufffd said' },
      { kind: 'transition', actor: 'operator', text: undefined },
    ]);
    await expectSound(runtime, session.id);
  });

  it('W2 publish works on a session that is not loaded yet', async () => {
    const session = await TestSession.open(runtime);
    await raise(runtime.db, session.id, ['start_build', 'todo_done_build']);
    await signalWithStart(runtime.temporal, session, 'publish');
    await eventually(async () => expect((await session.row()).phase).toBe('done'));
    await eventually(async () => {
      expect(await session.handle.query<SessionSnapshot>('snapshot')).toMatchObject({ phase: 'done' });
    });
  });

  it.each([
    ['publish', [], 'InvalidTransition'],
    ['cancel', [], 'InvalidTransition'],
    ['cancel', ['nonsense'], 'InvalidTransition'],
    ['cancel', [{ reason: 7 }], 'InvalidTransition'],
    ['rewind', [{ message_id: 'msg_1' }], 'MessageNotFound'],
    ['rewind', [], 'BadRequest'],
  ])('W2 %s %j that is refused is logged, counted and recorded; the session continues', async (name, args, code) => {
    const session = await TestSession.open(runtime);
    const before = await refused(name, code);
    await signalWithStart(runtime.temporal, session, name, ...args);
    await eventually(async () =>
      expect(await events(runtime.db, session.id)).toContainEqual(
        expect.objectContaining({
          kind: 'refused',
          actor: 'operator',
          data: expect.objectContaining({ command: name }) as object,
        }),
      ),
    );
    await eventually(async () => expect(await refused(name, code)).toBe(before + 1));
    const line = runtime.logs.find((each) => each['session'] === session.id && each['code'] === code);
    expect(line).toMatchObject({ command: name, level: code === 'InvalidTransition' ? 50 : 40 });
    const { status } = await session.handle.describe();
    expect(status.name).toBe('RUNNING');
  });
});

/** The count of refusals so far. */
async function refused(command: string, code: string): Promise<number> {
  const metric = await runtime.registry.getSingleMetric('perdure_refused_total')!.get();
  return metric.values.find(({ labels }) => labels['command'] === command && labels['code'] === code)?.value ?? 0;
}
