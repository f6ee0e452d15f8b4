// The parts of a session's workflow (main loop, turn, idle timer, cancellation, handlers of updates and signals) run one at a
// time, and in the same order on replay. Two things differ on replay:
//
// - Events that arrived in separate activations may arrive in one. A local activity that takes longer than a workflow task
//   is kept alive by workflow task heartbeats, and events meanwhile (a timer, another update, an activity's result) reach
//   the workflow before the local activity's result. On replay all of them arrive together.
// - A workflow task that recorded nothing is merged with the next one, so its code sees a later clock and a longer history.
//
// Therefore an event only marks its part as ready. The next part is chosen when no local activity is in flight and all
// microtasks are done, by a fixed priority and not by the order in which promises were resolved. It runs until it waits for
// something other than a local activity. No part decides by the clock, or by a history length other than the one that
// noteHistory recorded at a point that is the same on replay.
import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow';
import { type LocalActivities, localActivities } from './activities.ts';

/** Highest priority first. Handlers run in the order of their arrival. */
const PRIORITY = { turn: 0, cancellation: 1, idleTimer: 2, command: 3, wake: 3, main: 4 };

export type Part = keyof typeof PRIORITY;

interface History {
  length: number;
  continueAsNewSuggested: boolean;
}

/** Decides which part runs. Only the running part changes state or schedules anything. */
export interface Sequencer {
  readonly local: LocalActivities;
  /** Awaits work on local activities, during which no other part runs. Call it from the running part. */
  exclusively<T>(work: () => Promise<T>): Promise<T>;
  /** Waits until the caller is the running part. */
  next(part: Part): Promise<void>;
  /** Waits until the condition holds and the caller is the running part. */
  until(part: Part, isReady: () => boolean): Promise<void>;
  /** Records the history's length. Call it only where a command follows in the same workflow task. */
  noteHistory(): void;
  /** The recorded number of events, and whether the server suggested continue-as-new: the same on replay. */
  history(): History;
}

/** Awaits an activity or a timer while other parts run, then waits until the caller is the running part. */
export async function resume<T>(sequencer: Sequencer, part: Part, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } finally {
    await sequencer.next(part);
  }
}

interface Waiter {
  part: Part;
  isReady: () => boolean;
}

export class OneAtATime implements Sequencer {
  readonly local = localActivities;
  private running = false;
  private waiting: Waiter[] = [];
  private lastHistory = historyNow();

  async exclusively<T>(work: () => Promise<T>): Promise<T> {
    this.running = true;
    try {
      return await CancellationScope.nonCancellable(work);
    } finally {
      this.running = false;
      this.noteHistory();
    }
  }

  next(part: Part): Promise<void> {
    return this.until(part, () => true);
  }

  async until(part: Part, isReady: () => boolean): Promise<void> {
    // Handlers start while the jobs of an activation are still being applied. The microtask delays their registration until
    // all jobs have been applied.
    await Promise.resolve();
    const waiter = { part, isReady };
    const chosen = CancellationScope.nonCancellable(() => condition(() => this.choose(waiter)));
    this.waiting.push(waiter);
    await chosen;
    this.running = false;
  }

  noteHistory(): void {
    this.lastHistory = historyNow();
  }

  history(): History {
    return this.lastHistory;
  }

  /** The SDK evaluates this when all microtasks are done. True for one waiter at a time, because it sets `running`. */
  private choose(waiter: Waiter): boolean {
    if (this.running) return false;
    const ready = this.waiting.filter(({ isReady }) => isReady());
    const first = ready.toSorted((a, b) => PRIORITY[a.part] - PRIORITY[b.part])[0];
    if (first !== waiter) return false;
    this.running = true;
    this.waiting = this.waiting.filter((each) => each !== waiter);
    return true;
  }
}

/** The history as of the current workflow task. */
export function historyNow(): History {
  const { historyLength, continueAsNewSuggested } = workflowInfo();
  return { length: historyLength, continueAsNewSuggested };
}
