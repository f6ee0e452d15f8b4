import { ApplicationFailure, log, setHandler, uuid4, workflowInfo } from '@temporalio/workflow';
import type { Actor, AppliedCommand, CarriedOut, CommandRequest, SessionMark, Wake } from '../domain/activities.ts';
import {
  abortedRun,
  answeredChildren,
  answeredRuns,
  argumentFault,
  COMMAND_NAMES,
  type CommandArgs,
  commandEntry,
  endedChildren,
  type CommandName,
  ID_EXPECTED,
  ID_PATTERN,
  isStopMeant,
  type OutcomeKind,
  outcomeMembers,
  SIGNALS,
  type StopMeant,
} from '../domain/command-table.ts';
import { localActivities } from './activities.ts';
import { tellAnsweredChildren, tellEndedChildren } from './children.ts';
import { signals, snapshotQuery, statusQuery, submitUpdate, updateOf, wakeSignal } from './definitions.ts';
import { displaySession, displayDetails } from './display.ts';
import type { WorkflowState } from './workflow-state.ts';

type Given = Readonly<Record<string, unknown>>;

/** Registers all signals, updates and queries. Commands by signal and by update run the same code. */
export function registerHandlers(session: WorkflowState): void {
  const submit = async ({ mark, aborted_run: aborted, ended_children: ended, ...run }: Wake) => {
    await session.sequencer.next('wake');
    session.resume();
    if (mark !== undefined) session.follow(mark);
    if (aborted !== undefined) session.abort(aborted);
    if (ended !== undefined) tellEndedChildren(ended);
    session.enqueue(run);
    // What it waits for may have come while nobody could tell it.
    session.poke(run.run_seq);
    session.touch();
    displayDetails(session);
    return { position: session.position(run.run_seq) };
  };
  setHandler(submitUpdate, submit, { validator: wakeValidator });
  for (const name of COMMAND_NAMES) {
    const update = async (args: CommandArgs & Given) => {
      const request = { command: name, ...argumentsOf(name, args) };
      const { command_id: id, meant } = args;
      return answer(await carryOut(session, { actor: 'user', name, id, request, meant }));
    };
    setHandler(updateOf(name), update, { validator: (args: CommandArgs & Given) => validate(name, args) });
  }
  for (const name of SIGNALS) setHandler(signals[name], (given) => signalled(session, name, given ?? {}));
  setHandler(wakeSignal, async (wake) => void (await submit(wake)));
  setHandler(statusQuery, () => session.status());
  setHandler(snapshotQuery, () => session.snapshot(workflowInfo().historyLength));
}

/** A signal has no answer: refusals are recorded in the event log, and a failure must not fail the workflow. */
async function signalled(session: WorkflowState, name: (typeof SIGNALS)[number], given: Given): Promise<void> {
  const id = `signal-${uuid4()}`;
  const request = signalRequest(name, given);
  const outcome = await carryOut(session, { actor: 'operator', name, id, request }).catch((): AppliedCommand => ({
    ok: false,
    code: 'Internal',
  }));
  if (!outcome.ok) log.warn('a signal was refused', { command: name, code: outcome.code });
}

function signalRequest(name: string, given: Given): CommandRequest {
  const command = COMMAND_NAMES.find((each) => each === name);
  if (command === undefined) return { command: 'refuse', name, code: 'NotSupported' };
  if (faultOf(command, given) !== undefined) return { command: 'refuse', name, code: 'BadRequest' };
  return { command, ...argumentsOf(command, given, true) };
}

/** The request's arguments. Reasons are taken from raw signals only; the client has stored those of updates, and metadata. */
function argumentsOf(name: CommandName, given: Given, withReason = false): Given {
  const entries = Object.entries(commandEntry(name).arguments);
  return Object.fromEntries(
    entries.flatMap(([argument, kind]) => {
      const value = given[argument];
      if (kind === 'flag?') return [[argument, value === true]];
      if (kind === 'true by default?') return [[argument, value !== false]];
      if (kind === 'reason?') return withReason && typeof value === 'string' ? [[argument, value]] : [];
      if (kind === 'metadata?' || value === undefined || value === null) return [];
      return [[argument, value]];
    }),
  );
}

