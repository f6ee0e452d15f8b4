import { canonicalJson } from '../domain/canonical-json.ts';
import type { SessionStatus } from '../domain/runs.ts';
import type { Db } from '../store/db.ts';
import { readStanding, readTurns, type Standing, type TurnRow } from '../store/status.ts';
import { sessionNotFound } from './refusals.ts';

/** What happens to a session, as those learn it who follow it. */
export type TurnEvent =
  | { event: 'status'; data: SessionStatus }
  | { event: 'session'; data: Standing }
  | { event: 'turn-started'; data: { message_id: string; run_seq: number } }
  | { event: 'turn-finished'; data: TurnFinished };

/** How a turn ended; of an error, its code and what to do. */
export interface TurnFinished {
  message_id: string;
  run_seq: number;
  outcome: 'finish' | 'abort' | 'error';
  code?: string;
  message?: string;
}

const OUTCOMES = { finished: 'finish', aborted: 'abort', error: 'error' } as const;

/**
 * Reads a session's status, its state and its turns. The first reading tells the status as it is; of the state only
 * changes are told, and what has happened before is not told again. A turn that begins and ends between two readings is
 * told of as one that began and ended.
 */
export class TurnReading {
  private readonly db: Db;
  private readonly userId: string;
  private readonly sessionId: string;
  private readonly started = new Set<number>();
  private status = '';
  private standing = '';
  private fromSeq = -1;

  constructor(db: Db, userId: string, sessionId: string) {
    this.db = db;
    this.userId = userId;
    this.sessionId = sessionId;
  }

  async read(): Promise<{ items: TurnEvent[]; done: boolean }> {
    const found = await readStanding(this.db, this.userId, this.sessionId);
    if (found === undefined) throw sessionNotFound();
    // Read after the status: a session that is told to be idle has been told how its turn ended.
    const turns = await readTurns(this.db, this.sessionId, Math.max(0, this.fromSeq));
    const isFirst = this.fromSeq < 0;
    const told = [...this.standingEvents(found.session), ...turns.flatMap((turn) => this.eventsOf(turn))];
    const open = turns.find((turn) => !isOver(turn));
    this.fromSeq = open?.seq ?? Math.max(this.fromSeq, 1, ...turns.map((turn) => turn.seq + 1));
    return { items: [...(isFirst ? [] : told), ...this.statusEvents(found.status)], done: false };
  }

  private eventsOf(turn: TurnRow): TurnEvent[] {
    if (turn.state === 'queued' || turn.state === 'cancelled') return [];
    const { message_id, seq: run_seq, error_code, error_message } = turn;
    const events: TurnEvent[] = [];
    if (!this.started.has(run_seq)) events.push({ event: 'turn-started', data: { message_id, run_seq } });
    this.started.add(run_seq);
    if (turn.state === 'running' || turn.state === 'waiting') return events;
    this.started.delete(run_seq);
    const error = { ...(error_code && { code: error_code }), ...(error_message && { message: error_message }) };
    const outcome = OUTCOMES[turn.state];
    return [...events, { event: 'turn-finished', data: { message_id, run_seq, outcome, ...error } }];
  }

  private standingEvents(session: Standing): TurnEvent[] {
    const mark = canonicalJson(session);
    if (mark === this.standing) return [];
    this.standing = mark;
    return [{ event: 'session', data: session }];
  }

  private statusEvents(status: SessionStatus): TurnEvent[] {
    const mark = canonicalJson(status);
    if (mark === this.status) return [];
    this.status = mark;
    return [{ event: 'status', data: status }];
  }
}

function isOver({ state }: TurnRow): boolean {
  return state !== 'queued' && state !== 'running' && state !== 'waiting';
}
