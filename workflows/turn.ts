import { allHandlersFinished, CancellationScope, isCancellation, log, sleep, workflowInfo } from '@temporalio/workflow';
import type {
  CompactOutcome,
  LoadedRun,
  NotBegun,
  StepOutcome,
  ToolCallRef,
  ToolOutcome,
} from '../domain/activities.ts';
import { type StepNext, turnLoop } from '../domain/turn-loop.ts';
import { localActivities, streaming } from './activities.ts';
import { startChild, tellChildrenOfRun } from './children.ts';
import { displaySession } from './display.ts';
import { resume } from './sequencer.ts';
import { type CurrentRun, LONGEST_HISTORY, type WorkflowState } from './workflow-state.ts';

/** The wait after a second lost claim in a row, in milliseconds. It doubles with each further one. */
const LOST_MS = 100;
const MAX_LOST_MS = 5_000;

/** How a turn ended: the run is over, or continues later (after a reload, or in the workflow's next execution). */
type TurnEnd = { kind: 'over'; state: string; code: string | null } | { kind: 'again' };

/**
 * Executes one run: steps until there are no tool calls, tools in the model's order. All progress is in Postgres, so
 * another execution of the workflow can continue the run at any point.
 */
export async function executeTurn(session: WorkflowState, queued: LoadedRun): Promise<void> {
  const run = session.begin(queued);
  let end: TurnEnd;
  try {
    end = await CancellationScope.cancellable(async () => {
      run.scope = CancellationScope.current();
      if (run.abort) return settle(session, run, 'aborted');
      return steps(session, run);
    });
  } catch (error) {
    // After an abort any error counts as the abort: if the worker is dead, it is a heartbeat time-out.
    if (!run.abort && !isCancellation(error)) log.error('a turn failed', { run: run.run_seq });
    end = await settle(session, run, run.abort || isCancellation(error) ? 'aborted' : 'error');
  }
  if (end.kind === 'over') {
    session.ended(run);
    if (end.state === 'error') {
      session.pause(run.wakes);
      session.lastError = end.code;
    }
  } else {
    session.current = null;
  }
}

function steps(session: WorkflowState, run: CurrentRun): Promise<TurnEnd> {
  return turnLoop<ToolCallRef, Retry, TurnEnd>(
    { step: run.step, calls: run.open_calls },
    {
      step: (attempt) => step(session, run, attempt),
      tool: async (call) => {
        const stop = await tool(session, run, call);
        return stop === undefined || isEnd(stop) ? stop : notBegun(session, run, stop);
      },
      wait: async ({ delay_ms }) => {
        await resume(session.sequencer, 'turn', sleep(delay_ms));
        run.retry = null;
      },
    },
  );
}

function isEnd(stop: NotBegun | TurnEnd): stop is TurnEnd {
  return stop.kind === 'over' || stop.kind === 'again';
}

type Retry = Extract<StepOutcome, { kind: 'retry' }>;

/** One attempt at a step. */
async function step(
  session: WorkflowState,
  run: CurrentRun,
  attempt: number,
): Promise<StepNext<ToolCallRef, Retry, TurnEnd>> {
  if (attempt === 1) run.waited = 0;
  const reported = reportedStep(run);
  // The same length on replay, as in noteHistory: whichever way it goes on, a command follows in this workflow task.
  const isCut = attempt === 1 && run.step > run.first_step && workflowInfo().historyLength > LONGEST_HISTORY;
  if (reported === undefined && isCut) return { kind: 'end', end: goOnLater(session, run, 'running') };
  let outcome = reported ?? (await streamStep(session, run, attempt, 'ask'));
  if (outcome.kind === 'compact') {
    const compacted = await compact(session, run, outcome);
    if (compacted.kind !== 'compacted') return { kind: 'end', end: await notBegun(session, run, compacted) };
    outcome = await streamStep(session, run, attempt, 'done');
  }
  // A step asks once.
  if (outcome.kind === 'compact') throw new Error('a step has asked for a compaction twice');
  if (outcome.kind === 'retry') {
    if (outcome.code === 'AttachmentsUnavailable') run.waited += 1;
    run.retry = { attempt, reason: outcome.reason, delay_ms: outcome.delay_ms };
    displaySession(session);
    return { kind: 'retry', retry: outcome };
  }
  if (outcome.kind !== 'settled') return { kind: 'end', end: await notBegun(session, run, outcome) };
  tellChildrenOfRun(outcome);
  const { state, code, tool_calls: calls } = outcome;
  if (state !== 'running') return { kind: 'end', end: { kind: 'over', state, code } };
  run.last_model = outcome.model;
  run.tokens += outcome.tokens;
  run.step += 1;
  run.open_calls = calls;
  return { kind: 'settled', calls };
}

