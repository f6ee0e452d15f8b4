// The supervisor: work sessions that give no sign of life are ended, whatever has happened to the workflow meanwhile.
import { beforeAll, describe, expect, it } from 'vitest';
import type { PerdureClient } from '../../client/client.ts';
import { newId } from '../../domain/ids.ts';
import { applyInitiativeCommand } from '../../store/initiatives.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { age, clientOf, planned } from '../../tools/test-kit/initiative.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { skipTime } from '../../tools/test-kit/skip-time.ts';
import { initiativeSnapshotQuery } from '../../workflows/definitions.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/start.ts';
import { Initiative } from '../rows/initiative.ts';

/** An initiative whose work session holds a task. */
async function held({ initiatives }: PerdureClient) {
  const { initiative } = await initiatives.create('ada', planned([['one', 'two']]));
  const id = initiative.initiative_id;
  const { session } = await initiatives.startSession('ada', id, { agent: 'worker' });
  const task = (await initiatives.assignTask('ada', id, { work_session: session.id }))!;
  return { id, work: { work_session: session.id }, task: task.task_id };
}

/** Waits until the work session has been ended as crashed, and its task is open. */
function crashed({ initiatives }: PerdureClient, { id, task }: { id: string; task: string }) {
  return eventually(async () => {
    const view = await initiatives.get('ada', id);
    expect(view.sessions[0]).toMatchObject({ status: 'crashed', notes: 'Agent unresponsive, task reset' });
    const tasks = view.phases.flatMap(({ plans }) => plans.flatMap((plan) => plan.tasks));
    expect(tasks.find(({ task_id }) => task_id === task)).toMatchObject({ status: 'open', assigned_to: null });
    return view;
  });
}

/** Longer than two commands take. */
const STALE_MS = patient(600);

describe('with short times', () => {
  let runtime: TestRuntime;
  let client: PerdureClient;
  beforeAll(async () => {
    // No sweeper: it is the timer that ends them.
    const settings = {
      staleAssignmentMs: STALE_MS,
      staleProgressMs: STALE_MS,
      idleCloseMs: 700,
      sweepIntervalMs: 3_600_000,
    };
    runtime = await startRuntime({ settings });
    client = clientOf(runtime);
  });

  it('I6 a work session without a sign of life is ended, its tasks are reset, and the next one is told', async () => {
    const work = await held(client);
    await client.initiatives.startTask('ada', work.id, work.task, work.work);
    const { sessions } = await crashed(client, work);
    expect(sessions[0]).toMatchObject({ working_on: 'Phase 1, Plan 1: one', ended: expect.any(String) as string });
    const { session } = await client.initiatives.startSession('ada', work.id, { agent: 'worker' });
    expect(session.notes).toBe('Resuming from session-001 crash');
    const again = await client.initiatives.assignTask('ada', work.id, { work_session: session.id });
    expect(again?.task_id).toBe(work.task);
    const late = client.initiatives.completeTask('ada', work.id, work.task, work.work);
    await expect(late).rejects.toMatchObject({ code: 'TaskAssigned' });
  });

  it('I6 I7 the work session that began with an agent’s task is supervised from then on', async () => {
    const { initiative } = await client.initiatives.create('ada', planned([['one']]));
    const id = initiative.initiative_id;
    const { session } = await client.openSession('ada', { metadata: { initiative_id: id } });
    const by = { agent: 'worker', sessionId: session.session_id };
    const { task } = (await client.initiatives.takeTask('ada', id, by, undefined))!;
    await crashed(client, { id, task: task.task_id });
  });

  it('W8 when nobody holds a task it ends once idle, and a command starts it again', async () => {
    const { initiative } = await client.initiatives.create('ada', planned([['one']]));
    const workflow = runtime.temporal.workflow.getHandle(initiative.initiative_id);
    const ended = () => eventually(async () => expect((await workflow.describe()).status.name).toBe('COMPLETED'));
    await ended();
    const { runId } = await workflow.describe();
    await client.initiatives.updateState('ada', initiative.initiative_id, { next_action: 'go on' });
    await eventually(async () => expect((await workflow.describe()).runId).not.toBe(runId));
    await ended();
  });
});

