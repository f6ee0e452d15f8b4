import { Context } from '@temporalio/activity';
import { ANY_SESSION } from '../../bus/bus.ts';
import type { StepArgs, StepOutcome, ToolArgs, ToolCallRef, ToolOutcome } from '../../domain/activities.ts';
import type { Fence } from '../../domain/runs.ts';
import { nextUnit, positionAfter, type TurnUnit } from '../../domain/turn-loop.ts';
import type { LostRun, LostWork } from '../../store/leases.ts';
import { findStartableRun } from '../../store/runs.ts';
import type { ActivityContext } from '../activity-context.ts';
import { busy, type WaitingSlots } from '../admission/waiting-slots.ts';
import type { Attempt } from '../claims/attempt.ts';
import { RunStop } from '../claims/run-stop.ts';
import { runToolActivity } from '../run-tool.ts';
import { streamStepActivity } from '../stream-step.ts';
import { announced } from './announced.ts';
import {
  aheadOf,
  type StepOrToolArgs,
  attemptOf,
  isAdoptable,
  isTool,
  keyOf,
  ledSession,
  type LedSession,
  type StepOrToolOutcome,
  takeHeadStart,
} from './led-session.ts';
import { reportTogether } from './report-together.ts';
import { SessionsElsewhere } from './sessions-elsewhere.ts';
import { whenAdmitted } from './when-admitted.ts';

/** Units of one run that wait for their activity. */
const MAX_AHEAD = 8;
/** Units of older runs that are over, for their activity. */
const MAX_KEPT = 24;
/** Head starts of a worker, as many as its slots for activities. */
const MAX_RUNNING = 1_000;
/** A worker that has begun a session's run without its workflow also begins the next runs, until none came for this long. */
const LEAD_BY_ROW_MS = 10_000;

/** Which sessions' workflows this process has in its cache. */
export interface CachedSessions {
  has(sessionId: string): boolean;
  /** Called with each session whose workflow leaves the cache. */
  onEvicted(listener: (sessionId: string) => void): void;
}

/**
 * Begins steps and tool calls before Temporal schedules their activities, and hands each to its activity. The row's fence keeps
 * two workers from doing one twice.
 *
 * 1. A head start claims its run with attempt 0 of an ordinal that is not greater than that of the activity which will be
 *    scheduled for it. So it overtakes everything before, and is overtaken by that activity once it is dead.
 * 2. The worker that has the workflow in its cache begins them, because Temporal usually gives it the activities, too. If no
 *    worker has it, the fastest one begins: a busy server or worker needs seconds to start or replay a workflow. An activity
 *    that does not find its head start here waits for the outcome in the row (claims/claim-when-free.ts).
 * 3. An activity adopts the outcome of its unit, except: abort, lost, paused, earlier and waiting are of its moment, and the
 *    activity claims itself.
 * 4. What follows a settled unit begins at once. An activity reports it, too, if it settles within 25 ms; anything longer gets
 *    an activity of its own.
 *
 * The workflow decides by the same rules (domain/turn-loop.ts).
 */
export class HeadStarts {
  private readonly context: ActivityContext;
  private readonly cached: CachedSessions;
  private readonly slots: WaitingSlots;
  private readonly sessions = new Map<string, LedSession>();
  private readonly running = new Map<Promise<unknown>, Attempt>();
  private readonly elsewhere: SessionsElsewhere;
  private readonly unsubscribe: () => void;
  private isStopping = false;
  private readonly grace = new AbortController();

  constructor(context: ActivityContext, cached: CachedSessions, slots: WaitingSlots) {
    this.context = context;
    this.slots = slots;
    this.cached = cached;
    cached.onEvicted((sessionId) => this.evicted(sessionId));
    this.elsewhere = new SessionsElsewhere(context.bus, (sessionId) => this.sessions.has(sessionId));
    this.unsubscribe = context.bus.subscribe((event) => {
      if (event.kind === 'reconnected' || event.run === undefined) return;
      if (event.kind === 'accepted') this.accepted(event.session, event.run);
      else if (event.kind === 'answered') this.answered(event.session, event.run);
      else if (event.kind === 'status') context.admission.begunElsewhere(event.session, event.run);
    });
  }