/** The activity that compacts the conversation before a step. Shows that first. */
async function compact(
  session: WorkflowState,
  run: CurrentRun,
  { reason, tokens }: Extract<StepOutcome, { kind: 'compact' }>,
): Promise<CompactOutcome> {
  run.compacting = true;
  displaySession(session);
  session.sequencer.noteHistory();
  const work = streaming(session.settings, `compact · ${reason}`).compact({
    run_seq: run.run_seq,
    epoch: session.epoch,
    ordinal: session.nextOrdinal(),
    started_at: run.started_at,
    reason,
    ...(tokens !== undefined && { tokens }),
  });
  const outcome = await resume(session.sequencer, 'turn', work);
  run.compacting = false;
  return outcome;
}

/** The activity of a step. Shows the step first. */
async function streamStep(
  session: WorkflowState,
  run: CurrentRun,
  attempt: number,
  compaction: 'ask' | 'done',
): Promise<StepOutcome> {
  const model = run.last_model ?? run.model ?? session.settings.default_model;
  displaySession(session);
  session.sequencer.noteHistory();
  run.looked = run.pokes;
  const work = streaming(session.settings, `step ${run.step + 1} · ${model}`).streamStep({
    run_seq: run.run_seq,
    step: run.step,
    epoch: session.epoch,
    ordinal: session.nextOrdinal(),
    attempt,
    ...(run.waited > 0 && { waited: run.waited }),
    started_at: run.started_at,
    compaction,
  });
  return report(session, run, await resume(session.sequencer, 'turn', work));
}

/** Keeps the outcomes that came with an activity's own, for the steps and tool calls that follow. */
function report<Outcome extends StepOutcome | ToolOutcome>(
  session: WorkflowState,
  run: CurrentRun,
  outcome: Outcome,
): Outcome {
  if (outcome.kind === 'settled') session.losses = 0;
  const also = outcome.kind === 'settled' ? (outcome.also ?? []) : [];
  run.reported = [...also];
  session.skipOrdinals(also.length);
  return outcome;
}

function reportedStep(run: CurrentRun): StepOutcome | undefined {
  const next = run.reported.shift();
  return next && 'tool_calls' in next ? next : undefined;
}

function reportedTool(run: CurrentRun): ToolOutcome | undefined {
  const next = run.reported.shift();
  return next && 'event_seq' in next ? next : undefined;
}

/** One tool call. Returns how the turn ends, or why it did not begin, if so. */
async function tool(
  session: WorkflowState,
  run: CurrentRun,
  call: ToolCallRef,
): Promise<NotBegun | TurnEnd | undefined> {
  // Loaded while it waited, it has not asked in this execution.
  let outcome: ToolOutcome =
    run.state === 'waiting'
      ? { kind: 'waiting', ...session.mark, wait_ms: run.wait_ms ?? null }
      : (reportedTool(run) ?? (await runTool(session, run, call)));
  while (outcome.kind === 'waiting') {
    session.follow(outcome);
    if (!(await untilPoked(session, run, outcome.wait_ms))) return notAnswered(session, run);
    run.state = 'running';
    outcome = await runTool(session, run, call);
  }
  if (outcome.kind === 'begun') {
    // Show the new phase before the tool runs, which may take an hour.
    session.follow(outcome);
    outcome = await runTool(session, run, { ...call, begun: true });
  }
  if ('child' in outcome && outcome.child) startChild(session, outcome.child);
  // No activity runs meanwhile. What was told since the call was made may be what it waits for.
  while (outcome.kind === 'task') {
    const seen = run.looked;
    const isOver = () => run.abort || session.cancelled || (allHandlersFinished() && session.isLong());
    await session.sequencer.until('turn', () => run.pokes !== seen || isOver());
    if (run.abort || session.cancelled) return { kind: 'abort' };
    if (run.pokes === seen) return goOnLater(session, run, 'running');
    outcome = await runTool(session, run, call);
  }
  run.tool = null;
  if (outcome.kind !== 'settled') return outcome as NotBegun;
  run.open_calls = run.open_calls.filter(({ tool_call_id }) => tool_call_id !== call.tool_call_id);
  session.follow(outcome);
  displaySession(session);
  return undefined;
}

