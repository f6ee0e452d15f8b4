import type { Renewal } from '../../store/leases.ts';

/**
 * After a restart of Postgres, and when connections were ended, others need up to this time to reconnect. After a crash the
 * table has only the leases of those that have reconnected.
 */
const RECONNECTING_MS = 5_000;
/** After a gap in its own renewals a worker judges others again after this many lengths of its lease. */
const LEASES_AFTER_GAP = 2;
/** Renewals that were held up together with the judge's own arrive within this time after it. */
const CONFIRM_MS = 100;

/**
 * Decides which workers are lost, from what a worker sees when it renews its own lease:
 *
 * 1. A worker that was held up itself judges nobody for a while: a restart or stall of Postgres, a machine that was
 *    suspended and a clock that was set hold up everybody's renewals.
 * 2. A lapsed lease is looked at twice: the judge may have renewed its own just before a stall, and not have noticed it.
 */
export class LeaseJudge {
  private readonly leaseMs: number;
  private readonly now: () => number;
  private connection: unknown;
  /** Judges nobody before this time. */
  private judgesFrom = 0;
  private lastLook = 0;
  /** Workers whose lease has lapsed, and when that was first seen. */
  private suspects = new Map<string, number>();

  constructor(leaseMs: number, now: () => number = () => performance.now()) {
    this.leaseMs = leaseMs;
    this.now = now;
  }

  /** The judge has taken its own lease, on a connection that may be new. Postgres has been up for `upMs`. */
  begin(connection: unknown, upMs: number): void {
    this.lastLook = this.now();
    this.spare(LEASES_AFTER_GAP * this.leaseMs);
    this.spare(RECONNECTING_MS - upMs);
    if (this.connection !== undefined && connection !== this.connection) this.spare(RECONNECTING_MS);
    this.connection = connection;
    this.suspects.clear();
  }

  /** Returns the workers that are lost, and when to look again at others: in milliseconds, at the latest. */
  look({ late, gap_ms: gapMs }: Renewal): { lost: string[]; againMs: number } {
    const now = this.now();
    const heldUpMs = Math.max(gapMs, now - this.lastLook);
    this.lastLook = now;
    if (heldUpMs > this.leaseMs) this.spare(LEASES_AFTER_GAP * this.leaseMs);
    if (now < this.judgesFrom) return { lost: [], againMs: Infinity };
    const suspects = new Map<string, number>();
    const lost: string[] = [];
    let againMs = Infinity;
    for (const { worker_id: worker, lease_ms, age_ms } of late) {
      let left = lease_ms - age_ms;
      if (left <= 0) {
        const since = this.suspects.get(worker) ?? now;
        left = since + CONFIRM_MS - now;
        if (left <= 0) lost.push(worker);
        else suspects.set(worker, since);
      }
      if (left > 0) againMs = Math.min(againMs, left);
    }
    this.suspects = suspects;
    return { lost, againMs };
  }

  /** Judges nobody for this time. */
  private spare(ms: number): void {
    this.judgesFrom = Math.max(this.judgesFrom, this.lastLook + ms);
  }
}
