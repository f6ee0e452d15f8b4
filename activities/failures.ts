import type { Info } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure, CompleteAsyncError } from '@temporalio/common';
import type { ActivityInboundCallsInterceptor } from '@temporalio/worker';
import type { Logger } from 'pino';
import { PerdureError } from '../domain/errors.ts';

/**
 * SQLSTATE classes of temporary errors: connection (08), transaction rollback (40), resources (53), operator intervention
 * (57), system (58); a cached plan that a migration made invalid (0A000), a read-only standby (25006), an idle transaction
 * time-out (25P03), a lock time-out (55P03).
 */
const TEMPORARY = /^(?:08|40|53|57|58|0A000|25006|25P03|55P03)/;

/** Every code of Postgres has a digit; the system's EPIPE has none. */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;

/** The activity and its session. */
type About = Pick<Info, 'activityType' | 'workflowExecution'>;

/**
 * Keeps content out of failures: an activity's error reaches Temporal as a code without message or stack. The error itself
 * is logged. Permanent errors are marked as not retryable.
 */
export class CodesOnlyInterceptor implements ActivityInboundCallsInterceptor {
  private readonly log: Logger;
  private readonly info: About;

  constructor(log: Logger, info: About) {
    this.log = log;
    this.info = info;
  }

  async execute(
    input: Parameters<NonNullable<ActivityInboundCallsInterceptor['execute']>>[0],
    next: Parameters<NonNullable<ActivityInboundCallsInterceptor['execute']>>[1],
  ): Promise<unknown> {
    try {
      return await next(input);
    } catch (error) {
      if (error instanceof CancelledFailure || error instanceof CompleteAsyncError) throw error;
      const failure = failureOf(error);
      const { activityType: activity, workflowExecution } = this.info;
      const [about] = input.args as [{ run_seq?: unknown } | string | undefined];
      const run = typeof about === 'object' ? about.run_seq : undefined;
      const fields = { activity, session: workflowExecution?.workflowId, run, code: failure.type };
      if (failure.type !== 'Shutdown') this.log.error({ err: error, ...fields }, 'an activity failed');
      throw failure;
    }
  }
}

function failureOf(error: unknown): ApplicationFailure {
  const { code, nonRetryable } = judge(error);
  const failure = ApplicationFailure.create({ message: code, type: code, nonRetryable });
  failure.stack = '';
  return failure;
}

function judge(error: unknown): { code: string; nonRetryable: boolean } {
  if (error instanceof ApplicationFailure) {
    return { code: error.type ?? 'Internal', nonRetryable: error.nonRetryable === true };
  }
  if (error instanceof PerdureError) return { code: error.code, nonRetryable: true };
  return isTemporary(error)
    ? { code: 'DatabaseUnavailable', nonRetryable: false }
    : { code: 'Internal', nonRetryable: true };
}

/** Whether an error of Postgres or its client is temporary. */
export function isTemporary(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && SQLSTATE.test(code) ? TEMPORARY.test(code) : isConnectionError(error);
}

/** The Postgres client reports lost connections with a system code, or only in the message. */
function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isConnectionError);
  const { code } = error as NodeJS.ErrnoException;
  return (
    (code !== undefined && /^E[A-Z_]+$/.test(code)) ||
    /connection terminated|timeout exceeded when trying to connect|timeout expired|query read timeout|client has encountered a connection error|not queryable/i.test(
      error.message,
    )
  );
}
