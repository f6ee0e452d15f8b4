import { canonicalJson } from '../../domain/canonical-json.ts';
import type { SessionStatus } from '../../domain/runs.ts';
import { LASTING_SCOPES, type LastingScope } from '../../domain/state-keys.ts';
import type { Followed, FollowedSession, TurnRow } from '../../store/status.ts';
import { sessionNotFound } from '../refusal-errors.ts';
import type { FollowerReads } from './follower-reads.ts';
import type { ReadingOptions } from './read-on-change.ts';

/** The events of a session that followers receive. */
export type TurnEvent =
  | { event: 'status'; data: SessionStatus }
  | { event: 'session'; data: FollowedSession }
  | { event: 'state'; data: StateChanged }
  | { event: 'permissions'; data: Record<string, never> }
  | { event: 'turn-started'; data: { message_id: string; run_seq: number } }
  | { event: 'approval-requested' | 'output-requested'; data: CallWaits }
  | { event: 'turn-finished'; data: TurnFinished };

/** A turn waits for an answer to a tool call, or for the output of a call that the page carries out. */
export interface CallWaits {
  message_id: string;
  run_seq: number;
  tool_call_id: string;
}

/** Scoped state has changed. */
export interface StateChanged {
  /** In which of the scopes that the session sees. */
  scopes: LastingScope[];
  /** Of the session, in epoch seconds, as `client.state` returns it; it does not tell of what other sessions changed. */
  lastUpdateTime: number;
}

/** How a turn ended; for an error, its code and a message that says what to do. */
export interface TurnFinished {
  message_id: string;
  run_seq: number;
  outcome: 'finish' | 'abort' | 'error';
  code?: string;
  message?: string;
}

const REQUESTS = { approval: 'approval-requested', output: 'output-requested' } as const;
const OUTCOMES = { finished: 'finish', aborted: 'abort', error: 'error' } as const;

/**
 * Reads a session's status, row, state, rules and turns. The first reading yields the status only: the others are reported when
 * they change. Of state it reports in which scopes it has changed, never values, and of rules only that they have. A turn that
 * begins and ends between two readings yields both events.
 */
export class TurnEventReader {
  private readonly reads: FollowerReads;
  private readonly userId: string;
  private readonly sessionId: string;
  private readonly started = new Set<number>();
  /** The last call that each turn in flight was seen to wait for. */
  private readonly waited = new Map<number, string>();
  private status = '';
  private session = '';
  private marks: Followed['marks'] | undefined;
  private rules = '';
  private fromSeq = -1;

  constructor(reads: FollowerReads, userId: string, sessionId: string) {
    this.reads = reads;
    this.userId = userId;
    this.sessionId = sessionId;
  }

  /** @param options.isRetry as in `AnswerReader.read` */
  async read({ isRetry = false, signal }: ReadingOptions = {}): Promise<{ items: TurnEvent[]; done: boolean }> {
    const { userId, sessionId } = this;
    const request = { userId, sessionId, fromSeq: Math.max(0, this.fromSeq) };
    const found = await this.reads.session(request, { alone: isRetry, signal });
    if (found === undefined) throw sessionNotFound();
    const { turns } = found;
    const isFirst = this.fromSeq < 0;
    const news = [
      ...this.sessionEvents(found.session),
      ...this.stateEvents(found),
      ...this.ruleEvents(found),
      ...turns.flatMap((turn) => this.eventsOf(turn)),
    ];
    const open = turns.find((turn) => !isOver(turn));
    this.fromSeq = open?.seq ?? Math.max(this.fromSeq, 1, ...turns.map((turn) => turn.seq + 1));
    // Turns before the status, so that a follower who sees `idle` has seen how the turn ended.
    return { items: [...(isFirst ? [] : news), ...this.statusEvents(found.status)], done: false };
  }

  private eventsOf(turn: TurnRow): TurnEvent[] {
    if (turn.state === 'queued' || turn.state === 'cancelled') return [];
    const { message_id, seq: run_seq, error_code, error_message } = turn;
    const events: TurnEvent[] = [];
    if (!this.started.has(run_seq)) events.push({ event: 'turn-started', data: { message_id, run_seq } });
    this.started.add(run_seq);
    if (turn.state === 'running' || turn.state === 'waiting') return [...events, ...this.requestOf(turn)];
    this.started.delete(run_seq);
    this.waited.delete(run_seq);
    const error = { ...(error_code && { code: error_code }), ...(error_message && { message: error_message }) };
    const outcome = OUTCOMES[turn.state];
    return [...events, { event: 'turn-finished', data: { message_id, run_seq, outcome, ...error } }];
  }

  private requestOf({ seq: run_seq, message_id, waiting }: TurnRow): TurnEvent[] {
    const mark = waiting === null ? '' : `${waiting.for} ${waiting.tool_call_id}`;
    const isNews = mark !== '' && mark !== this.waited.get(run_seq);
    this.waited.set(run_seq, mark);
    if (waiting === null || !isNews) return [];
    return [{ event: REQUESTS[waiting.for], data: { message_id, run_seq, tool_call_id: waiting.tool_call_id } }];
  }

  private sessionEvents(session: FollowedSession): TurnEvent[] {
    const mark = canonicalJson(session);
    if (mark === this.session) return [];
    this.session = mark;
    return [{ event: 'session', data: session }];
  }

  private stateEvents({ marks, state_at }: Followed): TurnEvent[] {
    const scopes = LASTING_SCOPES.filter((scope) => marks[scope] !== this.marks?.[scope]);
    this.marks = marks;
    return scopes.length === 0 ? [] : [{ event: 'state', data: { scopes, lastUpdateTime: state_at } }];
  }

  private ruleEvents({ rules_mark: mark }: Followed): TurnEvent[] {
    if (mark === this.rules) return [];
    this.rules = mark;
    return [{ event: 'permissions', data: {} }];
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
