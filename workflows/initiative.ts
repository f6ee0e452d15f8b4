import { allHandlersFinished, CancellationScope, CancelledFailure, continueAsNew, sleep } from '@temporalio/workflow';
import { displayInitiative } from './display-initiative.ts';
import { registerInitiativeHandlers } from './initiative-handlers.ts';
import { InitiativeState } from './initiative-state.ts';
import { resume } from './sequencer.ts';

/**
 * An initiative: it supervises its work sessions. Its only input is its id; each execution loads the rest from
 * Postgres, so it may end at any point: the next command, or a sweeper, starts another one.
 */
export async function initiative(initiativeId: string): Promise<void> {
  const state = new InitiativeState(initiativeId);
  registerInitiativeHandlers(state);
  void cancelWith(state, CancellationScope.current());
  return CancellationScope.nonCancellable(() => live(state));
}

async function live(state: InitiativeState): Promise<void> {
  const { sequencer } = state;
  await state.load();
  displayInitiative(state);
  supervise(state).catch((error: unknown) => void (state.failure = { error }));
  for (;;) {
    await sequencer.until('main', () => state.cancelled || state.failure !== undefined || mayEnd(state));
    if (state.failure !== undefined) throw state.failure.error;
    if (state.cancelled) throw new CancelledFailure('the initiative was cancelled');
    // No await between this check and the end: a handler that started in between would not finish.
    if (!mayEnd(state)) continue;
    if (state.ending) return;
    await continueAsNew<typeof initiative>(state.initiativeId);
  }
}

function mayEnd(state: InitiativeState): boolean {
  return allHandlersFinished() && (state.ending || state.isLong());
}

async function cancelWith(state: InitiativeState, workflow: CancellationScope): Promise<void> {
  await state.sequencer.until('cancellation', () => workflow.consideredCancelled);
  state.cancelled = true;
}

/**
 * Ends work sessions that give no sign of life, and the workflow after `idle_close_ms` without a command while none is watched.
 * One timer at a time. Signs of life do not restart it: when it fires, the row says whether there was one.
 */
async function supervise(state: InitiativeState): Promise<never> {
  for (;;) {
    const { watched } = state.mark;
    const before = state.activity;
    if (!(await timer(state, watched?.due_in_ms ?? state.settings.idle_close_ms, watched?.due_at ?? null))) continue;
    if (watched !== null) {
      await state.reset(watched);
      displayInitiative(state);
    } else if (state.activity === before) {
      state.ending = true;
      await state.sequencer.until('idleTimer', () => !state.ending);
    }
  }
}

/** Waits. Returns false if something else became due earlier. */
async function timer(state: InitiativeState, ms: number, dueAt: number | null): Promise<boolean> {
  const scope = new CancellationScope();
  const set = { scope, dueAt, isReplaced: false };
  state.timer = set;
  const waiting = scope.run(() => sleep(ms, { summary: dueAt === null ? 'closes when idle' : 'work session is due' }));
  await resume(
    state.sequencer,
    'idleTimer',
    waiting.catch((error: unknown) => {
      if (!set.isReplaced) throw error;
    }),
  );
  state.timer = null;
  return !set.isReplaced;
}
