// Following an initiative over HTTP.
import { beforeAll, expect, it } from 'vitest';
import {
  eventsOf,
  type ServerSentEvent,
  startHost,
  type TestCaller,
  type TestHost,
} from '../../tools/test-kit/host.ts';
import { planned } from '../../tools/test-kit/initiative.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

let host: TestHost;
let other: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  [host, other] = [await startHost({ databaseUrl }), await startHost({ databaseUrl })];
  ada = host.as('ada');
});

/** The events of an initiative, of which `until` returns those up to the first that fits. */
async function follower(at: string) {
  const leaving = new AbortController();
  const response = await ada.fetch(`${at}/events`, { signal: leaving.signal });
  const events = eventsOf(response);
  return {
    until: async (fits: (event: ServerSentEvent) => boolean) => {
      const seen: ServerSentEvent[] = [];
      for (;;) {
        const { value, done } = await events.next();
        if (done === true) throw new Error('the stream has ended');
        seen.push(value);
        if (fits(value)) return seen;
      }
    },
    leave: () => leaving.abort(),
  };
}

it('H12 a follower gets the state, then every change, also of another host, and the state after it', async () => {
  const { body } = await ada.post('/api/initiatives', planned([['one', 'two']]));
  const at = `/api/initiatives/${body.initiative.initiative_id}`;
  const { until, leave } = await follower(at);
  expect(await until(() => true)).toMatchObject([{ event: 'state', data: { state: { position: { task: 'one' } } } }]);
  const elsewhere = other.as('ada');
  const work_session = (await elsewhere.post(`${at}/sessions`, { agent: 'worker' })).body.session.id as string;
  expect(await until(({ event }) => event === 'state')).toMatchObject([
    { event: 'change', data: { kind: 'session_started', actor: 'user', data: { id: work_session } } },
    { event: 'state', data: { initiative: { version: 2 } } },
  ]);
  const { task_id } = (await elsewhere.post(`${at}/tasks/next`, { work_session })).body;
  const assigned = await until(({ data }) => data.kind === 'task_assigned');
  expect(assigned.at(-1)?.data).toMatchObject({ data: { task_id, work_session } });
  await elsewhere.post(`${at}/tasks/${task_id}/start`, { work_session });
  await elsewhere.post(`${at}/tasks/${task_id}/progress`, { work_session, note: 'a note' });
  expect(await elsewhere.post(`${at}/tasks/${task_id}/start`, { work_session })).toMatchObject({ status: 409 });
  await elsewhere.post(`${at}/tasks/${task_id}/complete`, { work_session });
  const rest = await until(({ event, data }) => event === 'state' && data.state.position.task === 'two');
  expect(rest.filter(({ event }) => event === 'change').map(({ data }) => String(data.kind))).toEqual([
    'task_started',
    'task_progress',
    'task_completed',
  ]);
  expect(JSON.stringify(rest.filter(({ event }) => event === 'change'))).not.toContain('a note');
  leave();
});

it('I5 H12 a follower is told which phases a blocker pauses, that it escalates the initiative, and what goes on again', async () => {
  const named = ['one', 'two'].map((name) => ({ name, plans: [{ name, tasks: [{ name }] }] }));
  const { body } = await ada.post('/api/initiatives', { title: 'Two phases', phases: named });
  const at = `/api/initiatives/${body.initiative.initiative_id}`;
  const { phases } = (await ada.get(at)).body as { phases: { plans: { tasks: { task_id: string }[] }[] }[] };
  const { until, leave } = await follower(at);
  await until(() => true);
  const next = async () => (await until(({ event }) => event === 'change')).at(-1)?.data.data as object;
  const block = async (phase: number) => {
    const blocked_tasks = phases[phase - 1]!.plans[0]!.tasks.map(({ task_id }) => task_id);
    await ada.post(`${at}/blockers`, { description: 'No tea', affects: [], blocked_tasks });
    return next();
  };
  // The position is in the first phase: that the second one is paused is in no state.
  const second = await block(2);
  expect(second).toMatchObject({ phases: { 2: 'paused' } });
  expect(second).not.toHaveProperty('status');
  expect(await block(1)).toMatchObject({ phases: { 1: 'paused' }, status: 'escalated' });
  await ada.post(`${at}/blockers/block-001/resolve`, { resolution: 'tea' });
  expect(await next()).toMatchObject({ phases: { 2: 'active' }, status: 'paused' });
  leave();
});

it('H12 a follower misses no change while many are made at once', async () => {
  const names = Array.from({ length: 30 }, (_, n) => `task ${n}`);
  const { body } = await ada.post('/api/initiatives', planned([names]));
  const at = `/api/initiatives/${body.initiative.initiative_id}`;
  const { until, leave } = await follower(at);
  await until(() => true);
  const started = await Promise.all([1, 2, 3].map(() => other.as('ada').post(`${at}/sessions`, { agent: 'worker' })));
  const workers = started.map((each) => each.body.session.id as string);
  await Promise.all(names.map((_, n) => ada.post(`${at}/tasks/next`, { work_session: workers[n % 3] })));
  await ada.post(`${at}/state`, { next_action: 'last' });
  const seen = await until(({ event, data }) => event === 'change' && data.kind === 'state_updated');
  const changes = seen
    .filter(({ event }) => event === 'change')
    .map(({ data }) => data as { seq: number; kind: string });
  expect(changes.filter(({ kind }) => kind === 'task_assigned')).toHaveLength(30);
  expect(changes.map(({ seq }) => seq)).toEqual(changes.map(({ seq }) => seq).toSorted((a, b) => a - b));
  leave();
});

it('Q3 H12 another user cannot follow it, and a follower of an erased one is told', async () => {
  const { body } = await host.as('bob').post('/api/initiatives', planned([['one']]));
  const at = `/api/initiatives/${body.initiative.initiative_id}`;
  expect(await ada.get(`${at}/events`)).toMatchObject({ status: 404, body: { code: 'InitiativeNotFound' } });
  const response = await host.as('bob').fetch(`${at}/events`);
  const events = eventsOf(response);
  await events.next();
  expect(await host.as('bob').delete('/api/users/me')).toMatchObject({ status: 204 });
  const last = await events.next();
  expect(last.value).toMatchObject({ event: 'error', data: { code: 'InitiativeNotFound' } });
});
