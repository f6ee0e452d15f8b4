import { ApplicationFailure } from '@temporalio/activity';
import type { StepArgs } from '../../domain/activities.ts';
import type { Admission } from './admission.ts';

/** The server offers the activity again after this time. Its turn keeps its place in the line. */
const AGAIN = '10s';
/** An activity is in the line within this time, or its turn has begun. */
const ARRIVES_MS = 1_000;

/**
 * Bounds how many of a worker's slots are held by activities whose turns wait for room: tools, and steps of turns that run,
 * need slots, too.
 */
export class WaitingSlots {
  private readonly admission: Admission;
  private readonly most: number;
  /** When each activity of a turn that may wait came, by session. */
  private readonly since = new Map<string, number>();

  constructor(admission: Admission, most: number) {
    this.admission = admission;
    this.most = most;
  }

  /** Whether the turn of this step would wait and too many do. */
  isFullFor({ session_id: session, step, attempt }: StepArgs): boolean {
    if (step > 0 || attempt > 1 || !(this.admission.holds(session) || this.admission.isFull)) return false;
    const now = performance.now();
    const held = this.since.entries().filter(([each, at]) => now - at < ARRIVES_MS || this.admission.holds(each));
    return held.toArray().length >= this.most;
  }

  /** Counts an activity until it is disposed. */
  hold({ session_id: session, step }: StepArgs): Disposable {
    if (step === 0) this.since.set(session, performance.now());
    return { [Symbol.dispose]: () => void this.since.delete(session) };
  }
}

/** Gives the activity back to the server for a while. */
export function busy(): ApplicationFailure {
  return ApplicationFailure.create({ message: 'Busy', type: 'Busy', nextRetryDelay: AGAIN });
}
