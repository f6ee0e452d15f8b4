import { backoffMs } from '../../bus/backoff.ts';
import { changedSessions, type SessionVersion } from '../../store/changes.ts';
import type { Db } from '../../store/db.ts';
import type { ClientLog } from '../log.ts';
import { AutoResetEvent } from '../wait/auto-reset-event.ts';

/** Time between the starts of two polls: readers see a change whose pointer was lost within a second. */
const POLL_MS = 700;
/** Maximum share of time spent polling: with more sessions, or a slower Postgres, polls become less frequent. */
const MAX_SHARE = 0.2;
/** Maximum number of sessions per statement, to keep statements short. */
const BATCH = 2_000;

export interface ChangePollOptions {
  db: Db;
  log: ClientLog;
  /** Called when a session has changed; `run` is set if only that run's answer has grown. */
  onChange(sessionId: string, run: number | undefined): void;
}

/**
 * Polls Postgres every 0.7 s for changes of the watched sessions, with one statement for all of them. This finds
 * changes whose pointer was lost; readers themselves never poll.
 *
 * 1. A newly watched session is reported once: it may have changed since its reader last read it.
 * 2. A failed poll only delays the next one; readers do not notice.
 */
export class ChangePoll {
  private readonly options: ChangePollOptions;
  private readonly known = new Map<string, SessionVersion | undefined>();
  private readonly wake = new AutoResetEvent();
  private readonly closing = new AbortController();
  private isRunning = false;

  constructor(options: ChangePollOptions) {
    this.options = options;
  }

  watch(sessionId: string): void {
    this.known.set(sessionId, undefined);
    if (!this.isRunning) void this.run();
  }

  unwatch(sessionId: string): void {
    this.known.delete(sessionId);
  }

  /** Polls at once: pointers may have been lost. */
  pollNow(): void {
    this.wake.set();
  }

  close(): void {
    this.closing.abort();
    this.known.clear();
  }

  /** Polls while any session is watched. */
  private async run(): Promise<void> {
    this.isRunning = true;
    const { signal } = this.closing;
    let failures = 0;
    let tookMs = 0;
    while (this.known.size > 0 && !signal.aborted) {
      const pause = Math.max(POLL_MS - tookMs, tookMs * (1 / MAX_SHARE - 1));
      await this.wake.wait(failures > 0 ? backoffMs(failures) : pause, signal);
      const from = performance.now();
      try {
        await this.poll();
        failures = 0;
      } catch (error) {
        failures += 1;
        this.options.log.warn({ err: error, failures }, 'the changes of watched sessions could not be read');
      }
      tookMs = performance.now() - from;
    }
    this.isRunning = false;
  }

  private async poll(): Promise<void> {
    const all = [...this.known];
    for (let at = 0; at < all.length; at += BATCH) {
      const changes = await changedSessions(this.options.db, all.slice(at, at + BATCH));
      for (const { sessionId, version } of changes) this.report(sessionId, version);
    }
  }

  private report(sessionId: string, version: SessionVersion): void {
    if (!this.known.has(sessionId)) return;
    const before = this.known.get(sessionId);
    this.known.set(sessionId, version);
    const hasGrownOnly = before?.state === version.state && version.run !== null;
    this.options.onChange(sessionId, hasGrownOnly ? (version.run ?? undefined) : undefined);
  }
}
