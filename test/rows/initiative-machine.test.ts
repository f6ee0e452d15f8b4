// Random commands on an initiative: what follows from its tasks always does, and the log tells a legal history.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { statusesOf } from '../../domain/initiatives/machines.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import type { InitiativeView } from '../../wire/initiative-views.ts';
import { Initiative } from './initiative.ts';
import { freshRows, rows } from './session.ts';

const db = await freshRows();

const LAYOUT = [
  [
    ['a', 'b'],
    [['c', 2], 'd'],
  ],
  [['e', 'f']],
] as const;
const TASKS = ['a', 'b', 'c', 'd', 'e', 'f'];
const WORKERS = ['session-001', 'session-002'];

const task = fc.constantFrom(...TASKS);
const work_session = fc.constantFrom(...WORKERS);
const blocker = fc.constantFrom('block-001', 'block-002', 'block-003');
const command = fc.oneof(
  { weight: 3, arbitrary: fc.record({ name: fc.constant('assign_task'), args: fc.record({ work_session }) }) },
  { weight: 6, arbitrary: fc.record({ name: fc.constant('start_task'), args: fc.record({ task, work_session }) }) },
  { weight: 6, arbitrary: fc.record({ name: fc.constant('complete_task'), args: fc.record({ task, work_session }) }) },
  fc.record({ name: fc.constant('report_progress'), args: fc.record({ task, work_session }) }),
  {
    weight: 2,
    arbitrary: fc.record({
      name: fc.constant('add_blocker'),
      args: fc.record({ description: fc.constant('b'), blocked_tasks: fc.uniqueArray(task, { maxLength: 6 }) }),
    }),
  },
  fc.record({
    name: fc.constant('bypass_blocker'),
    args: fc.record({
      id: blocker,
      workaround: fc.constant('w'),
      workaround_tasks: fc.constantFrom([], ['extra'], ['a']),
    }),
  }),
  {
    weight: 2,
    arbitrary: fc.record({
      name: fc.constant('resolve_blocker'),
      args: fc.record({ id: blocker, resolution: fc.constant('r') }),
    }),
  },
  fc.record({
    name: fc.constant('update_state'),
    args: fc.record({
      position: fc.record(
        {
          phase: fc.constantFrom(1, 2),
          plan: fc.constantFrom(1, 2),
          task,
          status: fc.constantFrom('open', 'in_progress'),
        },
        { requiredKeys: ['phase', 'plan', 'task'] },
      ),
    }),
  }),
  fc.record({ name: fc.constant('end_session'), args: fc.record({ id: work_session }) }),
);

/** What must follow from the tasks and blockers of an initiative. */
function checkConsequences({ initiative, state, phases, blockers }: InitiativeView): void {
  const blocking = new Set<string>(
    blockers
      .filter((each) => each.status === 'active')
      .flatMap(({ blocked_tasks }) => blocked_tasks.map(({ task_id }) => task_id)),
  );
  let remaining = 0;
  let paused = 0;
  for (const phase of phases) {
    const tasks = phase.plans.flatMap((plan) => plan.tasks);
    for (const each of tasks) {
      expect(statusesOf('task')).toContain(each.status);
      expect(each.status === 'blocked', each.name).toBe(blocking.has(each.task_id));
      if (each.status === 'blocked') expect(each.assigned_to).toBeNull();
    }
    for (const plan of phase.plans) {
      const done = plan.tasks.every((each) => each.status === 'completed');
      expect(plan.status).toBe(done ? 'completed' : 'active');
      expect(plan.summary === null).toBe(!done);
    }
    const left = tasks.filter((each) => each.status !== 'completed');
    const stopped = left.every((each) => each.status === 'blocked');
    expect(phase.status).toBe(left.length === 0 ? 'completed' : stopped ? 'paused' : 'active');
    if (phase.status === 'paused') paused += 1;
    if (phase.status !== 'completed') remaining += 1;
    if (phase.phase !== state.position.phase) continue;
    const own = tasks.find((each) => each.task_id === state.position.task_id);
    const status = remaining === 0 && left.length === 0 ? 'completed' : own!.status;
    if (initiative.status === 'active') expect(state.position.status).toBe(status);
    else expect(state.position.status).toBe(initiative.status);
    const counted = initiative.status === 'completed' ? [0, 0] : [tasks.length, tasks.length - left.length];
    expect([state.progress.current_phase_tasks, state.progress.current_phase_completed]).toEqual(counted);
    if (initiative.status !== 'completed') expect(own!.status).not.toBe('completed');
  }
  const at = phases.find((phase) => phase.phase === state.position.phase);
  expect(initiative.status).toBe(
    remaining === 0 ? 'completed' : paused === remaining ? 'escalated' : at!.status === 'paused' ? 'paused' : 'active',
  );
}

/** Which statuses of phases and of the initiative have changed, as the event of the command says. */
function changesOf(before: InitiativeView, after: InitiativeView) {
  const phases = after.phases.filter((each, n) => each.status !== before.phases[n]?.status);
  const { status } = after.initiative;
  return {
    phases: phases.length > 0 ? Object.fromEntries(phases.map((each) => [each.phase, each.status])) : undefined,
    status: status === before.initiative.status ? undefined : status,
  };
}

it('I5 random commands never leave the tables, and say in their events what they pause and resume; refused ones change nothing', async () => {
  const outcomes = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 10, maxLength: 40 }), async (commands) => {
      const work = await Initiative.of(LAYOUT, db);
      for (const _ of WORKERS) await work.session();
      let before = await work.view();
      for (const { name, args } of commands) {
        const outcome = await work.apply(name, args);
        const after = await work.view();
        outcomes.add(`${name} ${outcome.code ?? 'done'}`);
        if (!outcome.ok) expect(after, name).toEqual(before);
        else if (outcome.nothing === undefined)
          expect(await work.changed(), name).toEqual({
            kind: expect.any(String) as string,
            ...changesOf(before, after),
          });
        checkConsequences(after);
        before = after;
      }
      const twice = `SELECT data ->> 'command' AS command FROM initiative_events
                      WHERE initiative_id = $1 AND kind = 'task_completed' GROUP BY data -> 'outcome', 1 HAVING count(*) > 1`;
      expect(await rows(db, twice, [work.id]), 'a task completed twice').toEqual([]);
    }),
    cases(25),
  );
  for (const expected of ['complete_task done', 'resolve_blocker done', 'complete_task TaskAssigned']) {
    expect(outcomes).toContain(expected);
  }
});
