// Histories of a running server, the one that the environment names.
import { Client, Connection } from '@temporalio/client';
import type { Config } from '../../config/config.ts';
import { temporalConnectConfig } from '../../config/temporal.ts';
import { type Execution, fetchHistory, type History, listExecutions } from './history.ts';

/** The histories of the newest executions of sessions, newest first. */
export async function newestHistories(
  config: Config,
  count: number,
): Promise<{ execution: Execution; history: History }[]> {
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  const connection = await Connection.connect(connectionOptions);
  try {
    const client = new Client({ connection, namespace });
    const found: { execution: Execution; history: History }[] = [];
    for (const execution of await listExecutions(client, { limit: count })) {
      found.push({ execution, history: await fetchHistory(client, execution) });
    }
    return found;
  } finally {
    await connection.close();
  }
}
