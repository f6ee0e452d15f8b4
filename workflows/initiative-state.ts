import type { CancellationScope } from '@temporalio/workflow';
import type {
  InitiativeMark,
  InitiativeSnapshot,
  LoadedInitiative,
  Watched,
} from '../domain/initiatives/initiative-commands.ts';
import { initiativeLocalActivities } from './activities.ts';
import { Sequencer } from './sequencer.ts';

/** The timer that runs. */
interface Timer {
  scope: CancellationScope;
  /** When a work session is due, by Postgres' clock; null: the workflow closes when it fires. */
  dueAt: number | null;
  /** Cancelled, because something else is due earlier. */
  isReplaced: boolean;
}

/** The workflow's copy of its initiative, which follows the rows in the order of their events. */
export class InitiativeState {
  readonly initiativeId: string;
  readonly sequencer = new Sequencer();
  /** Read only after `load`. */
  mark!: InitiativeMark;
  settings!: LoadedInitiative['settings'];
  loaded = false;
  timer: Timer | null = null;
  /** Number of commands. */
  activity = 0;
  /** Idle for too long: the workflow ends when its handlers have finished. */
  ending = false;
  /** The workflow was cancelled through Temporal. */
  cancelled = false;
  /** Why it cannot go on: the initiative is gone. */
  failure: { error: unknown } | undefined;

  constructor(initiativeId: string) {
    this.initiativeId = initiativeId;
  }

  async load(): Promise<void> {
    const { settings, ...mark } = await this.sequencer.exclusively(() =>
      initiativeLocalActivities.loadInitiative({ initiative_id: this.initiativeId }),
    );
    this.settings = settings;
    this.follow(mark);
    this.loaded = true;
  }

  /** Ends a work session, as crashed if it holds tasks, unless it has given a sign of life since. Call it from the running part. */
  async reset({ work_session, sign }: Watched): Promise<void> {
    const args = { initiative_id: this.initiativeId, work_session, sign };
    this.follow(await this.sequencer.exclusively(() => initiativeLocalActivities.resetStale(args)));
  }

  /** Takes a mark, unless a newer one is known. Compares times that Postgres gave, because the workflow's may differ on replay. */
  follow(mark: InitiativeMark): void {
    if (this.loaded && mark.event_seq < this.mark.event_seq) return;
    this.mark = mark;
    const { timer } = this;
    if (timer === null || mark.watched === null) return;
    if (timer.dueAt !== null && timer.dueAt <= mark.watched.due_at) return;
    timer.isReplaced = true;
    timer.scope.cancel();
  }

  /** Notes a command: the initiative is not idle. */
  touch(): void {
    this.activity += 1;
    this.ending = false;
  }

  isLong(): boolean {
    const { length, continueAsNewSuggested } = this.sequencer.history();
    return continueAsNewSuggested || length > this.settings.continue_as_new_events;
  }

  snapshot(historyEvents: number): InitiativeSnapshot {
    const { loaded, mark } = this;
    return {
      loading: !loaded,
      status: loaded ? mark.status : null,
      event_seq: loaded ? mark.event_seq : -1,
      watched: loaded ? mark.watched : null,
      history_events: historyEvents,
    };
  }
}
