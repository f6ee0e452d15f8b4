import { CancellationScope, isCancellation, log, sleep, workflowInfo } from '@temporalio/workflow';
import type { LoadedRun, NotBegun, StepOutcome, ToolCallRef, ToolOutcome } from '../domain/commands.ts';
import { streaming } from './activities.ts';
import { show } from './display.ts';
import { resume } from './sequencer.ts';
import { type CurrentRun, LONGEST_HISTORY, type SessionState } from './state.ts';

/** How a turn left the run: over, or to be taken up again (after a reload, or in the workflow's next execution). */
type TurnEnd = { kind: 'over'; state: string; code: string | null } | { kind: 'again' };

/**
 * Executes one run: steps until there are no tool calls, tools in the model's order. Everything it decides on is in the
 * row, so it can be taken up at any point by another execution of the workflow.
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
    // With a dead worker an abort comes as a heartbeat time-out, not as a cancellation: whatever it is, it is the abort.
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

async function steps(session: SessionState, run: CurrentRun): Promise<TurnEnd> {
  let calls: ToolCallRef[] = run.open_calls;
  for (;;) {
    for (const call of calls) {
      const stop = await tool(session, run, call);
      if (stop) return notBegun(session, run, stop);
    }
    const outcome = await step(session, run);
    if (outcome.kind !== 'settled') return notBegun(session, run, outcome);
    if (outcome.state !== 'running') return { kind: 'over', state: outcome.state, code: outcome.code };
    run.last_model = outcome.model;
    run.tokens += outcome.tokens;
    run.step += 1;
    calls = outcome.tool_calls;
    if (workflowInfo().historyLength > LONGEST_HISTORY) {
      session.isCut = true;
      session.queue.unshift({ ...run, state: 'running', open_calls: calls });
      return { kind: 'again' };
    }
  }
}

/** One step, tried again for as long as the provider's failures are passing. */
async function step(session: SessionState, run: CurrentRun): Promise<Exclude<StepOutcome, { kind: 'retry' }>> {
  const model = run.last_model ?? run.model ?? session.settings.default_model;
  for (let attempt = 1; ; attempt += 1) {
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
    if (outcome.kind !== 'retry') return outcome;
    run.retry = { attempt, reason: outcome.reason, delay_ms: outcome.delay_ms };
    show(session);
    await resume(session.sequencer, 'turn', sleep(outcome.delay_ms));
    run.retry = null;
  }
}

/** One tool call. Answers what kept it from its outcome, if anything did. */
async function tool(session: SessionState, run: CurrentRun, call: ToolCallRef): Promise<NotBegun | undefined> {
  run.tool = call;
  show(session);
  let outcome = await runTool(session, run, call);
  if (outcome.kind === 'begun') {
    // The phase has moved: it is shown now, not when a build of an hour is over.
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
      // Somebody else has taken the run since this execution loaded it: load again, under a greater epoch.
      await session.reload();
      if (run.wakes !== session.wakes) session.paused = false;
      return { kind: 'again' };
  }
}

/** Ends the run's row, whatever has been cancelled around it. */
async function settle(session: SessionState, run: CurrentRun, end: 'aborted' | 'error'): Promise<TurnEnd> {
  const settled = () => session.local.settleRun({ session_id: session.sessionId, run_seq: run.run_seq, end });
  const outcome = await CancellationScope.nonCancellable(() => session.sequencer.exclusively(settled));
  return { kind: 'over', state: outcome.state, code: outcome.code };
}
