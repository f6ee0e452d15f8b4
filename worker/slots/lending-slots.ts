import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';
import type { Kind, WorkflowSlots } from './workflow-slots.ts';

type Activation = Parameters<Workflow['activate']>[0];
type Completion = Awaited<ReturnType<Workflow['activate']>>;

/**
 * A local activity usually takes a few milliseconds. More tasks at once would then only slow each other down: with 448 sessions at
 * once, where they often take 250 ms, a worker whose tasks lent their slots at once served a tenth fewer answers.
 */
const PATIENCE_MS = 750;

/** A creator whose workflows lend their slots while they wait for local activities that take long. */
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
  let lends: NodeJS.Timeout | undefined;
  let takeBack: (() => void) | undefined;
  const runs = () => {
    clearTimeout(lends);
    takeBack?.();
    takeBack = undefined;
  };
  const lend = (kind: Kind) => {
    takeBack = slots.lend(kind);
  };
  workflow.activate = async (activation) => {
    runs();
    const completion = await activate(activation);
    inFlight += localActivities(activation, completion);
    // In a replay the results are in the history.
    if (activation.isReplaying === true) return completion;
    if (inFlight > 0) lends = setTimeout(lend, PATIENCE_MS, isFirst ? 'replayed' : 'cached');
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