  /**
   * The activity `streamStep`: adopts its head start, or makes the step.
   * @throws {ApplicationFailure} `Busy`: its turn waits for room without it
   */
  async step(args: StepArgs): Promise<StepOutcome> {
    const { context } = this;
    if (this.slots.isFullFor(args)) {
      this.accepted(args.session_id, args.run_seq);
      throw busy();
    }
    using _ = this.slots.hold(args);
    return await this.perform<StepOutcome>(args, (attempt) =>
      whenAdmitted(context, args, attempt, (countStream) => streamStepActivity(context, args, attempt, countStream)),
    );
  }

  /** The activity `runTool`: adopts its head start, or runs the tool. */
  tool(args: ToolArgs): Promise<ToolOutcome> {
    return this.perform<ToolOutcome>(args, (attempt) => runToolActivity(this.context, args, attempt));
  }

  /** Whether a head start is running. */
  get isBusy(): boolean {
    return this.running.size > 0;
  }

  /** Fires when this worker, which is to stop, waits no longer. */
  get graceOver(): AbortSignal {
    return this.grace.signal;
  }

  /**
   * Begins no more turns, and waits for head starts in progress. After `graceMs` all work is stopped, and another worker
   * continues it.
   */
  async stop(graceMs: number): Promise<void> {
    this.isStopping = true;
    this.unsubscribe();
    this.elsewhere.close();
    this.context.admission.close();
    for (const { byRow } of this.sessions.values()) clearTimeout(byRow);
    // Temporal stops activities then, too, but not those that an operator has paused.
    setTimeout(() => this.grace.abort(), graceMs).unref();
    await Promise.allSettled(this.running.keys());
  }

  private async perform<Kind extends StepOrToolOutcome>(
    args: StepOrToolArgs,
    work: (attempt: Attempt) => Promise<Kind>,
  ): Promise<Kind> {
    const session = this.led(args);
    try {
      return await this.performFor(session, args, work);
    } finally {
      if (session !== undefined) this.forgetUnlessCached(session);
    }
  }

  private async performFor<Kind extends StepOrToolOutcome>(
    session: LedSession | undefined,
    args: StepOrToolArgs,
    work: (attempt: Attempt) => Promise<Kind>,
  ): Promise<Kind> {
    const activity = Context.current();
    const headStart = session && takeHeadStart(session, args);
    let hasBegun = false;
    if (session && headStart) {
      headStart.attempt.stop.attach(activity, this.context.settings);
      const outcome = await headStart.outcome.catch(() => undefined);
      if (outcome !== undefined && isAdoptable(outcome, args)) return reportTogether(session, args, outcome as Kind);
      hasBegun = outcome?.kind === 'lost' && !this.context.admission.keeps(args.session_id);
    }
    using stop = new RunStop(this.context.bus, args, this.graceOver);
    stop.attach(activity, this.context.settings);
    const attempt = { ...attemptOf(args, activity.info.attempt, stop), ...(hasBegun && { hasBegun: true as const }) };
    const inTime = stop.inTime(work(attempt));
    if (session === undefined) return await inTime;
    return await reportTogether(session, args, await this.follow(session, args, inTime));
  }

  /** The session, if it may be led. Learns from an activity which epoch, ordinal and run the workflow has reached. */
  private led(args: StepOrToolArgs): LedSession | undefined {
    const { session_id: sessionId, epoch, ordinal, run_seq: run } = args;
    let session = this.sessions.get(sessionId);
    if (session !== undefined && session.epoch > epoch) return undefined;
    if (session?.epoch !== epoch) {
      // The rows' head starts outlast a load.
      session = ledSession(sessionId, epoch, session?.begun);
      this.sessions.set(sessionId, session);
    }
    session.used = Math.max(session.used, ordinal);
    session.ordinal = Math.max(session.ordinal, ordinal);
    session.newestRun = Math.max(session.newestRun, run);
    for (const [key, each] of session.begun) if (each.run < run) session.begun.delete(key);
    return session;
  }

  private accepted(sessionId: string, run: number): void {
    const session = this.sessions.get(sessionId);
    if (session === undefined) {
      if (!this.elsewhere.has(sessionId)) void this.beginByRow(sessionId, run);
      return;
    }
    if (run <= session.newestRun) return;
    if (session.active > 0) session.waiting.add(run);
    else this.beginRun(session, run);
  }

  /** Goes on with a run that waited, if this process knows where it stands, and its activity has told that it waits. */
  private answered(sessionId: string, run: number): void {
    const session = this.sessions.get(sessionId);
    if (session?.at?.run !== run || run !== session.newestRun || session.active > 0 || !this.mayLead(session)) return;
    this.begin(session, run, nextUnit(session.at));
  }

