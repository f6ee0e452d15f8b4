import {
  allHandlersFinished,
  CancellationScope,
  CancelledFailure,
  continueAsNew,
  isCancellation,
  sleep,
} from '@temporalio/workflow';
import { tellParent } from './children.ts';
import { displaySession } from './display.ts';
import { registerHandlers } from './handlers.ts';
import { resume } from './sequencer.ts';
import { executeTurn } from './turn.ts';
import { WorkflowState } from './workflow-state.ts';

/**
 * A session: one conversation with one agent. Its only input is its id; each execution (first use, reopened, continued as
 * new) loads everything else from Postgres, so an execution may end at any point: the next command starts another one.
 */
export async function session(sessionId: string): Promise<void> {
  const state = new WorkflowState(sessionId);
  registerHandlers(state);
  void cancelWith(state, CancellationScope.current());
  return CancellationScope.nonCancellable(() => live(state));
}

async function live(state: WorkflowState): Promise<void> {
  const { sequencer } = state;
  await state.reload();
  displaySession(state);
  closeWhenIdle(state).catch(unlessCancelled);
  for (;;) {
    await sequencer.until(
      'main',
      () => state.cancelled || state.nextRun() !== undefined || isToTell(state) || mayEnd(state),
    );
    const next = state.nextRun();
    if (next !== undefined && !state.cancelled) {
      state.hasTold = false;
      await executeTurn(state, next);
      displaySession(state);
    }
    if (state.cancelled) throw new CancelledFailure('the session was cancelled');
    if (isToTell(state)) {
      state.hasTold = true;
      state.isDone = await tellParent(state);
    }
    // No await between this check and the end: a handler that started in between would not finish.
    if (!mayEnd(state)) continue;
    if (isOver(state)) return;
    await continueAsNew<typeof session>(state.sessionId);
  }
}

/** All handlers have finished, and the session is over or its history is long. */
function mayEnd(state: WorkflowState): boolean {
  return allHandlersFinished() && (isOver(state) || state.isLong());
}

function isOver(state: WorkflowState): boolean {
  return (state.ending || state.isDone) && isIdle(state);
}

/** Of a child without an open run: it may be over, which its parent is to know. */
function isToTell(state: WorkflowState): boolean {
  return state.isChild && !state.hasTold && isIdle(state);
}

function isIdle(state: WorkflowState): boolean {
  return state.current === null && state.queue.length === 0;
}

/** Cancels the session when its workflow is cancelled through Temporal. */
async function cancelWith(state: WorkflowState, workflow: CancellationScope): Promise<void> {
  await state.sequencer.until('cancellation', () => workflow.consideredCancelled);
  state.cancel();
}

/** The main loop also gets the cancellation and ends the workflow; unhandled here, it would fail the workflow task. */
function unlessCancelled(error: unknown): void {
  if (!isCancellation(error)) throw error;
}

/** Ends the session after `idle_close_ms` without a command or turn. To save events, activity does not restart the timer. */
async function closeWhenIdle(state: WorkflowState): Promise<void> {
  for (;;) {
    if (state.current?.waiting === true) {
      await state.sequencer.until('idleTimer', () => state.current?.waiting !== true);
    }
    const left = state.untilIdle();
    if (left > 0) {
      await resume(state.sequencer, 'idleTimer', idleTimer(state, left));
      continue;
    }
    state.ending = true;
    await state.sequencer.until('idleTimer', () => !state.ending);
  }
}

/** A timer, which ends early when a turn begins to wait. */
async function idleTimer(state: WorkflowState, ms: number): Promise<void> {
  const timer = new CancellationScope();
  state.idleTimer = timer;
  try {
    await timer.run(() => sleep(ms, { summary: 'closes when idle' }));
  } catch (error) {
    if (state.current?.waiting !== true) throw error;
  } finally {
    state.idleTimer = null;
  }
}
