import { describe, expect, it } from 'vitest';
import { type CrewView, isOver, ordersFor } from './orders.ts';

type Task = CrewView['phases'][number]['plans'][number]['tasks'][number];

const task = (status: string, assigned_to: string | null = null, wave = 1): Task => ({ status, assigned_to, wave });

/** An initiative with one plan in each phase, at the first phase that is not completed. */
function view(phases: readonly (readonly Task[])[], more: Partial<CrewView> = {}): CrewView {
  const isDone = (tasks: readonly Task[]) => tasks.every(({ status }) => status === 'completed');
  const at = phases.findIndex((tasks) => !isDone(tasks));
  return {
    initiative: { status: at < 0 ? 'completed' : 'active', review: null },
    state: { position: { phase: (at < 0 ? phases.length - 1 : at) + 1, plan: 1, wave: 1 } },
    phases: phases.map((tasks, n) => ({
      phase: n + 1,
      name: `phase ${n + 1}`,
      status: isDone(tasks) ? 'completed' : 'active',
      plans: [{ plan: 1, tasks: [...tasks] }],
    })),
    decisions: [],
    blockers: [],
    ...more,
  };
}

describe('orders to a crew', () => {
  it('I7 as many workers as there are open tasks in the wave, without those who are about to take one', () => {
    const tasks = [task('open'), task('open'), task('in_progress', 'session-001'), task('open', null, 2)];
    expect(ordersFor(view([tasks]), []).map(({ role }) => role)).toEqual(['worker', 'worker']);
    expect(ordersFor(view([tasks]), ['worker'])).toHaveLength(2);
    expect(ordersFor(view([tasks]), ['worker', 'worker'])).toHaveLength(1);
  });

  it('I7 a task that was set to in_progress and that nobody holds needs a worker, too', () => {
    expect(ordersFor(view([[task('in_progress'), task('blocked')]]), [])).toMatchObject([{ role: 'worker' }]);
  });

  it('I7 a completed phase is verified before the next one begins', () => {
    const phases = [[task('completed')], [task('open')]];
    expect(ordersFor(view(phases), [])).toEqual([{ role: 'verifier', text: 'Verify phase 1, phase 1.' }]);
    expect(ordersFor(view(phases), ['verifier'])).toEqual([]);
    const decisions = [{ context: 'Verification of phase 1' }];
    expect(ordersFor(view(phases, { decisions }), [])).toMatchObject([{ role: 'worker' }]);
  });

  it('I5 I7 an active blocker is the orchestrator’s; a bypassed one is checked with the next phase', () => {
    const decisions = [{ context: 'Verification of phase 1' }];
    const blocked = [[task('completed')], [task('blocked')]];
    const active = view(blocked, { decisions, blockers: [{ id: 'block-001', status: 'active' }] });
    expect(ordersFor(active, [])).toEqual([{ role: 'orchestrator', text: 'Let the work go on: block-001.' }]);
    const done = [[task('completed')], [task('completed')]];
    const bypassed = view(done, { decisions, blockers: [{ id: 'block-001', status: 'bypassed' }] });
    expect(ordersFor(bypassed, [])).toMatchObject([{ text: 'Verify phase 2, phase 2. Was this solved: block-001?' }]);
  });

  it('I4 I7 a flagged workspace is reviewed before anything else', () => {
    const flagged = view([[task('open')]], { initiative: { status: 'active', review: [{}] } });
    expect(ordersFor(flagged, [])).toMatchObject([
      { role: 'verifier', text: expect.stringContaining('review') as string },
    ]);
  });

  it('I7 the work is over when the last phase is verified', () => {
    const done = [[task('completed')]];
    expect(isOver(view(done))).toBe(false);
    expect(isOver(view(done, { decisions: [{ context: 'Verification of phase 1' }] }))).toBe(true);
  });
});
