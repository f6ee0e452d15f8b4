import type { CancellationScope } from '@temporalio/workflow';
import type {
  LoadedRun,
  LoadedSession,
  QueuedRun,
  SessionMark,
  SessionSnapshot,
  ToolCallRef,
  WorkflowSettings,
} from '../domain/commands.ts';
import type { SessionStatus } from '../domain/runs.ts';
import { retryMessage } from '../domain/runs.ts';
import { Overlapping } from './overlapping.ts';
import { OneAtATime, type Sequencer } from './sequencer.ts';

/** The run at work, and how far it is. */
export interface CurrentRun extends LoadedRun {
  started_at: number;
  scope: CancellationScope | null;
  tool: ToolCallRef | null;
  last_model: string | null;
  tokens: number;
  retry: { attempt: number; reason: string; delay_ms: number } | null;
  /** `wakes` of the session when it began. */
  wakes: number;
}

/** Past this many events a turn is cut at a step's boundary, to go on in the workflow's next execution. */
export const LONGEST_HISTORY = 1_000;

/**
 * What a session's workflow holds: the mirror of its row. The row is the referee, so:
 *
 * 1. `loaded` is false until the row has been read; no handler judges before.
 * 2. Phase and project follow the row's answers in the order of their event numbers, never going back.
 * 3. The queue is in order of run number; what has ended is not in it.
 * 4. It may be paused less than the row is, never more: an unpaused queue asks the row, a paused one asks nobody.
 */
export class SessionState {
  readonly sessionId: string;
  readonly sequencer: Sequencer;
  loaded = false;
  mark: SessionMark = { phase: 'chatting', project_id: null, event_seq: -1 };
  userId = '';
  agent = '';
  epoch = 0;
  settings!: WorkflowSettings;
  queue: LoadedRun[] = [];
  current: CurrentRun | null = null;
  paused = false;
  /** Messages that the session was woken for: each may have ended a pause at the row. */
  wakes = 0;
  lastError: string | null = null;
  /** Asked to close, or idle for too long: ends when nothing is left to do. */
  ending = false;
  closed = false;
  /** The history is too long for the current turn to go on in this execution. */
  isCut = false;
  /** Cancelled from outside, through Temporal. */
  cancelled = false;
  /** Workflow time of the last command or turn. */
  private lastActive = Date.now();
  /** Commands and turns so far, and how many of them there were when the idle timer was last set. */
  private activity = 0;
  private activityBeforeTimer = -1;
  /** Runs that are over, as far as this execution has seen them end. */
  private readonly over = new Set<number>();
  private ordinals = 0;
  private loads = 0;

  /** @param isSequential see sequencer.ts; false in histories from before */
  constructor(sessionId: string, isSequential: boolean) {
    this.sessionId = sessionId;
    this.sequencer = isSequential ? new OneAtATime() : new Overlapping(() => this.loaded);
  }

  get local() {
    return this.sequencer.local;
  }

  get isSequential(): boolean {
    return this.sequencer instanceof OneAtATime;
  }

  /** Reads the row under a new epoch: from then on, what other executions have scheduled is rejected. */
  async reload(): Promise<void> {
    this.loads += 1;
    const args = { session_id: this.sessionId, load: this.loads, asked_at: Date.now() };
    this.load(await this.sequencer.exclusively(() => this.local.loadSession(args)));
  }

  /** Takes over what the row says. */
  private load(row: LoadedSession): void {
    this.follow(row);
    this.userId = row.user_id;
    this.agent = row.agent;
    this.epoch = row.epoch;
    this.settings = row.settings;
    this.paused = row.paused;
    this.queue = row.runs;
    this.ordinals = 0;
    this.loaded = true;
  }

  /** Follows a newer answer of the row. */
  follow(mark: SessionMark): void {
    if (mark.event_seq < this.mark.event_seq) return;
    this.mark = { phase: mark.phase, project_id: mark.project_id, event_seq: mark.event_seq };
  }

  /** The second part of the next fence. */
  nextOrdinal(): number {
    this.ordinals += 1;
    return this.ordinals;
  }

  /** Puts a run into its place in the queue, unless it is known or over. */
  enqueue(run: QueuedRun): void {
    const known = this.queue.some((each) => each.run_seq === run.run_seq) || this.current?.run_seq === run.run_seq;
    if (known || this.over.has(run.run_seq)) return;
    this.queue.push({ ...run, state: 'queued', step: 0, abort: false, started_at: null, open_calls: [] });
    this.queue.sort((a, b) => a.run_seq - b.run_seq);
  }

  dequeue(runSeq: number): void {
    this.queue = this.queue.filter((run) => run.run_seq !== runSeq);
  }

  /** The run that may begin now. One that has begun goes on, paused or not. */
  nextRun(): LoadedRun | undefined {
    const next = this.queue[0];
    return next !== undefined && (!this.paused || next.state !== 'queued') ? next : undefined;
  }

  begin(run: LoadedRun): CurrentRun {
    this.dequeue(run.run_seq);
    this.current = {
      ...run,
      started_at: run.started_at ?? Date.now(),
      scope: null,
      tool: null,
      last_model: null,
      tokens: 0,
      retry: null,
      wakes: this.wakes,
    };
    return this.current;
  }

  /** The row paused the queue at `wakes`. Woken since, the row is to say again: a submission may have been faster. */
  pause(wakes: number): void {
    this.paused = wakes === this.wakes;
  }

  /** The current run is over. */
  ended(run: QueuedRun): void {
    this.over.add(run.run_seq);
    this.current = null;
    this.noteActivity();
  }

  /** Something was asked of the session: it is neither idle nor closed. */
  touch(): void {
    this.noteActivity();
    this.ending = false;
    this.closed = false;
  }

  private noteActivity(): void {
    this.lastActive = Date.now();
    this.activity += 1;
  }

  /** Milliseconds until the session may have been idle for long enough; 0: it has been. */
  untilIdle(): number {
    const idle = this.settings.idle_close_ms;
    const left = this.lastActive + idle - Date.now();
    const isBusy = this.current !== null || this.queue.length > 0;
    // Decided by the count, not by the clock, which differs on replay.
    const isIdle = this.isSequential ? this.activity === this.activityBeforeTimer : left <= 0;
    this.activityBeforeTimer = this.activity;
    if (isIdle && !isBusy) return 0;
    return left > 0 ? left : idle;
  }

  /** Stops the run: at once if it is the current one, when its turn comes if it is queued. */
  abort(runSeq: number): void {
    for (const run of this.queue) if (run.run_seq === runSeq) run.abort = true;
    if (this.current?.run_seq !== runSeq) return;
    this.current.abort = true;
    this.current.scope?.cancel();
  }

  /** Ends the current run as aborted, and then the workflow; what is queued stays queued in its rows. */
  cancel(): void {
    this.cancelled = true;
    this.current?.scope?.cancel();
  }

  /** How many messages are ahead of one. */
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
