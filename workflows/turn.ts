import { CancellationScope, isCancellation, log, sleep, workflowInfo } from '@temporalio/workflow';
import type { LoadedRun, NotBegun, StepOutcome, ToolCallRef, ToolOutcome } from '../domain/commands.ts';
import { type StepNext, turnLoop } from '../domain/turn-loop.ts';
import { streaming } from './activities.ts';
import { show } from './display.ts';
import { resume } from './sequencer.ts';
import { type CurrentRun, LONGEST_HISTORY, type SessionState } from './state.ts';

/** How a turn ended: the run is over, or continues later (after a reload, or in the workflow's next execution). */
type TurnEnd = { kind: 'over'; state: string; code: string | null } | { kind: 'again' };

/**
 * Executes one run: steps until there are no tool calls, tools in the model's order. All progress is in Postgres, so
 * another execution of the workflow can continue the run at any point.
 */
export async function runTurn(session: SessionState, queued: LoadedRun): Promise<void> {
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

function steps(session: SessionState, run: CurrentRun): Promise<TurnEnd> {
  return turnLoop<ToolCallRef, Retry, TurnEnd>(run.open_calls, {
    step: (attempt) => step(session, run, attempt),
    tool: async (call) => {
      const stop = await tool(session, run, call);
      return stop && notBegun(session, run, stop);
    },
    wait: async ({ delay_ms }) => {
      await resume(session.sequencer, 'turn', sleep(delay_ms));
      run.retry = null;
    },
  });
}

type Retry = Extract<StepOutcome, { kind: 'retry' }>;

/** One attempt at a step. */
async function step(
  session: SessionState,
  run: CurrentRun,
  attempt: number,
): Promise<StepNext<ToolCallRef, Retry, TurnEnd>> {
  const model = run.last_model ?? run.model ?? session.settings.default_model;
  show(session);
  session.sequencer.noteHistory();
  const work = streaming(session.settings, `step ${run.step + 1} · ${model}`).streamStep({
    run_seq: run.run_seq,
    step: run.step,
    epoch: session.epoch,
    ordinal: session.nextOrdinal(),
    attempt,
    started_at: run.started_at,
  });
  const outcome = await resume(session.sequencer, 'turn', work);
  if (outcome.kind === 'retry') {
    run.retry = { attempt, reason: outcome.reason, delay_ms: outcome.delay_ms };
    show(session);
    return { kind: 'retry', retry: outcome };
  }
  if (outcome.kind !== 'settled') return { kind: 'end', end: await notBegun(session, run, outcome) };
  const { state, code, tool_calls: calls } = outcome;
  if (state !== 'running') return { kind: 'end', end: { kind: 'over', state, code } };
  run.last_model = outcome.model;
  run.tokens += outcome.tokens;
  run.step += 1;
  // The same length on replay, as in noteHistory: whichever way it goes on, a command follows in this workflow task.
  if (workflowInfo().historyLength <= LONGEST_HISTORY) return { kind: 'settled', calls };
  session.isCut = true;
  session.queue.unshift({ ...run, state: 'running', open_calls: calls });
  return { kind: 'end', end: { kind: 'again' } };
}

/** One tool call. Returns why it did not run to its end, if so. */
async function tool(session: SessionState, run: CurrentRun, call: ToolCallRef): Promise<NotBegun | undefined> {
  run.tool = call;
  show(session);
  let outcome = await runTool(session, run, call);
  if (outcome.kind === 'begun') {
    // Show the new phase before the tool runs, which may take an hour.
    session.follow(outcome);
    show(session);
    outcome = await runTool(session, run, { ...call, begun: true });
  }
  run.tool = null;
  if (outcome.kind !== 'settled') return outcome as NotBegun;
  session.follow(outcome);
  return undefined;
}

function runTool(session: SessionState, run: CurrentRun, call: ToolCallRef & { begun?: true }): Promise<ToolOutcome> {
  session.sequencer.noteHistory();
  const work = streaming(session.settings, `tool ${call.name}`).runTool({
    run_seq: run.run_seq,
    step: run.step,
    epoch: session.epoch,
    ordinal: session.nextOrdinal(),
    ...call,
  });
  return resume(session.sequencer, 'turn', work);
}

async function notBegun(session: SessionState, run: CurrentRun, outcome: NotBegun): Promise<TurnEnd> {
  switch (outcome.kind) {
    case 'ended':
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
      // Another execution has claimed the run: load again, which raises the epoch.
      await session.reload();
      if (run.wakes !== session.wakes) session.paused = false;
      return { kind: 'again' };
  }
}

/** Ends the run in Postgres, even if the turn has been cancelled. */
async function settle(session: SessionState, run: CurrentRun, end: 'aborted' | 'error'): Promise<TurnEnd> {
  const settled = () => session.local.settleRun({ session_id: session.sessionId, run_seq: run.run_seq, end });
  const outcome = await CancellationScope.nonCancellable(() => session.sequencer.exclusively(settled));
  return { kind: 'over', state: outcome.state, code: outcome.code };
}
