import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { lendingSlots } from './lending-slots.ts';
import { WorkflowSlots } from './workflow-slots.ts';

type Activation = Parameters<Workflow['activate']>[0];
type Completion = Awaited<ReturnType<Workflow['activate']>>;

const BEGUN: Completion = { runId: 'run', successful: { commands: [{ scheduleLocalActivity: { seq: 1 } }] } };
const NOTHING: Completion = { runId: 'run', successful: { commands: [] } };
const begins = {} as Activation;
const ended = { jobs: [{ resolveActivity: { seq: 1, isLocal: true } }] } as Activation;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('T5 a slot is lent while a local activity takes long, not while it takes its usual time', async () => {
  const slots = new WorkflowSlots({ cached: 0, replayed: 1, waiting: 100 });
  const another = () => {
    const permit = slots.tryReserveSlot({ ...of, isSticky: false });
    if (permit !== null) slots.releaseSlot({ permit });
    return permit !== null;
  };
  const of = { slotType: 'workflow', taskQueue: 'perdure', workerIdentity: 'one', workerBuildId: '' } as const;
  slots.tryReserveSlot({ ...of, isSticky: false });
  const workflow = await lendingSlots(creatorOf([BEGUN, BEGUN, NOTHING, NOTHING]), slots).createWorkflow(
    {} as Parameters<WorkflowCreator['createWorkflow']>[0],
  );

  await workflow.activate(begins);
  vi.advanceTimersByTime(700);
  expect(another(), 'after 700 ms').toBe(false);
  await workflow.activate(ended);
  vi.advanceTimersByTime(700);
  expect(another(), '700 ms into the second one').toBe(false);
  vi.advanceTimersByTime(100);
  expect(another(), 'after 800 ms').toBe(true);
  await workflow.activate(ended);
  vi.advanceTimersByTime(1_000);
  expect(another(), 'when it runs again').toBe(false);
  await workflow.dispose();
});

/** A workflow that answers its activations with these, one after the other. */
function creatorOf(completions: Completion[]): WorkflowCreator {
  const workflow = { activate: async () => completions.shift(), dispose: async () => {} } as unknown as Workflow;
  return { createWorkflow: async () => workflow, destroy: async () => {} };
}
