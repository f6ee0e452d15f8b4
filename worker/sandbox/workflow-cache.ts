import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';
import type { CachedSessions } from '../../activities/head-starts/head-starts.ts';

/** Knows which sessions' workflows a worker has in its cache: the SDK creates a workflow for each, and disposes it. */
export class WorkflowCache implements CachedSessions {
  /** The run id of the cached execution, by session. */
  private readonly executions = new Map<string, string>();
  private readonly listeners: ((sessionId: string) => void)[] = [];

  has(sessionId: string): boolean {
    return this.executions.has(sessionId);
  }

  onEvicted(listener: (sessionId: string) => void): void {
    this.listeners.push(listener);
  }

  /** A creator whose workflows are counted as cached until they are disposed. */
  watching(creator: WorkflowCreator): WorkflowCreator {
    return {
      createWorkflow: async (options) => {
        const { workflowId, runId } = options.info;
        const workflow = await creator.createWorkflow(options);
        this.executions.set(workflowId, runId);
        return this.noteDisposal(workflow, workflowId, runId);
      },
      destroy: () => creator.destroy(),
    };
  }

  private noteDisposal(workflow: Workflow, sessionId: string, execution: string): Workflow {
    const dispose = workflow.dispose.bind(workflow);
    workflow.dispose = () => {
      // A session that continued as new may be cached again, under another run id.
      if (this.executions.get(sessionId) === execution) {
        this.executions.delete(sessionId);
        for (const listener of this.listeners) listener(sessionId);
      }
      return dispose();
    };
    return workflow;
  }
}
