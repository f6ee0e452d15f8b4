import { rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Logger } from 'pino';
import type pg from 'pg';
import { claimErasures, type Erasure, finishErasures } from '../store/erasure.ts';
import { requireWorkspace } from '../workspaces/folder.ts';

const BATCH = 20;
const DEADLINE_MS = 3_000;
/** At once, and again a minute later: a tool that was running may have written a file in between. */
const PASSES = 2;

/** Ends the workflows and removes the folders of erased sessions. What fails is tried again every minute. */
export class Erasures {
  private readonly deps: { db: pg.Pool; client: Client; log: Logger; workspaces: string };

  constructor(deps: Erasures['deps']) {
    this.deps = deps;
  }

  /** Works off what is due; never rejects. */
  async run(): Promise<void> {
    const { db, log } = this.deps;
    try {
      const claimed = await claimErasures(db, BATCH);
      const done: number[] = [];
      for (const erasure of claimed) {
        if ((await this.carryOut(erasure)) && erasure.passes >= PASSES) done.push(erasure.id);
      }
      if (done.length > 0) await finishErasures(db, done);
    } catch (error) {
      log.warn({ err: error }, 'the queue of erasures could not be read');
    }
  }

  private async carryOut(erasure: Erasure): Promise<boolean> {
    try {
      if (erasure.workflow_id !== null) await this.terminate(erasure.workflow_id);
      if (erasure.folder !== null) await this.remove(erasure.folder);
      return true;
    } catch (error) {
      const { workflow_id: session, folder } = erasure;
      this.deps.log.warn({ err: error, session, folder }, 'an erasure is not complete; trying again in a minute');
      return false;
    }
  }

  private async terminate(workflowId: string): Promise<void> {
    const { client } = this.deps;
    try {
      await client.connection.withDeadline(Date.now() + DEADLINE_MS, () =>
        client.workflow.getHandle(workflowId).terminate('erased'),
      );
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }

  /** Removes a folder, and its user's folder where that was the last one. Links are removed, not followed. */
  private async remove(folder: string): Promise<void> {
    const { workspaces } = this.deps;
    const root = path.join(workspaces, folder);
    requireWorkspace(workspaces, path.dirname(root));
    await rm(root, { recursive: true, force: true });
    await rmdir(path.join(workspaces, folder.split('/')[0] ?? folder)).catch(() => {});
  }
}
