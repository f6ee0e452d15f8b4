import { canonicalJson } from '../domain/canonical-json.ts';
import type { SessionStatus } from '../domain/runs.ts';
import type { Db } from '../store/db.ts';
import { readSessionState, readTurns, type SessionState, type TurnRow } from '../store/status.ts';
import { sessionNotFound } from './refusals.ts';

/** The events of a session that followers receive. */
export type TurnEvent =
  | { event: 'status'; data: SessionStatus }
  | { event: 'session'; data: SessionState }
  | { event: 'turn-started'; data: { message_id: string; run_seq: number } }
  | { event: 'turn-finished'; data: TurnFinished };

/** How a turn ended; for an error, its code and a message that says what to do. */
export interface TurnFinished {
  message_id: string;
  run_seq: number;
  outcome: 'finish' | 'abort' | 'error';
  code?: string;
  message?: string;
}

const OUTCOMES = { finished: 'finish', aborted: 'abort', error: 'error' } as const;

/**
 * Reads a session's status, state and turns. The first reading yields the status only: state and turns are reported when
 * they change. A turn that begins and ends between two readings yields both events.
 */
export class TurnReading {
  private readonly db: Db;
  private readonly userId: string;
  private readonly sessionId: string;
  private readonly started = new Set<number>();
  private status = '';
  private state = '';
  private fromSeq = -1;

  constructor(db: Db, userId: string, sessionId: string) {
    this.db = db;
    this.userId = userId;
    this.sessionId = sessionId;
  }

  async read(): Promise<{ items: TurnEvent[]; done: boolean }> {
    const found = await readSessionState(this.db, this.userId, this.sessionId);
    if (found === undefined) throw sessionNotFound();
    // Turns are read after the status but reported before it, so that a follower who sees `idle` has seen how the turn
    // ended.
    const turns = await readTurns(this.db, this.sessionId, Math.max(0, this.fromSeq));
    const isFirst = this.fromSeq < 0;
    const news = [...this.stateEvents(found.session), ...turns.flatMap((turn) => this.eventsOf(turn))];
    const open = turns.find((turn) => !isOver(turn));
    this.fromSeq = open?.seq ?? Math.max(this.fromSeq, 1, ...turns.map((turn) => turn.seq + 1));
    return { items: [...(isFirst ? [] : news), ...this.statusEvents(found.status)], done: false };
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

  private stateEvents(session: SessionState): TurnEvent[] {
    const mark = canonicalJson(session);
    if (mark === this.state) return [];
    this.state = mark;
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
