import {
  allHandlersFinished,
  CancellationScope,
  CancelledFailure,
  continueAsNew,
  isCancellation,
  patched,
  sleep,
} from '@temporalio/workflow';
import { show } from './display.ts';
import { registerHandlers } from './handlers.ts';
import { resume } from './sequencer.ts';
import { LONGEST_HISTORY, SessionState } from './state.ts';
import { runTurn } from './turn.ts';

/**
 * A session: one conversation with one agent. Its only input is its id; each execution (first use, reopened, continued as
 * new) loads everything else from Postgres, so an execution may end at any point: the next command starts another one.
 */
export async function session(sessionId: string): Promise<void> {
  const state = new SessionState(sessionId, patched('one-part-at-a-time'));
  registerHandlers(state);
  if (!state.isSequential) return live(state);
  void cancelWith(state, CancellationScope.current());
  return CancellationScope.nonCancellable(() => live(state));
}

async function live(state: SessionState): Promise<void> {
  const { sequencer } = state;
  await state.reload();
  show(state);
  closeWhenIdle(state).catch(unlessCancelled);
  for (;;) {
    await sequencer.until('main', () => state.cancelled || state.nextRun() !== undefined || mayEnd(state));
    const next = state.nextRun();
    if (next !== undefined && !state.cancelled) {
      await runTurn(state, next);
      show(state);
    }
    if (state.cancelled) throw new CancelledFailure('the session was cancelled');
    // No await between this check and the end: a handler that started in between would not finish.
    if (!mayEnd(state)) continue;
    if (isOver(state)) return;
    await continueAsNew<typeof session>(state.sessionId);
  }
}

/** All handlers have finished, and the session is over or its history is long. */
function mayEnd(state: SessionState): boolean {
  return allHandlersFinished() && (isOver(state) || isLong(state));
}

function isOver(state: SessionState): boolean {
  return state.ending && state.current === null && state.queue.length === 0;
}

/** Long enough to continue as new. The limit is lower while nothing is queued. */
function isLong(state: SessionState): boolean {
  const { length, continueAsNewSuggested } = state.sequencer.history();
  if (state.isCut || length > LONGEST_HISTORY || continueAsNewSuggested) return true;
  return length > state.settings.continue_as_new_events && (state.queue.length === 0 || state.paused);
}

/** Cancels the session when its workflow is cancelled through Temporal. */
async function cancelWith(state: SessionState, workflow: CancellationScope): Promise<void> {
  await state.sequencer.until('cancellation', () => workflow.consideredCancelled);
  state.cancel();
}

/** The main loop also gets the cancellation and ends the workflow; unhandled here, it would fail the workflow task. */
function unlessCancelled(error: unknown): void {
  if (!isCancellation(error)) throw error;
}

/** Ends the session after `idle_close_ms` without a command or turn. To save events, activity does not restart the timer. */
async function closeWhenIdle(state: SessionState): Promise<void> {
  for (;;) {
    const left = state.untilIdle();
    if (left > 0) {
      await resume(state.sequencer, 'idleTimer', sleep(left, { summary: 'closes when idle' }));
      continue;
    }
    state.ending = true;
    await state.sequencer.until('idleTimer', () => !state.ending);
  }
}
