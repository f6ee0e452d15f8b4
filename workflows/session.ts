import {
  allHandlersFinished,
  condition,
  continueAsNew,
  isCancellation,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { show } from './display.ts';
import { registerHandlers } from './handlers.ts';
import { LONGEST_HISTORY, SessionState } from './state.ts';
import { runTurn } from './turn.ts';

/**
 * A session: one conversation with one agent, for as long as it is talked to. Its input is its id; everything else it
 * loads, at its first start, when it is opened again, and when it continues as new. Nothing is lost with it: ended at
 * any point, the next command starts it again from its rows.
 */
export async function session(sessionId: string): Promise<void> {
  const state = new SessionState(sessionId);
  registerHandlers(state);
  state.load(await state.local.loadSession(sessionId));
  show(state);
  closeWhenIdle(state).catch(unlessCancelled);
  for (;;) {
    await condition(() => state.nextRun() !== undefined || mayEnd(state));
    const next = state.nextRun();
    if (next !== undefined) {
      await runTurn(state, next, () => workflowInfo().historyLength);
      show(state);
    }
    // No await between this look and the end: what a handler was promised meanwhile would be lost.
    if (!mayEnd(state)) continue;
    if (isOver(state)) return;
    await continueAsNew<typeof session>(sessionId);
  }
}

/** Every handler has answered, and the session is over or its history long enough. */
function mayEnd(state: SessionState): boolean {
  return allHandlersFinished() && (isOver(state) || isLong(state));
}

function isOver(state: SessionState): boolean {
  return state.ending && state.current === null && state.queue.length === 0;
}

/** Long enough to continue as new: sooner when nothing waits, else between turns or where a turn was cut. */
function isLong(state: SessionState): boolean {
  const { historyLength, continueAsNewSuggested } = workflowInfo();
  if (historyLength > LONGEST_HISTORY || continueAsNewSuggested) return true;
  return historyLength > state.settings.continue_as_new_events && (state.queue.length === 0 || state.paused);
}

/** The loop above hears of a cancellation too, and ends the workflow; unheard here, it would fail its task for ever. */
function unlessCancelled(error: unknown): void {
  if (!isCancellation(error)) throw error;
}

/** One timer, set again only when it has fired. */
async function closeWhenIdle(state: SessionState): Promise<void> {
  const idle = state.settings.idle_close_ms;
  for (;;) {
    const left = state.lastActive + idle - Date.now();
    const busy = state.current !== null || state.queue.length > 0;
    if (left > 0 || busy) {
      await sleep(left > 0 ? left : idle, { summary: 'closes when idle' });
      continue;
    }
    state.ending = true;
    await condition(() => !state.ending);
  }
}
