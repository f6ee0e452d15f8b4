import { ApplicationFailure, Context } from '@temporalio/activity';
import type { SessionActivities } from '../domain/activities.ts';
import type { ActivityContext } from './activity-context.ts';
import { applyCommandActivity } from './apply-command.ts';
import { compact } from './compact.ts';
import { deliverTaskActivity } from './deliver-task.ts';
import type { HeadStarts } from './head-starts/head-starts.ts';
import { loadSessionActivity } from './load-session.ts';
import { settleRunActivity } from './settle-run.ts';

/** The activities of session workflows. */
export function sessionActivities(context: ActivityContext, headStarts: HeadStarts): SessionActivities {
  return {
    loadSession: (args) => loadSessionActivity(context, args, execution()),
    applyCommand: (args) => applyCommandActivity(context, args),
    streamStep: (args) => headStarts.step({ ...args, session_id: execution().workflowId }),
    runTool: (args) => headStarts.tool({ ...args, session_id: execution().workflowId }),
    compact: (args) => compact(context, { ...args, session_id: execution().workflowId }, headStarts.graceOver),
    settleRun: (args) => settleRunActivity(context, args),
    deliverTask: (args) => deliverTaskActivity(context, args.session_id),
  };
}

/** The workflow execution that the activity belongs to; a session's workflow has the session's id. */
function execution(): { workflowId: string; runId: string } {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined) throw ApplicationFailure.nonRetryable('Internal', 'Internal');
  return workflowExecution;
}
