import { setTimeout as delay } from 'node:timers/promises';
import { ApplicationFailure } from '@temporalio/activity';
import { compactionOf } from '../agent/compaction-settings.ts';
import { limitsOf } from '../agent/define.ts';
import {
  abortedRun,
  answeredChildren,
  answeredRuns,
  type CommandName,
  endedChildren,
  outcomeMembers,
} from '../domain/command-table.ts';
import type {
  AppliedCommand,
  ApplyArgs,
  Delivered,
  LoadArgs,
  LoadedSession,
  Refusal,
  RunOutcome,
  SettleArgs,
} from '../domain/commands.ts';
import { invalidTransitionMessage } from '../domain/errors.ts';
import { applyCommand } from '../store/commands.ts';
import { readAgent } from '../store/compaction.ts';
import { loadSession, settleRun } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';
import { type Bus, publishEnded } from '../bus/bus.ts';
import { restoreFiles } from './snapshots.ts';
import { deliverResult } from './tasks.ts';

/** How long a rewind waits for its files. */
const RESTORE_MS = 2_000;

/** Loads a session for its workflow, under a new epoch. */
export async function load(
  context: ActivityContext,
  args: LoadArgs,
  { runId }: { runId: string },
): Promise<LoadedSession> {
  const isCurrent = async () => (await context.currentRun(args.session_id)) === runId;
  const loaded = await loadSession(context.db, args, runId, isCurrent);
  if (loaded === undefined) throw ApplicationFailure.nonRetryable('SessionNotFound', 'SessionNotFound');
  const agent = context.agents.all().find((each) => each.id === loaded.agent) ?? context.agents.default;
  return {
    ...loaded,
    user_id: context.showUser(loaded.user_id),
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
  const { outcome, above } = await applyCommand(context.db, args, await settingsOf(context, args));
  if (!outcome.ok) {
    logRefusal(context, args, outcome);
    return outcome;
  }
  const { command: name } = args.request;
  if (name !== 'refuse') publishOutcome(context.bus, args.session_id, name, outcome);
  for (const session of [args.session_id, ...above]) context.bus.publish({ session, kind: 'status' });
  // A slow hook goes on while the answer is given; the next turn waits for it.
  if (name === 'rewind' || name === 'unrewind') {
    const restoring = restoreFiles(context, args.session_id).catch((err: unknown) => {
      context.log.warn(
        { err, session: args.session_id },
        'the files of a rewind are restored when the next turn begins',
      );
    });
    await Promise.race([restoring, delay(RESTORE_MS, undefined, { ref: false })]);
  }
  const opened = name === 'refuse' ? [] : outcomeMembers(name, outcome, 'session');
  for (const session of opened) context.bus.publish({ session: String(session), kind: 'status' });
  return outcome;
}

/** Tells workers which runs a command has ended, and which go on. */
function publishOutcome(bus: Bus, session: string, name: CommandName, outcome: object): void {
  const run = abortedRun(name, outcome);
  if (run !== null) bus.publish({ session, run, kind: 'abort' });
  publishEnded(bus, endedChildren(name, outcome));
  for (const answered of answeredRuns(name, outcome)) bus.publish({ session, run: answered, kind: 'answered' });
  for (const { session_id: child, run_seq } of answeredChildren(name, outcome)) {
    bus.publish({ session: child, run: run_seq, kind: 'answered' });
    bus.publish({ session: child, kind: 'status' });
  }
}

/** What its agent's settings say about a command that compacts or prunes. */
async function settingsOf(context: ActivityContext, { request, session_id }: ApplyArgs): Promise<object> {
  if (request.command !== 'compact' && request.command !== 'prune') return {};
  const id = await readAgent(context.db, session_id);
  const agent = context.agents.all().find((each) => each.id === id) ?? context.agents.default;
  const { tail_turns, prune_min_tokens: min_tokens, prune_keep: keep } = compactionOf(agent);
  const spared = agent.tools.flatMap((tool) => (tool.protected === true ? [tool.name] : []));
  return request.command === 'compact' ? { tail_turns } : { min_tokens, keep, protected: spared };
}

/** Whether a child is over, and which session its workflow is to tell. */
export async function deliver(context: ActivityContext, sessionId: string): Promise<Delivered> {
  const told = await deliverResult(context, sessionId);
  if (told.kind !== 'tell') return { over: told.kind !== 'early', news: null };
  const { session_id, run_seq, message_id, model } = told;
  return { over: true, news: { session_id, run_seq, message_id, model } };
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
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'stream', over: true });
  context.bus.publish({ session: args.session_id, kind: 'status' });
  // A settlement without a fence is never refused as lost.
  const ended = outcome as RunOutcome;
  publishEnded(context.bus, ended.children ?? []);
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
