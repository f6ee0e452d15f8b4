// Histories of the running server that the environment names.
import { Client, isGrpcServiceError } from '@temporalio/client';
import pLimit from 'p-limit';
import type { Config } from '../../config/config.ts';
import { temporalConnectConfig } from '../../config/temporal.ts';
import { type Execution, fetchHistory, type History, listExecutions } from '../../worker/replay/history.ts';
import { connectOnce } from '../connect-once.ts';
import type { FromServer } from './options.ts';

/** A session has few executions, because it continues as new after hundreds of events. */
const OF_ONE_SESSION = 1_000;
const AT_ONCE = 8;

/**
 * The histories of executions of sessions, newest first; those of open executions up to their last event.
 * @throws {ConfigError | Error} naming the variable that the server refuses, or if it cannot be reached, or has none
 */
export async function serverHistories(
  config: Config,
  which: FromServer,
): Promise<{ execution: Execution; history: History }[]> {
  const temporal = temporalConnectConfig(config);
  const { connectionOptions, namespace } = temporal;
  const at = `namespace "${namespace}" at ${connectionOptions.address}`;
  const connection = await connectOnce(temporal);
  try {
    const client = new Client({ connection, namespace });
    const executions = await listExecutions(
      client,
      'last' in which ? { limit: which.last } : { limit: OF_ONE_SESSION, workflowId: which.session },
    ).catch((error: unknown) => {
      const reason = error instanceof Error && isGrpcServiceError(error.cause) ? error.cause.details : String(error);
      throw new Error(`${at} cannot be listed: ${reason}`);
    });
    if (executions.length === 0) {
      throw new Error('last' in which ? `${at} has no sessions` : `${at} has no session ${which.session}`);
    }
    return await pLimit(AT_ONCE).map(executions, async (execution) => ({
      execution,
      history: await fetchHistory(client, execution),
    }));
  } finally {
    await connection.close();
  }
}
