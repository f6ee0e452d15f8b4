import { ApplicationFailure, log, setHandler, uuid4, workflowInfo } from '@temporalio/workflow';
import type {
  AbortOutcome,
  Actor,
  CancelOutcome,
  CloseOutcome,
  CommandArgs,
  CommandOutcome,
  CommandRequest,
  Refusal,
  SessionMark,
  WakeArgs,
} from '../domain/commands.ts';
import * as names from './definitions.ts';
import { show, showDetails } from './display.ts';
import type { SessionState } from './state.ts';

type Carried = { ok: true } & SessionMark & Record<string, unknown>;

/** Registers every signal, update and query of a session. Signals and updates share one way to the row. */
export function registerHandlers(session: SessionState): void {
  const submit = async (run: WakeArgs) => {
    await session.sequencer.next('wake');
    session.wakes += 1;
    session.paused = false;
    session.lastError = null;
    session.enqueue(run);
    session.touch();
    showDetails(session);
    return { position: session.position(run.run_seq) };
  };
  setHandler(names.submitUpdate, submit, { validator: wakeValidator });
  registerUpdates(session);
  registerSignals(session);
  setHandler(names.statusQuery, () => session.status());
  setHandler(names.snapshotQuery, () => session.snapshot(workflowInfo().historyLength));
}

function registerUpdates(session: SessionState): void {
  const update =
    <Outcome extends CommandOutcome>(request: CommandRequest) =>
    async (args: CommandArgs): Promise<Outcome> =>
      answer(await carryOut(session, 'user', args.command_id, request)) as Outcome;
  const options = { validator };
  setHandler(names.publishUpdate, update({ command: 'publish' }), options);
  setHandler(names.revertUpdate, update({ command: 'revert' }), options);
  setHandler(names.cancelUpdate, update<CancelOutcome>({ command: 'cancel' }), options);
  setHandler(names.abortUpdate, update<AbortOutcome>({ command: 'abort' }), options);
  setHandler(
    names.openExistingUpdate,
    (args) => update({ command: 'openExisting', project_id: args.project_id })(args),
    options,
  );
  setHandler(
    names.cancelQueuedUpdate,
    (args) => update({ command: 'cancelQueued', message_id: args.message_id })(args),
    options,
  );
  setHandler(
    names.closeUpdate,
    (args) => update<CloseOutcome>({ command: 'close', abort: args.abort === true })(args),
    options,
  );
}

function registerSignals(session: SessionState): void {
  const signal = async (request: CommandRequest) => {
    // Nobody waits for a signal's answer: a failure must not end the workflow.
    const id = `signal-${uuid4()}`;
    const outcome = await carryOut(session, 'operator', id, request).catch((): Refusal => ({
      ok: false,
      code: 'Internal',
    }));
    if (!outcome.ok) log.warn('a signal was refused', { command: request.command, code: outcome.code });
  };
  setHandler(names.cancelSignal, (args) => {
    const reason = args?.reason;
    return signal({ command: 'cancel', ...(typeof reason === 'string' ? { reason } : {}) });
  });
  setHandler(names.publishSignal, () => signal({ command: 'publish' }));
  setHandler(names.rewindSignal, () => signal({ command: 'refuse', name: 'rewind', code: 'NotSupported' }));
}

/** Refuses malformed input only: whether a command fits is for the row to judge. */
function validator(args: CommandArgs): void {
  if (typeof args?.command_id !== 'string' || !/^[A-Za-z0-9_-]{1,64}$/.test(args.command_id)) {
    throw ApplicationFailure.nonRetryable('command_id: expected 1 to 64 of A-Z, a-z, 0-9, _ and -', 'BadRequest');
  }
}

function wakeValidator(run: WakeArgs): void {
  if (!Number.isSafeInteger(run?.run_seq) || typeof run.message_id !== 'string') {
    throw ApplicationFailure.nonRetryable('run_seq: expected a number; message_id: expected a string', 'BadRequest');
  }
}

/** Lets the row carry out a command, and follows its answer. */
async function carryOut(
  session: SessionState,
  actor: Actor,
  commandId: string,
  request: CommandRequest,
): Promise<Carried | Refusal> {
  await session.sequencer.next('command');
  session.touch();
  const name = request.command === 'refuse' ? request.name : request.command;
  return session.sequencer.exclusively(async () => {
    const outcome = await session.local.applyCommand({
      session_id: session.sessionId,
      actor,
      command_id: `${name}:${commandId}`,
      request,
    });
    if (outcome.ok) carriedOut(session, request, outcome);
    return outcome;
  });
}

function carriedOut(session: SessionState, request: CommandRequest, outcome: Carried): void {
  session.follow(outcome);
  const run = outcome['run_seq'];
  if (request.command === 'cancelQueued' && typeof run === 'number') session.dequeue(run);
  else if (typeof run === 'number') session.abort(run);
  if (request.command === 'close') {
    const dropped = new Set(outcome['dropped'] as string[]);
    session.queue = session.queue.filter((each) => !dropped.has(each.message_id));
    // A message that was accepted behind the close has opened the session again; so has what came after a close of which
    // this is the receipt.
    session.closed = outcome['closed'] !== false && session.queue.every((each) => each.abort);
    session.ending = session.closed;
  }
  show(session);
}

/** The row's outcome as an update answers it; its shape is the command's, as the row's function promises. */
function answer(outcome: Carried | Refusal): SessionMark {
  if (outcome.ok) {
    const { ok: _ok, closed: _closed, ...rest } = outcome;
    return rest;
  }
  throw ApplicationFailure.create({
    message: outcome.code,
    type: outcome.code,
    nonRetryable: true,
    details: [outcome],
  });
}
