import { type CancellationScope, workflowInfo } from '@temporalio/workflow';
import type {
  LoadedRun,
  LoadedSession,
  QueuedRun,
  SessionMark,
  SessionSnapshot,
  ToolCallRef,
  UnitOutcome,
  WorkflowSettings,
} from '../domain/activities.ts';
import type { SessionStatus } from '../domain/runs.ts';
import { COMPACTING, retryMessage } from '../domain/runs.ts';
import { localActivities } from './activities.ts';
import { Sequencer } from './sequencer.ts';

/** The current run and its progress. */
export interface CurrentRun extends LoadedRun {
  started_at: number;
  /** Its step when this execution took it up. */
  first_step: number;
  scope: CancellationScope | null;
  tool: ToolCallRef | null;
  last_model: string | null;
  tokens: number;
  retry: { attempt: number; reason: string; delay_ms: number } | null;
  /** Attempts at its step that ended because the store of attachments was away. */
  waited: number;
  /** The conversation is being compacted. */
  compacting: boolean;
  /** Its tool call waits for an answer, or for the page. */
  waiting: boolean;
  /** How often it was told to look whether what it waits for has come. */
  pokes: number;
  /** The same when its newest activity was scheduled: what it reports as missing may have come since. */
  looked: number;
  /** Outcomes of the next steps and tool calls, which an activity reported together with its own. */
  reported: UnitOutcome[];
  /** The session's `wakes` when the run began. */
  wakes: number;
}

/** Above this many events a turn stops between two steps and continues in the workflow's next execution. */
export const LONGEST_HISTORY = 1_000;

/**
 * The workflow's copy of its session in Postgres, which is the source of truth:
 *
 * 1. `loaded` is false until the session has been read; handlers wait for that.
 * 2. Phase and project follow the outcomes from Postgres in the order of their event numbers.
 * 3. The queue is sorted by run number and contains no ended runs.
 * 4. It is never paused while the row is not: each step of an unpaused queue asks Postgres, a paused queue does not.
 */
export class WorkflowState {
  readonly sessionId: string;
  readonly sequencer = new Sequencer();
  loaded = false;
  mark: SessionMark = { phase: 'chatting', project_id: null, event_seq: -1 };
  userId = '';
  agent = '';
  /** Another session's tool call has opened it. */
  isChild = false;
  /** Of a child: it is over, and its workflow ends when it has nothing to do. */
  isDone = false;
  epoch = 0;
  settings!: WorkflowSettings;
  queue: LoadedRun[] = [];
  current: CurrentRun | null = null;
  paused = false;
  /** Number of submitted messages; each may have ended a pause in Postgres. */
  wakes = 0;
  lastError: string | null = null;
  /** Of a child: its parent knows whether it is over, unless something has happened since. */
  hasTold = false;
  /** Of the timer that ends an idle session; null: it does not run. */
  idleTimer: CancellationScope | null = null;
  /** Closed, or idle for too long: the workflow ends when nothing is left to do. */
  ending = false;
  closed = false;
  /** The current turn continues in the next execution, because the history is too long. */
  isCut = false;
  /** The workflow was cancelled through Temporal. */
  cancelled = false;
  /** Workflow time of the last command or turn. */
  private lastActive = Date.now();
  /** Number of commands and turns, now and when the idle timer was last set. */
  private activity = 0;
  private activityBeforeTimer = -1;
  /** Runs that have ended in this execution. */
  private readonly over = new Set<number>();
  /** Claims in a row that were refused because another execution had made one. */
  losses = 0;
  private ordinals = 0;
  private loads = 0;

  constructor(sessionId: string) {
    this.sessionId = sessionId;
  }

  /** Reads the session under a new epoch, which fences off what other executions have scheduled. */
  async reload(): Promise<void> {
    this.loads += 1;
    const { continuedFromExecutionRunId: continues } = workflowInfo();
    const args = {
      ...{ session_id: this.sessionId, load: this.loads, asked_at: Date.now() },
      ...(continues !== undefined && { continues }),
    };
    this.load(await this.sequencer.exclusively(() => localActivities.loadSession(args)));
  }

  private load(row: LoadedSession): void {
    this.follow(row);
    this.userId = row.user_id;
    this.agent = row.agent;
    this.isChild = row.is_child;
    // Under the same epoch, what was scheduled before has these ordinals.
    if (row.epoch !== this.epoch) this.ordinals = 0;
    this.epoch = row.epoch;
    this.settings = row.settings;
    this.paused = row.paused;
    this.queue = row.runs;
    this.loaded = true;
  }

  /** Takes phase and project from an outcome, unless a newer one has been applied. */
  follow(mark: SessionMark): void {
    if (mark.event_seq < this.mark.event_seq) return;
    this.mark = { phase: mark.phase, project_id: mark.project_id, event_seq: mark.event_seq };
  }

  /** The ordinal of the next fence. */
  nextOrdinal(): number {
    this.ordinals += 1;
    return this.ordinals;
  }

  /** Ordinals that head starts have used, whose outcomes were reported. */
  skipOrdinals(count: number): void {
    this.ordinals += count;
  }

  /** Adds a run to the queue, unless it is there, current, or over. */
  enqueue(run: QueuedRun): void {
    const known = this.queue.some((each) => each.run_seq === run.run_seq) || this.current?.run_seq === run.run_seq;
    if (known || this.over.has(run.run_seq)) return;
    this.queue.push({ ...run, state: 'queued', step: 0, abort: false, started_at: null, open_calls: [] });
    this.queue.sort((a, b) => a.run_seq - b.run_seq);
  }

