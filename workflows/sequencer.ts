// The parts of a session's workflow (its main loop, the turn, the idle timer, the handlers of updates and signals) run one
// at a time, and the choice between them must come out the same when the history is replayed. Two things differ then:
//
// - What comes in separate activations may come in one. A local activity that takes longer than a workflow task is kept
//   alive with heartbeats, and what happens meanwhile (a timer, another update, the end of an activity) is told to the
//   workflow before the local activity's outcome. On replay both are told together, and their continuations interleave.
// - A workflow task that recorded nothing is merged with the next one: what it ran sees a later clock and a longer history.
//
// Hence the rule: whatever has arrived only registers that it is ready. The next part is chosen when nothing else can
// run: no local activity is in flight and all microtasks are done. It is chosen by a fixed order of the parts, not by the
// order in which promises were resolved, and runs until it waits for something other than a local activity. No part decides
// anything by the clock, or by a length of the history that is not taken down where replay has the same one.
import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow';
import { type LocalActivities, localActivities } from './activities.ts';

/** Highest priority first. Handlers run in the order of their arrival. */
const PRIORITY = { turn: 0, cancellation: 1, idleTimer: 2, command: 3, wake: 3, main: 4 };

export type Part = keyof typeof PRIORITY;

interface History {
  length: number;
  isLong: boolean;
}

/** Decides which part of a session's workflow runs. Code that changes state or schedules anything runs in its turn only. */
export interface Sequencer {
  readonly local: LocalActivities;
  /** Awaits work on local activities, during which no other part runs. To be called by the part that runs. */
  exclusively<T>(work: () => Promise<T>): Promise<T>;
  /** Waits for the caller's turn. */
  next(part: Part): Promise<void>;
  /** Waits for the caller's turn, with a condition that holds then. */
  until(part: Part, isReady: () => boolean): Promise<void>;
  /** Takes down the history's length. To be called where a command follows in the same workflow task. */
  noteHistory(): void;
  /** Number of events, and whether the server advises to continue as new: the same on replay. */
  history(): History;
}

/** Awaits something that takes long (an activity, a timer), then the caller's turn. Other parts run meanwhile. */
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
    // Handlers start while an activation's jobs are still being applied. Registering in a microtask, they are not chosen
    // before all of the activation has arrived.
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

  /** Evaluated by the SDK when all microtasks are done. `running` until the chosen part has gone on: one at a time. */
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

/** As the workflow task that is at work sees it. */
export function historyNow(): History {
  const { historyLength, continueAsNewSuggested } = workflowInfo();
  return { length: historyLength, isLong: continueAsNewSuggested };
}