  /** Begins a run of a session whose workflow is in no worker's cache, as far as this process has heard. */
  private async beginByRow(sessionId: string, run: number): Promise<void> {
    // If Postgres does not answer, the workflow's activity begins the run.
    const found = await findStartableRun(this.context.db, sessionId, run).catch(() => undefined);
    if (found === undefined || this.isStopping) return;
    // Its workflow may have come meanwhile.
    if (!this.sessions.has(sessionId)) {
      const session = ledSession(sessionId, found.epoch);
      this.sessions.set(sessionId, session);
      this.leadByRow(session);
    }
    this.accepted(sessionId, run);
  }

  /** Goes on with the turns that a lost worker had begun and that no activity has adopted, and begins those that nobody has. */
  takeOver({ runs, queued }: LostWork): void {
    this.context.bus.publish({ session: ANY_SESSION, kind: 'evicted' });
    if (this.isStopping) return;
    for (const run of runs) this.goOn(run);
    for (const { session_id, run_seq } of queued)
      if (!this.sessions.has(session_id)) void this.beginByRow(session_id, run_seq);
  }

  private goOn({ session_id: sessionId, run_seq: run, step, calls, fence }: LostRun): void {
    const known = this.sessions.get(sessionId);
    const [epoch, ordinal] = fence;
    // Its workflow has come here meanwhile.
    if (known !== undefined && (known.active > 0 || known.epoch > epoch || known.newestRun > run)) return;
    const session = { ...ledSession(sessionId, epoch), newestRun: run, used: ordinal - 1, ordinal: ordinal - 1 };
    session.at = { run, step, calls };
    this.sessions.set(sessionId, session);
    this.leadByRow(session);
    this.begin(session, run, nextUnit(session.at), fence);
  }

  private leadByRow(session: LedSession): void {
    clearTimeout(session.byRow);
    session.byRow = setTimeout(() => {
      if (session.active > 0) this.leadByRow(session);
      else this.endLeadByRow(session);
    }, LEAD_BY_ROW_MS).unref();
  }

  /** A claim was refused. If it is because a workflow has loaded the session, its activity may come much later. */
  private overtaken(session: LedSession, run: number): void {
    const { sessionId, waiting } = session;
    if (this.sessions.get(sessionId) !== session) return;
    clearTimeout(session.byRow);
    this.sessions.delete(sessionId);
    void this.beginByRow(sessionId, run).then(() => {
      for (const each of waiting) this.accepted(sessionId, each);
    });
  }

  private endLeadByRow(session: LedSession): void {
    const { sessionId } = session;
    clearTimeout(session.byRow);
    session.byRow = undefined;
    if (this.cached.has(sessionId) || this.sessions.get(sessionId) !== session) return;
    this.sessions.delete(sessionId);
    this.context.bus.publish({ session: sessionId, kind: 'evicted' });
  }

  private beginRun(session: LedSession, run: number): void {
    // A late activity of an older run reads the outcome from the row.
    if (session.begun.size >= MAX_KEPT) session.begun.clear();
    if (!this.mayLead(session)) return;
    session.newestRun = run;
    if (session.byRow !== undefined) this.leadByRow(session);
    // The workflow may skip runs that were over before it was woken, so their ordinals are not counted.
    session.ordinal = session.used;
    this.begin(session, run, { kind: 'step', step: 0 });
  }

  /** Head starts that do something, without those that wait for room. */
  private get busy(): number {
    return this.running.size - this.context.admission.waiting;
  }

  private mayLead(session: LedSession): boolean {
    const isCurrent = this.sessions.get(session.sessionId) === session;
    const isLed = session.byRow !== undefined || this.cached.has(session.sessionId);
    return isCurrent && isLed && !this.isStopping && aheadOf(session) < MAX_AHEAD && this.busy < MAX_RUNNING;
  }

