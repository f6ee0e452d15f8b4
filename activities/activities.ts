import { ApplicationFailure, Context } from '@temporalio/activity';
import type { SessionActivities } from '../domain/commands.ts';
import type { ActivityContext } from './context.ts';
import { command, load, settle } from './session.ts';
import { makeStep } from './step.ts';
import { runToolCall } from './tool.ts';

/** The activities of session workflows. */
export function sessionActivities(context: ActivityContext): SessionActivities {
  return {
    loadSession: (args) => load(context, args, execution().runId),
    applyCommand: (args) => command(context, args),
    streamStep: (args) => makeStep(context, { ...args, session_id: execution().workflowId }),
    runTool: (args) => runToolCall(context, { ...args, session_id: execution().workflowId }),
    settleRun: (args) => settle(context, args),
  };
}

/** The workflow execution that the activity belongs to; a session's workflow has the session's id. */
function execution(): { workflowId: string; runId: string } {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined) throw ApplicationFailure.nonRetryable('Internal', 'Internal');
  return workflowExecution;
}
