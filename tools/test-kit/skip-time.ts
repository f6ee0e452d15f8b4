// Time that passes for a workflow only: the server moves its clock from timer to timer while nothing else is in flight.
import type { Client } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { expect } from 'vitest';
import { eventually } from './eventually.ts';

let skips = 0;

/** Lets time pass for a workflow, and waits until it has or the workflow has ended: timers that are due within it fire in their order. */
export async function skipTime(client: Client, workflowId: string, ms: number): Promise<void> {
  const { workflowService } = client.connection;
  const { namespace } = client.options;
  skips += 1;
  const id = `skip-${skips}`;
  await workflowService.updateWorkflowExecutionOptions({
    namespace,
    workflowExecution: { workflowId },
    workflowExecutionOptions: {
      timeSkippingConfig: { enabled: true, fastForwardConfig: { id, duration: msToTs(ms) } },
    },
    updateMask: { paths: ['time_skipping_config'] },
  });
  await eventually(async () => {
    const about = await workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } });
    const config = about.workflowExtendedInfo?.timeSkippingInfo?.effectiveConfig;
    const hasEnded = Boolean(about.workflowExecutionInfo?.closeTime);
    expect(hasEnded || (config?.fastForwardConfig?.id === id && !config.enabled)).toBe(true);
  });
}