/** A turn that stops waiting before its call was answered: it was aborted, or goes on waiting in the next execution. */
function notAnswered(session: WorkflowState, run: CurrentRun): NotBegun | TurnEnd {
  return run.abort || session.cancelled ? { kind: 'abort' } : goOnLater(session, run, 'waiting');
}

/** The turn goes on in the next execution. */
function goOnLater(session: WorkflowState, run: CurrentRun, state: 'running' | 'waiting'): TurnEnd {
  session.isCut = true;
  session.queue.unshift({ ...run, state });
  return { kind: 'again' };
}

/**
 * Waits until the call is to be looked at again: it was answered, or its time is over. Holds no activity, and without a time limit no
 * timer. False: the turn was aborted, or its history has become long.
 */
async function untilPoked(session: WorkflowState, run: CurrentRun, ms: number | null): Promise<boolean> {
  let isLate = false;
  const timer = new CancellationScope();
  session.wait(run, true);
  displaySession(session);
  if (ms !== null) {
    const late = () => (isLate = true);
    timer.run(() => sleep(ms, { summary: 'waits for the page' })).then(late, () => {});
  }
  const isReady = () => isLate || run.pokes !== run.looked;
  const isOver = () => run.abort || session.cancelled || (allHandlersFinished() && session.isLong());
  await session.sequencer.until('turn', () => isReady() || isOver());
  timer.cancel();
  session.wait(run, false);
  return isReady() && !run.abort && !session.cancelled;
}

/** The activity of a tool call. Shows the call first. */
async function runTool(
  session: WorkflowState,
  run: CurrentRun,
  call: ToolCallRef & { begun?: true },
): Promise<ToolOutcome> {
  run.tool = { tool_call_id: call.tool_call_id, name: call.name };
  displaySession(session);
  session.sequencer.noteHistory();
  run.looked = run.pokes;
  const work = streaming(session.settings, `tool ${call.name}`).runTool({
    run_seq: run.run_seq,
    step: run.step,
    epoch: session.epoch,
    ordinal: session.nextOrdinal(),
    ...call,
  });
  return report(session, run, await resume(session.sequencer, 'turn', work));
}

async function notBegun(session: WorkflowState, run: CurrentRun, outcome: NotBegun): Promise<TurnEnd> {
  switch (outcome.kind) {
    case 'ended':
      tellChildrenOfRun(outcome);
      return { kind: 'over', state: outcome.state, code: outcome.code };
    case 'abort':
      return settle(session, run, 'aborted');
    case 'paused':
      session.pause(run.wakes);
      session.queue.unshift(run);
      return { kind: 'again' };
    case 'earlier':
      session.queue.unshift(run);
      session.current = null;
      for (const earlier of outcome.runs) session.enqueue(earlier);
      return { kind: 'again' };
    case 'lost':
      // Another execution has claimed the run: load again, which raises the epoch. If that does not help, not at once.
      session.losses += 1;
      if (session.losses > 1) {
        const ms = Math.min(LOST_MS * 2 ** (session.losses - 2), MAX_LOST_MS);
        await resume(session.sequencer, 'turn', sleep(ms, { summary: 'waits after lost claims' }));
      }
      await session.reload();
      if (run.wakes !== session.wakes) session.paused = false;
      return { kind: 'again' };
  }
}

/** Ends the run in Postgres, even if the turn has been cancelled. */
async function settle(session: WorkflowState, run: CurrentRun, end: 'aborted' | 'error'): Promise<TurnEnd> {
  const settled = () => localActivities.settleRun({ session_id: session.sessionId, run_seq: run.run_seq, end });
  const outcome = await CancellationScope.nonCancellable(() => session.sequencer.exclusively(settled));
  tellChildrenOfRun(outcome);
  return { kind: 'over', state: outcome.state, code: outcome.code };
}
