// Runs in the workflow sandbox: reports the inputs of what the workflow schedules, and its results. A replay checks neither.
import { proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';

/** Something that a workflow scheduled or returned, as plain JSON. */
export type Asked = Record<string, unknown>;

export interface CaptureSinks extends Sinks {
  capture: {
    /** The workflow has processed the events up to this number. */
    activated(historyLength: number): void;
    /** The SDK's sequence number of an activity. */
    asked(asked: Asked, seq?: number): void;
  };
}

const { capture } = proxySinks<CaptureSinks>();

/** The SDK finds this export by its name: interceptors for the workflows of a bundle that includes this module. */
export const interceptors = (): WorkflowInterceptors => ({
  internals: [
    {
      activate(input, next) {
        if (input.batchIndex === 0) capture.activated(input.activation.historyLength ?? 0);
        next(input);
      },
    },
  ],
  inbound: [
    {
      async handleUpdate(input, next) {
        try {
          const answer = await next(input);
          capture.asked({ update: input.name, answer });
          return answer;
        } catch (error) {
          capture.asked({ update: input.name, failure: (error as { type?: string }).type ?? 'unknown' });
          throw error;
        }
      },
    },
  ],
  outbound: [
    {
      scheduleActivity(input, next) {
        capture.asked({ activity: input.activityType, args: input.args, options: input.options }, input.seq);
        return next(input);
      },
      scheduleLocalActivity(input, next) {
        capture.asked({ localActivity: input.activityType, args: input.args, options: input.options }, input.seq);
        return next(input);
      },
      startTimer(input, next) {
        capture.asked({ timer: input.durationMs });
        return next(input);
      },
      continueAsNew(input, next) {
        capture.asked({ continueAsNew: input.args });
        return next(input);
      },
    },
  ],
});