describe('with the times of production', () => {
  let runtime: TestRuntime;
  let client: PerdureClient;
  beforeAll(async () => {
    runtime = await startRuntime({ settings: { sweepIntervalMs: 200 } });
    client = clientOf(runtime);
  });

  it('I6 it waits by a durable timer, of which a sign of life needs no new one', async () => {
    const work = await held(client);
    const workflow = runtime.temporal.workflow.getHandle(work.id);
    const watched = () =>
      eventually(async () => {
        const snapshot = await workflow.query(initiativeSnapshotQuery);
        expect(snapshot.watched?.work_session).toBe('session-001');
        return snapshot.watched!;
      });
    const before = await watched();
    for (let n = 0; n < 5; n += 1) await client.initiatives.reportProgress('ada', work.id, work.task, work.work);
    const after = await eventually(async () => {
      const now = await watched();
      expect(now.due_at).toBeGreaterThan(before.due_at);
      return now;
    });
    expect(after.due_in_ms).toBeLessThanOrEqual(30 * 60_000);
    const { events = [] } = await workflow.fetchHistory();
    const timers = events!.filter((event) => event.timerStartedEventAttributes);
    // The idle one, and that of the assignment.
    expect(timers.length).toBeLessThanOrEqual(2);
    expect(timers.at(-1)?.timerStartedEventAttributes?.startToFireTimeout?.seconds?.toString()).toMatch(/^1[78]\d\d$/);
  });

  it('I6 if the workflow is gone with its timers for a month, a sweeper has it look', async () => {
    const work = await held(client);
    await eventually(() => runtime.temporal.workflow.getHandle(work.id).describe());
    await runtime.temporal.workflow.getHandle(work.id).terminate();
    await age(runtime.db, work.id, '30 days');
    const { sessions } = await crashed(client, work);
    expect(sessions).toHaveLength(1);
  });

  it('I5 a status that nobody told the workflow of is shown, also by one that was never started', async () => {
    const { initiative } = await client.initiatives.create('ada', planned([['one']]));
    const id = initiative.initiative_id;
    const workflow = runtime.temporal.workflow.getHandle(id);
    const shows = (status: string) =>
      eventually(async () =>
        expect((await workflow.describe()).typedSearchAttributes.get(SEARCH_ATTRIBUTES.status)).toBe(status),
      );
    await shows('active');
    // It was compared once, and is not again until it changes.
    const check = `SELECT check_at FROM initiatives WHERE initiative_id = $1`;
    await eventually(async () => expect((await runtime.db.query(check, [id])).rows).toEqual([{ check_at: null }]));
    const { phases } = await client.initiatives.get('ada', id);
    const blocked_tasks = phases[0]!.plans[0]!.tasks.map(({ task_id }) => task_id);
    // Like a host that is killed after it has committed.
    const args = { description: 'no tea', affects: [], blocked_tasks };
    const target = { initiativeId: id, userId: 'ada', commandId: newId('cmd') };
    await applyInitiativeCommand(runtime.db, target, { command: 'add_blocker', args });
    await shows('escalated');
    const made = await Initiative.of([[['two']]], runtime.db);
    await eventually(async () =>
      expect((await runtime.temporal.workflow.getHandle(made.id).describe()).status.name).toBe('RUNNING'),
    );
  });

  it('I6 who has reported meanwhile is left alone, although the task was assigned a month ago', async () => {
    const [quiet, busy] = [await held(client), await held(client)];
    await runtime.db.query(
      `UPDATE initiative_tasks SET assigned_at = now() - interval '30 days' WHERE initiative_id = $1 AND assigned_to IS NOT NULL`,
      [busy.id],
    );
    await client.initiatives.reportProgress('ada', busy.id, busy.task, busy.work);
    await age(runtime.db, quiet.id, '30 days');
    await crashed(client, quiet);
    const { sessions } = await client.initiatives.get('ada', busy.id);
    expect(sessions).toMatchObject([{ status: 'active' }]);
  });

  // The last one here: it changes the settings.
  it('I6 lowered settings hold for a work session that holds a task already', async () => {
    const work = await held(client);
    const workflow = runtime.temporal.workflow.getHandle(work.id);
    await eventually(async () => expect((await workflow.query(initiativeSnapshotQuery)).watched).not.toBeNull());
    await runtime.first.stop();
    const settings = { staleAssignmentMs: STALE_MS, staleProgressMs: STALE_MS, sweepIntervalMs: 200 };
    await runtime.startWorker({ settings });
    await crashed(client, work);
  });
});

describe('with skipped time', () => {
  const DAY = 24 * 3_600_000;
  let runtime: TestRuntime;
  let client: PerdureClient;
  beforeAll(async () => {
    const settings = { staleAssignmentMs: 30 * DAY, staleProgressMs: 30 * DAY, idleCloseMs: 7 * DAY };
    // No sweeper: it is the timer that ends them.
    runtime = await startRuntime({ settings: { ...settings, sweepIntervalMs: 3_600_000 } });
    client = clientOf(runtime);
  });

  it('I6 W8 a month later it is the timer that ends a work session, not before, and a week later the workflow closes', async () => {
    const work = await held(client);
    const workflow = runtime.temporal.workflow.getHandle(work.id);
    const skip = (days: number) => skipTime(runtime.temporal, work.id, days * DAY);
    const seen = (sign?: string) =>
      eventually(async () => {
        const { watched } = await workflow.query(initiativeSnapshotQuery);
        expect(watched?.sign).toEqual(expect.any(String));
        expect(watched?.sign).not.toBe(sign);
        return watched!.sign;
      });
    const status = async () => (await client.initiatives.get('ada', work.id)).sessions.map((each) => each.status);
    const assigned = await seen();
    await skip(29);
    expect(await status()).toEqual(['active']);
    await client.initiatives.reportProgress('ada', work.id, work.task, work.work);
    await seen(assigned);
    // The first timer fires, and the row says that there was a sign of life.
    await skip(2);
    expect(await status()).toEqual(['active']);
    // Time does not skip for Postgres, which has the last word.
    await age(runtime.db, work.id, '31 days');
    await skip(30);
    await crashed(client, work);
    const { session } = await client.initiatives.startSession('ada', work.id, { agent: 'worker' });
    expect(session.notes).toBe('Resuming from session-001 crash');
    const { events } = await workflow.fetchHistory();
    const days = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) =>
      timer ? [Math.round(Number(timer.startToFireTimeout?.seconds) / 86_400)] : [],
    );
    // Not one more in two months. The first may be for the idle workflow, before the task was assigned; a short one follows what
    // was moved.
    expect(days.filter((each) => each > 7)).toEqual([30, 30]);
    expect(days.filter((each) => each < 7).length).toBeLessThanOrEqual(2);
    await skip(15);
    await eventually(async () => expect((await workflow.describe()).status.name).toBe('COMPLETED'));
  });
});
