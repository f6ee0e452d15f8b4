import { ApplicationFailure } from '@temporalio/activity';
import { limitsOf } from '../agent/define.ts';
import { abortedRun } from '../domain/command-table.ts';
import type {
  AppliedCommand,
  ApplyArgs,
  LoadArgs,
  LoadedSession,
  Refusal,
  RunOutcome,
  SettleArgs,
} from '../domain/commands.ts';
import { invalidTransitionMessage } from '../domain/errors.ts';
import { applyCommand } from '../store/commands.ts';
import { loadSession, settleRun } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';

/** Loads a session for its workflow, under a new epoch. */
export async function load(context: ActivityContext, args: LoadArgs, execution: string): Promise<LoadedSession> {
  const loaded = await loadSession(context.db, args, execution);
  if (loaded === undefined) throw ApplicationFailure.nonRetryable('SessionNotFound', 'SessionNotFound');
  const agent = context.agents.list().find((each) => each.id === loaded.agent) ?? context.agents.default;
  return {
    ...loaded,
    settings: {
      idle_close_ms: context.settings.idleCloseMs,
      continue_as_new_events: context.settings.continueAsNewEvents,
      heartbeat_timeout_ms: context.settings.heartbeatTimeoutMs,
      wall_clock_ms: limitsOf(agent).wall_clock_ms,
      default_model: agent.model ?? context.models.defaultRef,
    },
  };
}

/** Applies a command to the rows and publishes it on the bus. An aborted run is published at once. */
export async function command(context: ActivityContext, args: ApplyArgs): Promise<AppliedCommand> {
  const outcome = await applyCommand(context.db, args);
  if (!outcome.ok) {
    logRefusal(context, args, outcome);
    return outcome;
  }
  const { command: name } = args.request;
  const run = name === 'refuse' ? null : abortedRun(name, outcome);
  if (run !== null) context.bus.publish({ session: args.session_id, run, kind: 'abort' });
  context.bus.publish({ session: args.session_id, kind: 'status' });
  return outcome;
}

/** Ends a run for its workflow: aborted, or as an internal error. */
export async function settle(context: ActivityContext, args: SettleArgs): Promise<RunOutcome> {
  const outcome = await settleRun(
    context.db,
    { sessionId: args.session_id, runSeq: args.run_seq },
    args.end === 'aborted'
      ? { state: 'aborted' }
      : {
          state: 'error',
          code: 'Internal',
          message: 'An internal error occurred: send a new message, or see the worker’s log.',
        },
  );
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'stream' });
  context.bus.publish({ session: args.session_id, kind: 'status' });
  // A settlement without a fence is never refused as lost.
  const ended = outcome as RunOutcome;
  context.metrics.turnEnded(ended.state, ended.code);
  return ended;
}

function logRefusal(context: ActivityContext, args: ApplyArgs, refusal: Refusal): void {
  const name = args.request.command === 'refuse' ? args.request.name : args.request.command;
  context.metrics.refused(name, refusal.code);
  const fields = { session: args.session_id, actor: args.actor, command: name, code: refusal.code };
  const { phase, event } = refusal;
  if (phase && event) {
    context.log.error({ ...fields, phase, event }, `refused: ${invalidTransitionMessage(phase, event)}`);
  } else {
    context.log.warn(fields, 'refused');
  }
}