  /** @param takenOver the fence under which to go on with a unit of a lost worker */
  private begin(session: LedSession, run: number, unit: TurnUnit<ToolCallRef>, takenOver?: Fence): void {
    session.ordinal += 1;
    const { sessionId: session_id, epoch, ordinal } = session;
    const given = { session_id, run_seq: run, step: unit.step, epoch, ordinal };
    const args: StepOrToolArgs =
      unit.kind === 'tool'
        ? { ...given, ...unit.call }
        : { ...given, attempt: 1, started_at: Date.now(), compaction: 'ask' };
    if (session.begun.has(keyOf(args))) return;
    const stop = new RunStop(this.context.bus, args, this.graceOver);
    const attempt = attemptOf(args, 0, stop);
    attempt.claim.worker = this.context.worker;
    if (takenOver !== undefined) {
      attempt.claim.fence = takenOver;
      attempt.hasBegun = true;
    }
    const outcome = this.follow(session, args, stop.inTime(this.work(args, attempt)));
    this.running.set(outcome, attempt);
    const end = () => {
      stop[Symbol.dispose]();
      this.running.delete(outcome);
    };
    const ended = ({ kind }: StepOrToolOutcome) => {
      end();
      if (kind === 'lost' && unit.kind === 'step' && unit.step === 0) this.overtaken(session, run);
    };
    outcome.then(ended, (error: unknown) => {
      end();
      if (stop.why === 'shutdown' || this.isStopping) return;
      this.context.log.warn({ err: error, session: session_id, run }, 'a head start failed: its activity starts again');
    });
    session.begun.set(keyOf(args), { run, attempt, outcome });
  }

  private work(args: StepOrToolArgs, attempt: Attempt): Promise<StepOrToolOutcome> {
    const { context } = this;
    if (isTool(args)) return announced(context, attempt, runToolActivity(context, args, attempt));
    return whenAdmitted(context, args, attempt, (countStream) =>
      announced(context, attempt, streamStepActivity(context, args, attempt, countStream)),
    );
  }

  /** Waits for a unit's outcome, and begins what follows it before anybody else hears of it. */
  private async follow<Kind extends StepOrToolOutcome>(
    session: LedSession,
    args: StepOrToolArgs,
    work: Promise<Kind>,
  ): Promise<Kind> {
    session.active += 1;
    let outcome: Kind;
    try {
      outcome = await work;
    } finally {
      session.active -= 1;
    }
    this.continue(session, args, outcome);
    this.forgetUnlessCached(session);
    return outcome;
  }

  private continue(session: LedSession, args: StepOrToolArgs, outcome: StepOrToolOutcome): void {
    const { run_seq: run, step } = args;
    const before = session.at;
    // A tool that has only begun has not settled: the workflow shows the new phase first.
    // Nor has one that waits for a child: the workflow makes the call again.
    if (outcome.kind === 'begun' || outcome.kind === 'task') return;
    session.at = outcome.kind === 'waiting' && before?.run === run ? before : undefined;
    if (outcome.kind === 'waiting') return;
    if (outcome.kind === 'earlier') {
      session.waiting.add(run);
      session.newestRun = outcome.runs[0]?.run_seq ?? run;
    }
    // A late activity of a run that is over.
    if (outcome.kind === 'ended') this.beginWaiting(session);
    if (outcome.kind !== 'settled') return;
    if ('state' in outcome) {
      if (outcome.state === 'running') {
        session.at = { run, ...positionAfter({ calls: [] }, { kind: 'step', step }, outcome.tool_calls) };
      } else if (outcome.state === 'finished') this.beginWaiting(session);
    } else if (isTool(args) && before?.run === run && before.calls[0]?.tool_call_id === args.tool_call_id) {
      session.at = { run, ...positionAfter(before, { kind: 'tool', step, call: args }, []) };
    }
    if (session.at !== undefined && run === session.newestRun && this.mayLead(session)) {
      this.begin(session, run, nextUnit(session.at));
    }
  }

  private beginWaiting(session: LedSession): void {
    for (const run of session.waiting) if (run <= session.newestRun) session.waiting.delete(run);
    if (session.waiting.size > 0) this.beginRun(session, Math.min(...session.waiting));
  }

  /** Work in progress is still adopted: the workflow is replayed under the same epoch. */
  private evicted(sessionId: string): void {
    const session = this.sessions.get(sessionId);
    if (session === undefined) return;
    this.forgetUnlessCached(session);
    this.context.bus.publish({ session: sessionId, kind: 'evicted' });
  }

  /** Outcomes that are not adopted yet are in the rows. */
  private forgetUnlessCached(session: LedSession): void {
    const { sessionId, active, byRow } = session;
    if (active > 0 || byRow !== undefined || this.cached.has(sessionId) || this.sessions.get(sessionId) !== session)
      return;
    this.sessions.delete(sessionId);
  }
}
