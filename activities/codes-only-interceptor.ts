import type { Info } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure, CompleteAsyncError, type Duration } from '@temporalio/common';
import type { ActivityInboundCallsInterceptor } from '@temporalio/worker';
import type { Logger } from 'pino';
import { PerdureError } from '../domain/errors.ts';
import { isTemporary } from '../store/is-temporary.ts';

/** Codes of attempts that end early and are made again, which is no failure of the activity. */
const EXPECTED: ReadonlySet<unknown> = new Set(['Shutdown', 'Busy', 'AttachmentsUnavailable']);

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
      if (!EXPECTED.has(failure.type)) this.log.error({ err: error, ...fields }, 'an activity failed');
      throw failure;
    }
  }
}

function failureOf(error: unknown): ApplicationFailure {
  const { code, ...retry } = judge(error);
  const failure = ApplicationFailure.create({ message: code, type: code, ...retry });
  failure.stack = '';
  return failure;
}

function judge(error: unknown): { code: string; nonRetryable: boolean; nextRetryDelay?: Duration } {
  if (error instanceof ApplicationFailure) {
    const { type, nonRetryable, nextRetryDelay } = error;
    return { code: type ?? 'Internal', nonRetryable: nonRetryable === true, ...(nextRetryDelay && { nextRetryDelay }) };
  }
  if (error instanceof PerdureError) return { code: error.code, nonRetryable: true };
  return isTemporary(error)
    ? { code: 'DatabaseUnavailable', nonRetryable: false }
    : { code: 'Internal', nonRetryable: true };
}
