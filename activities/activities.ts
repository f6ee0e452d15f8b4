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
    streamStep: (args) => makeStep(context, args),
    runTool: (args) => runToolCall(context, args),
    settleRun: (args) => settle(context, args),
  };
}
