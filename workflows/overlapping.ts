// How the parts of a session's workflow ran before the patch "one-part-at-a-time" (sequencer.ts), for replaying histories
// from before it. Some of them cannot be replayed: the idle timer fired during a local activity. Remove this file together
// with the patch (docs/deploys.md).
import { CancellationScope, condition } from '@temporalio/workflow';
import { type LocalActivities, localActivities } from './activities.ts';
import { historyNow, type Part, type Sequencer } from './sequencer.ts';

export class Overlapping implements Sequencer {
  readonly local = oneAfterTheOther();
  private readonly isLoaded: () => boolean;
  private inFlight = 0;

  constructor(isLoaded: () => boolean) {
    this.isLoaded = isLoaded;
  }

  async exclusively<T>(work: () => Promise<T>): Promise<T> {
    this.inFlight += 1;
    try {
      return await work();
    } finally {
      this.inFlight -= 1;
    }
  }

  async next(part: Part): Promise<void> {
    if (part === 'command' || part === 'wake') await condition(this.isLoaded);
    if (part === 'command' || part === 'idleTimer' || this.inFlight === 0) return;
    await CancellationScope.nonCancellable(() => condition(() => this.inFlight === 0));
  }

  until(_part: Part, isReady: () => boolean): Promise<void> {
    return condition(isReady);
  }

  noteHistory(): void {}

  history = historyNow;
}

function oneAfterTheOther(): LocalActivities {
  let last: Promise<unknown> = Promise.resolve();
  const afterTheLast = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
  return {
    loadSession: (args) => afterTheLast(() => localActivities.loadSession(args)),
    applyCommand: (args) => afterTheLast(() => localActivities.applyCommand(args)),
    settleRun: (args) => afterTheLast(() => localActivities.settleRun(args)),
    deliverTask: (args) => afterTheLast(() => localActivities.deliverTask(args)),
  };
}
