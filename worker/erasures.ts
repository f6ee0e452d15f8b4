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

interface ErasureDeps {
  db: pg.Pool;
  client: Client;
  log: Logger;
  workspaces: string;
}

/** Ends the workflows and removes the folders of erased sessions, until the signal. What is left is due again in a minute. */
export async function carryOutErasures(deps: ErasureDeps, signal: AbortSignal): Promise<void> {
  const done: number[] = [];
  for (const erasure of await claimErasures(deps.db, BATCH)) {
    if (signal.aborted) break;
    if ((await carryOut(deps, erasure)) && erasure.passes >= PASSES) done.push(erasure.id);
  }
  if (done.length > 0) await finishErasures(deps.db, done);
}

async function carryOut({ client, log, workspaces }: ErasureDeps, erasure: Erasure): Promise<boolean> {
  const { workflow_id: session, folder } = erasure;
  try {
    if (session !== null) await terminate(client, session);
    if (folder !== null) await removeFolder(workspaces, folder);
    return true;
  } catch (error) {
    log.warn({ err: error, session, folder }, 'an erasure is not complete; trying again in a minute');
    return false;
  }
}

async function terminate({ connection, workflow }: Client, workflowId: string): Promise<void> {
  const end = () => workflow.getHandle(workflowId).terminate('erased');
  await connection.withDeadline(Date.now() + DEADLINE_MS, end).catch((error: unknown) => {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  });
}

/** Removes a folder, and the folders around it up to its user's that are empty then. Links are removed, not followed. */
async function removeFolder(workspaces: string, folder: string): Promise<void> {
  const root = path.join(workspaces, folder);
  requireWorkspace(workspaces, path.dirname(root));
  await rm(root, { recursive: true, force: true });
  await rmdir(path.dirname(root)).catch(() => {});
  await rmdir(path.join(workspaces, folder.split('/')[0] ?? folder)).catch(() => {});
}
