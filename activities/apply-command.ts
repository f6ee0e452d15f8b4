import { setTimeout as delay } from 'node:timers/promises';
import { type Bus, publishEnded, userMark } from '../bus/bus.ts';
import type { AppliedCommand, ApplyArgs, Refusal } from '../domain/activities.ts';
import {
  abortedRun,
  answeredChildren,
  answeredRuns,
  type CommandName,
  endedChildren,
  outcomeMembers,
} from '../domain/command-table.ts';
import { invalidTransitionMessage } from '../domain/errors.ts';
import { applyCommand } from '../store/commands.ts';
import { readOwner } from '../store/sessions.ts';
import type { ActivityContext } from './activity-context.ts';
import { restoreFiles } from './recording/snapshots.ts';
import { judgedByHand } from './window/by-hand.ts';
import { countWindow } from './window/count-window.ts';

/** How long a rewind waits for its files. */
const RESTORE_MS = 2_000;

/** Applies a command to the rows and publishes it on the bus. An aborted run is published at once. */
export async function applyCommandActivity(context: ActivityContext, args: ApplyArgs): Promise<AppliedCommand> {
  const { session_id: sessionId, request } = args;
  const { command: name } = request;
  const judged = name === 'compact' || name === 'prune' ? await judgedByHand(context, name, sessionId) : {};
  const { outcome, above } = await applyCommand(context.db, args, judged);
  if (!outcome.ok) {
    logRefusal(context, args, outcome);
    return outcome;
  }
  if (name !== 'refuse') publishOutcome(context.bus, sessionId, name, outcome);
  for (const session of [sessionId, ...above]) context.bus.publish({ session, kind: 'status' });
  const opened = name === 'refuse' ? [] : outcomeMembers(name, outcome, 'session').map(String);
  await Promise.all(workAfter(context, args, opened));
  for (const session of opened) context.bus.publish({ session, kind: 'status' });
  return outcome;
}

/** What follows the change of the rows. None of it throws; what is slow goes on while the answer is given. */
function workAfter(context: ActivityContext, { request, session_id }: ApplyArgs, opened: readonly string[]) {
  if (request.command === 'answer' && request.decision === 'always') void tellProject(context, session_id);
  if (request.command === 'branch') return opened.map((session) => countWindow(context, session));
  if (request.command !== 'rewind' && request.command !== 'unrewind') return [];
  const restoring = restoreFiles(context, session_id).catch((err: unknown) => {
    context.log.warn({ err, session: session_id }, 'the files of a rewind are restored when the next turn begins');
  });
  // The next turn waits for the files.
  const restored = Promise.race([restoring, delay(RESTORE_MS, undefined, { ref: false })]);
  return [restored, countWindow(context, session_id)];
}

/** Other sessions of the project, which are the user's, too, have a new rule. Nothing waits for what they show. */
async function tellProject({ db, bus, log }: ActivityContext, session: string): Promise<void> {
  try {
    const user = await readOwner(db, session);
    if (user !== undefined) bus.publish({ session, kind: 'status', user: userMark(user) });
  } catch (err) {
    log.warn({ err, session }, 'the sessions of the project are not told of a new rule');
  }
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