  /** Tells a run that waits to look whether what it waits for has come. */
  poke(runSeq: number): void {
    for (const run of this.queue) if (run.run_seq === runSeq && run.state === 'waiting') run.state = 'running';
    if (this.current?.run_seq === runSeq) this.current.pokes += 1;
  }

  /** The current run waits for an answer, or no longer. Meanwhile the session has no timer: what waits is not idle. */
  wait(run: CurrentRun, isWaiting: boolean): void {
    run.waiting = isWaiting;
    if (isWaiting) this.idleTimer?.cancel();
  }

  dequeue(runSeq: number): void {
    this.queue = this.queue.filter((run) => run.run_seq !== runSeq);
  }

  /** The run that may start now. A pause stops no run that has started, nor the end of one that was aborted. */
  nextRun(): LoadedRun | undefined {
    const next = this.queue[0];
    return next !== undefined && (!this.paused || next.state !== 'queued' || next.abort) ? next : undefined;
  }

  begin(run: LoadedRun): CurrentRun {
    this.dequeue(run.run_seq);
    this.current = {
      ...run,
      started_at: run.started_at ?? Date.now(),
      first_step: run.step,
      scope: null,
      tool: null,
      last_model: null,
      tokens: 0,
      retry: null,
      waited: 0,
      compacting: false,
      waiting: false,
      pokes: 0,
      looked: 0,
      reported: [],
      wakes: this.wakes,
    };
    return this.current;
  }

  /** Ends a pause: a run was queued after it. */
  resume(): void {
    this.wakes += 1;
    this.paused = false;
    this.lastError = null;
  }

  /** Pauses the queue, unless a message was submitted after `wakes`, which may have ended the pause already. */
  pause(wakes: number): void {
    this.paused = wakes === this.wakes;
  }

  ended(run: QueuedRun): void {
    this.over.add(run.run_seq);
    this.current = null;
    this.losses = 0;
    this.noteActivity();
  }

  /** Notes a command or message: the session is neither idle nor closed. */
  touch(): void {
    this.noteActivity();
    this.ending = false;
    this.closed = false;
    this.hasTold = false;
  }

  private noteActivity(): void {
    this.lastActive = Date.now();
    this.activity += 1;
  }

  /** Milliseconds until the next check whether the session has been idle long enough; 0: it has. */
  untilIdle(): number {
    const idle = this.settings.idle_close_ms;
    const left = this.lastActive + idle - Date.now();
    const isBusy = this.current !== null || this.queue.length > 0;
    // Compares counts, because the clock may differ on replay.
    const isIdle = this.activity === this.activityBeforeTimer;
    this.activityBeforeTimer = this.activity;
    if (isIdle && !isBusy) return 0;
    return left > 0 ? left : idle;
  }

  /** Aborts the current run at once, or a queued run when it starts. */
  abort(runSeq: number): void {
    for (const run of this.queue) if (run.run_seq === runSeq) run.abort = true;
    if (this.current?.run_seq !== runSeq) return;
    this.current.abort = true;
    this.current.scope?.cancel();
  }

  /** Aborts the current run and ends the workflow; queued messages stay queued in Postgres. */
  cancel(): void {
    this.cancelled = true;
    this.current?.scope?.cancel();
  }

  /** Its history is long enough to continue as new. The limit is lower while nothing is queued. */
  isLong(): boolean {
    const { length, continueAsNewSuggested } = this.sequencer.history();
    if (this.isCut || length > LONGEST_HISTORY || continueAsNewSuggested) return true;
    return length > this.settings.continue_as_new_events && (this.queue.length === 0 || this.paused);
  }

  /** Number of messages ahead of a run. */
  position(runSeq: number): number {
    const open = this.current === null ? this.queue : [this.current, ...this.queue];
    return open.filter((run) => run.run_seq < runSeq).length;
  }

  status(): SessionStatus {
    if (!this.loaded) return { state: 'busy', message: 'loading' };
    const run = this.current ?? this.nextRun();
    if (run === undefined)
      return this.paused ? { state: 'error', message: this.lastError ?? 'Internal' } : { state: 'idle' };
    const busy = { started_at: run.started_at ?? Date.now(), message_id: run.message_id };
    const retry = this.current?.retry;
    if (this.current?.waiting === true || run.state === 'waiting')
      return { state: 'waiting', message_id: run.message_id };
    if (this.current?.compacting === true) return { state: 'busy', message: COMPACTING, ...busy };
    if (!retry) return { state: 'busy', ...busy };
    return { state: 'retrying', attempt: retry.attempt, message: retryMessage(retry.reason, retry.delay_ms), ...busy };
  }

  snapshot(historyEvents: number): SessionSnapshot {
    return {
      loading: !this.loaded,
      ...this.mark,
      user_id: this.userId,
      pending_tool: this.current?.tool ?? null,
      queue: this.queue.map(({ run_seq, message_id, model }) => ({ run_seq, message_id, model })),
      run: this.current && {
        run_seq: this.current.run_seq,
        message_id: this.current.message_id,
        model: this.current.model,
        step: this.current.step,
      },
      paused: this.paused,
      history_events: historyEvents,
    };
  }
}