function faultOf(name: CommandName, given: Given): string | undefined {
  for (const [argument, kind] of Object.entries(commandEntry(name).arguments)) {
    const fault = argumentFault(kind, given[argument]);
    if (fault !== undefined) return `${argument}: expected ${fault}`;
  }
  return undefined;
}

/** Refuses malformed input only: Postgres decides whether the command is legal now. */
function validate(name: CommandName, args: CommandArgs & Given): void {
  const isId = typeof args?.command_id === 'string' && ID_PATTERN.test(args.command_id);
  const fault = isId ? faultOf(name, args) : `command_id: expected ${ID_EXPECTED}`;
  if (fault !== undefined) throw ApplicationFailure.nonRetryable(fault, 'BadRequest');
  if (args.meant !== undefined && !isStopMeant(args.meant ?? {})) {
    throw ApplicationFailure.nonRetryable(
      'meant: expected run_seq, a number or null, and event_seq, a number',
      'BadRequest',
    );
  }
}

function wakeValidator(run: Wake): void {
  if (!Number.isSafeInteger(run?.run_seq) || typeof run.message_id !== 'string') {
    throw ApplicationFailure.nonRetryable('run_seq: expected a number; message_id: expected a string', 'BadRequest');
  }
}

interface Command {
  actor: Actor;
  name: string;
  id: string;
  request: CommandRequest;
  meant?: StopMeant | undefined;
}

/** Executes a command in Postgres and applies its outcome to the workflow's state. */
async function carryOut(session: WorkflowState, { actor, name, id, request, meant }: Command): Promise<AppliedCommand> {
  await session.sequencer.next('command');
  session.touch();
  return session.sequencer.exclusively(async () => {
    const command = { session_id: session.sessionId, actor, command_id: `${name}:${id}`, request };
    const args = meant === undefined ? command : { ...command, meant };
    const { closed, ...outcome } = await localActivities.applyCommand(args);
    if (outcome.ok && request.command !== 'refuse') applyOutcome(session, request.command, outcome);
    const closes = outcome.ok && request.command !== 'refuse' && commandEntry(request.command).closes === true;
    if (closed ?? closes) endUnlessQueued(session);
    if (outcome.ok || closed === true) displaySession(session);
    return outcome;
  });
}

function applyOutcome(session: WorkflowState, name: CommandName, outcome: CarriedOut): void {
  session.follow(outcome);
  const run = abortedRun(name, outcome);
  if (run !== null) session.abort(run);
  tellEndedChildren(endedChildren(name, outcome));
  for (const run_seq of outcomeMembers(name, outcome, 'queued run')) {
    session.resume();
    session.enqueue({ run_seq: run_seq as number, message_id: String(outcome['message_id']), model: null });
  }
  for (const answered of answeredRuns(name, outcome)) session.poke(answered);
  tellAnsweredChildren(answeredChildren(name, outcome));
  const members = (...kinds: OutcomeKind[]) =>
    new Set(kinds.flatMap((kind) => outcomeMembers(name, outcome, kind).flat()));
  const [dequeued, dropped] = [members('dequeued run', 'dequeued runs'), members('dropped messages')];
  session.queue = session.queue.filter((each) => !dequeued.has(each.run_seq) && !dropped.has(each.message_id));
}

/** Ends the session, which is closed in Postgres, unless a message is queued that was accepted later. */
function endUnlessQueued(session: WorkflowState): void {
  session.closed = session.queue.every((each) => each.abort);
  session.ending = session.closed;
}

/** The result of an update. @throws {ApplicationFailure} with the code of a refusal */
function answer(outcome: AppliedCommand): SessionMark {
  if (outcome.ok) {
    const { ok: _ok, ...rest } = outcome;
    return rest;
  }
  throw ApplicationFailure.create({
    message: outcome.code,
    type: outcome.code,
    nonRetryable: true,
    details: [outcome],
  });
}
