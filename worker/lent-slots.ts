import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';
import type { WorkflowSlots } from './workflow-slots.ts';

type Activation = Parameters<Workflow['activate']>[0];
type Completion = Awaited<ReturnType<Workflow['activate']>>;

/** A creator whose workflows lend their slots while they wait for local activities. */
export function lendingSlots(creator: WorkflowCreator, slots: WorkflowSlots): WorkflowCreator {
  return {
    createWorkflow: async (options) => lending(await creator.createWorkflow(options), slots),
    destroy: () => creator.destroy(),
  };
}

function lending(workflow: Workflow, slots: WorkflowSlots): Workflow {
  const activate = workflow.activate.bind(workflow);
  const dispose = workflow.dispose.bind(workflow);
  let inFlight = 0;
  /** Its task created it: its slot is one for a replay. */
  let isFirst = true;
  let takeBack: (() => void) | undefined;
  const runs = () => {
    takeBack?.();
    takeBack = undefined;
  };
  workflow.activate = async (activation) => {
    runs();
    const completion = await activate(activation);
    inFlight += localActivities(activation, completion);
    // In a replay the results are in the history.
    if (activation.isReplaying === true) return completion;
    if (inFlight > 0) takeBack = slots.lend(isFirst ? 'replayed' : 'cached');
    else isFirst = false;
    return completion;
  };
  workflow.dispose = () => {
    runs();
    return dispose();
  };
  return workflow;
}

/** How many more local activities are in flight after an activation than before it. */
function localActivities({ jobs }: Activation, { successful }: Completion): number {
  const begun = successful?.commands?.filter(({ scheduleLocalActivity: given }) => Boolean(given)) ?? [];
  const ended = jobs?.filter(({ resolveActivity: given }) => given?.isLocal === true) ?? [];
  return begun.length - ended.length;
}
