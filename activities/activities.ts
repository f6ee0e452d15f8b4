import { ApplicationFailure, Context } from '@temporalio/activity';
import type { SessionActivities } from '../domain/commands.ts';
import type { ActivityContext } from './context.ts';
import { command, load, settle } from './session.ts';
import { makeStep } from './step.ts';
import { runToolCall } from './tool.ts';

/** The activities of a session, over what the worker made. */
export function sessionActivities(context: ActivityContext): SessionActivities {
  return {
    loadSession: (sessionId) => load(context, sessionId),
    applyCommand: (args) => command(context, args),
    streamStep: (args) => makeStep(context, { ...args, session_id: currentSession() }),
    runTool: (args) => runToolCall(context, { ...args, session_id: currentSession() }),
    settleRun: (args) => settle(context, args),
  };
}

/** A session's workflow has its id. */
function currentSession(): string {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined) throw ApplicationFailure.nonRetryable('Internal', 'Internal');
  return workflowExecution.workflowId;
}
