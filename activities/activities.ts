import { ApplicationFailure, Context } from '@temporalio/activity';
import type { SessionActivities } from '../domain/commands.ts';
import { compact } from './compact.ts';
import type { ActivityContext } from './context.ts';
import type { HeadStarts } from './head-starts.ts';
import { command, deliver, load, settle } from './session.ts';

/** The activities of session workflows. */
export function sessionActivities(context: ActivityContext, headStarts: HeadStarts): SessionActivities {
  return {
    loadSession: (args) => load(context, args, execution()),
    applyCommand: (args) => command(context, args),
    streamStep: (args) => headStarts.step({ ...args, session_id: execution().workflowId }),
    runTool: (args) => headStarts.tool({ ...args, session_id: execution().workflowId }),
    compact: (args) => compact(context, { ...args, session_id: execution().workflowId }, headStarts.graceOver),
    settleRun: (args) => settle(context, args),
    deliverTask: (args) => deliver(context, args.session_id),
  };
}

/** The workflow execution that the activity belongs to; a session's workflow has the session's id. */
function execution(): { workflowId: string; runId: string } {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined) throw ApplicationFailure.nonRetryable('Internal', 'Internal');
  return workflowExecution;
}
