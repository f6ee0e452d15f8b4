import { rmdir } from 'node:fs/promises';
import path from 'node:path';
import { status } from '@grpc/grpc-js';
import { type Client, isGrpcServiceError, WorkflowNotFoundError } from '@temporalio/client';
import type pg from 'pg';
import type { Logger } from 'pino';
import { claimErasures, type ErasureTask, finishErasures } from '../../store/erasure.ts';
import { removeTree } from '../../workspaces/remove-tree.ts';
import { requireWorkspace } from '../../workspaces/require-workspace.ts';
import { listExecutions } from '../replay/history.ts';

const BATCH = 20;
/** Of a workflow; what is left is deleted in the next pass. */
const DEADLINE_MS = 3_000;
const MOST_EXECUTIONS = 1_000;
/**
 * At once, and again a minute later: a folder may have been written to in between, a late wake-up may have started the workflow
 * again, and visibility lists executions and forgets them with a delay. What ends later queues its folder itself.
 */
const PASSES = 2;

interface ErasureDeps {
  db: pg.Pool;
  client: Client;
  log: Logger;
  workspaces: string;
}

/**
 * Ends and deletes the workflows and removes the folders of erased sessions, until the signal. What is left is due again in a
 * minute. If Temporal refuses to delete, which is logged once, the executions stay there until the namespace's retention.
 */
export function erasing(deps: ErasureDeps): (signal: AbortSignal) => Promise<void> {
  const deletion = new WorkflowDeletion(deps);
  return async (signal) => {
    const done: number[] = [];
    for (const erasure of await claimErasures(deps.db, BATCH)) {
      if (signal.aborted) break;
      if ((await carryOut(deps, deletion, erasure)) && erasure.passes >= PASSES) done.push(erasure.id);
    }
    if (done.length > 0) await finishErasures(deps.db, done);
  };
}

/** @returns whether nothing is left to do, as far as this pass can know */
async function carryOut(
  { log, workspaces }: ErasureDeps,
  deletion: WorkflowDeletion,
  { workflow_id: session, folder }: ErasureTask,
): Promise<boolean> {
  try {
    if (folder !== null) await removeFolder(workspaces, folder);
    return session === null || (await deletion.of(session));
  } catch (error) {
    log.warn({ err: error, session, folder }, 'an erasure is not complete; trying again in a minute');
    return false;
  }
}

/** Ends workflows, and deletes their executions with histories, search attributes and summaries, which name the user. */
class WorkflowDeletion {
  private readonly client: Client;
  private readonly log: Logger;
  private isRefusalLogged = false;

  constructor({ client, log }: Pick<ErasureDeps, 'client' | 'log'>) {
    this.client = client;
    this.log = log;
  }

  /** @returns whether there was no execution, or Temporal refuses to delete: otherwise the next pass sees whether all are gone */
  async of(workflowId: string): Promise<boolean> {
    const { connection } = this.client;
    try {
      return await connection.withDeadline(Date.now() + DEADLINE_MS, () => this.deleteAll(workflowId));
    } catch (error) {
      if (!isOneOf(error, status.PERMISSION_DENIED, status.UNIMPLEMENTED)) throw error;
      this.logRefusal(error);
    }
    await connection.withDeadline(Date.now() + DEADLINE_MS, () => this.terminate(workflowId));
    return true;
  }

  private async deleteAll(workflowId: string): Promise<boolean> {
    // Visibility may not list the latest one yet.
    let hadNone = !(await this.delete({ workflowId }));
    for (const { runId } of await listExecutions(this.client, { limit: MOST_EXECUTIONS, workflowId })) {
      if (await this.delete({ workflowId, runId })) hadNone = false;
    }
    return hadNone;
  }

  /**
   * Deletes an execution, by default the latest; the server terminates it if it is running.
   * @returns false: there is none
   */
  private async delete(workflowExecution: { workflowId: string; runId?: string }): Promise<boolean> {
    const { workflowService, options } = this.client;
    try {
      await workflowService.deleteWorkflowExecution({ namespace: options.namespace, workflowExecution });
      return true;
    } catch (error) {
      if (isOneOf(error, status.NOT_FOUND)) return false;
      throw error;
    }
  }

  private async terminate(workflowId: string): Promise<void> {
    try {
      await this.client.workflow.getHandle(workflowId).terminate('erased');
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }

  private logRefusal(error: unknown): void {
    if (this.isRefusalLogged) return;
    this.isRefusalLogged = true;
    const left = 'those of erased sessions keep the id of their user until the retention of the namespace ends';
    this.log.error({ err: error }, `Temporal does not let this worker delete workflows: ${left}`);
  }
}

/** Whether an error is, or was caused by, an answer of the server with one of these codes. */
function isOneOf(error: unknown, ...codes: readonly number[]): boolean {
  if (isGrpcServiceError(error)) return codes.includes(error.code);
  return error instanceof Error && error.cause !== undefined && isOneOf(error.cause, ...codes);
}

/** Removes a folder, and the folders around it up to its user's that are empty then. Links are removed, not followed. */
async function removeFolder(workspaces: string, folder: string): Promise<void> {
  const root = path.join(workspaces, folder);
  requireWorkspace(workspaces, path.dirname(root));
  await removeTree(root);
  await rmdir(path.dirname(root)).catch(() => {});
  await rmdir(path.join(workspaces, folder.split('/')[0] ?? folder)).catch(() => {});
}
