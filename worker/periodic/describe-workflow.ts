import type { Client } from '@temporalio/client';

const DEADLINE_MS = 3_000;

/** A workflow as Temporal shows it; undefined: there is none, or it cannot be read within three seconds. */
export async function describeWorkflow({ connection, workflow }: Client, id: string) {
  const describe = () => workflow.getHandle(id).describe();
  return connection.withDeadline(Date.now() + DEADLINE_MS, describe).catch(() => undefined);
}
