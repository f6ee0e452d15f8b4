// The parts of a session's workflow (main loop, turn, idle timer, cancellation, handlers of updates and signals) run one at a
// time, and in the same order on replay. Two things differ on replay:
//
// - Events that arrived in separate activations may arrive in one. A local activity that takes longer than a workflow task
//   is kept alive by workflow task heartbeats, and events meanwhile (a timer, another update, an activity's result) reach
//   the workflow before the local activity's result. On replay all of them arrive together.
// - A workflow task that recorded nothing is merged with the next one, so its code sees a later clock and a longer history.
//
// Therefore an event only marks its part as ready. The next part is chosen when no local activity is in flight, all events of
// the activation have been applied and all microtasks are done, by a fixed priority and not by the order in which promises
// were resolved. It runs until it waits for something other than a local activity. No part decides by the clock, or by a
// history length other than the one that noteHistory recorded at a point that is the same on replay.
//
// The SDK evaluates conditions after each event of an activation, and again whenever all microtasks are done. So a condition
// here only looks; what it lets go on chooses in a microtask, which no event can come before.
import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow';

/** Highest priority first. Handlers run in the order of their arrival. */
const PRIORITY = { turn: 0, cancellation: 1, idleTimer: 2, command: 3, wake: 3, main: 4 };

export type Part = keyof typeof PRIORITY;

interface History {
  length: number;
  continueAsNewSuggested: boolean;
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
  go: () => void;
}

/** Decides which part runs. Only the running part changes state or schedules anything. */
export class Sequencer {
  /** The running part waits for a local activity. */
  private isExclusive = false;
  /** In order of arrival. */
  private readonly waiting = new Set<Waiter>();
  /** One scope for all that is not to be cancelled: the SDK keeps each scope, with what ran in it, until its parent ends. */
  private readonly shielded = new CancellationScope({ cancellable: false });
  private lastHistory = historyNow();

  constructor() {
    void this.shielded.run(() => this.letEachRun());
  }

  /** Awaits work on local activities, during which no other part runs. Call it from the running part. */
  async exclusively<T>(work: () => Promise<T>): Promise<T> {
    this.isExclusive = true;
    try {
      return await this.shielded.run(work);
    } finally {
      this.isExclusive = false;
      this.noteHistory();
    }
  }

  /** Waits until the caller is the running part. */
  next(part: Part): Promise<void> {
    return this.until(part, () => true);
  }

  /** Waits until the condition holds and the caller is the running part. */
  until(part: Part, isReady: () => boolean): Promise<void> {
    return new Promise((go) => this.waiting.add({ part, isReady, go }));
  }

  /** Records the history's length. Call it only where a command follows in the same workflow task. */
  noteHistory(): void {
    this.lastHistory = historyNow();
  }

  /** The recorded number of events, and whether the server suggested continue-as-new: the same on replay. */
  history(): History {
    return this.lastHistory;
  }

  private async letEachRun(): Promise<never> {
    for (;;) {
      await condition(() => this.first() !== undefined);
      await microtasksDone();
      const first = this.first();
      if (first === undefined) continue;
      this.waiting.delete(first);
      first.go();
    }
  }

  /** The part that may run now. */
  private first(): Waiter | undefined {
    if (this.isExclusive) return undefined;
    const ready = [...this.waiting].filter(({ isReady }) => isReady());
    return ready.toSorted((a, b) => PRIORITY[a.part] - PRIORITY[b.part])[0];
  }
}

/** Waits until all microtasks are done: the SDK does not evaluate a condition before that which is first true in one. */
function microtasksDone(): Promise<void> {
  let isEvaluated = false;
  const done = condition(() => isEvaluated);
  isEvaluated = true;
  return done;
}

/** The history as of the current workflow task. */
function historyNow(): History {
  const { historyLength, continueAsNewSuggested } = workflowInfo();
  return { length: historyLength, continueAsNewSuggested };
}
