import type { UIMessageChunk } from 'ai';
import { canonicalJson } from '../../domain/canonical-json.ts';
import { rowsToChunks, progressChunk, seenUntilCall } from '../../domain/rows-to-chunks.ts';
import type { RunState } from '../../domain/runs.ts';
import { cursorOf, NOTHING_SEEN, type Seen } from '../../domain/seen-part.ts';
import type { Answer, AnswerRequest } from '../../store/answers.ts';
import { sessionNotFound } from '../refusal-errors.ts';
import type { FollowerReads } from './follower-reads.ts';
import type { ReadingOptions } from './read-on-change.ts';
import type { SharedReadOptions } from './shared-reads.ts';

const ENDED: ReadonlySet<RunState> = new Set(['finished', 'aborted', 'error', 'cancelled']);

/** A run with nothing ahead of it that has not begun after this time waits for a worker, and its readers are told. */
const WAITS_MS = 1_000;
const WAITS = 'waiting for a worker';

/**
 * Reads one run's answer as chunks: first everything so far, then only new chunks. Transient parts report what the
 * message does not store: place in the queue, retries, waiting for a worker, and questions of children (`data-status`), a tool's progress, and
 * compactions of the conversation (`data-compaction`).
 */
export class AnswerReader {
  private readonly reads: FollowerReads;
  private readonly run: Omit<AnswerRequest, 'cursor'>;
  private seen: Seen = NOTHING_SEEN;
  private given: readonly string[] | undefined;
  private after: string | undefined;
  private status = '';
  private progress = 'null';
  private compaction = 'null';
  /** Since when nothing is ahead of the run, as far as this reader knows. */
  private headSince: number | undefined;

  /**
   * @param after the tool call up to which the reader has the answer, as a copy of its own
   * @param given the calls that this copy shows with an outcome
   */
  constructor(reads: FollowerReads, run: AnswerReader['run'], after?: string, given?: readonly string[]) {
    this.reads = reads;
    this.run = run;
    this.after = after;
    this.given = given;
  }

  /** @param options.isRetry the last reading failed: this one shares no statement with other readers */
  async read({ isRetry = false, signal }: ReadingOptions = {}): Promise<{
    items: UIMessageChunk[];
    done: boolean;
    againInMs?: number;
  }> {
    const options = { alone: isRetry, signal };
    const answer = await this.readRows(options);
    if (this.after !== undefined) this.seen = seenUntilCall(answer, this.after, this.given);
    this.after = undefined;
    this.given = undefined;
    const { seen, chunks } = rowsToChunks(this.seen, answer);
    const waited = this.waited(answer);
    if (seen.ended) {
      // A reader that knows of a compaction hears of its end, before that of the answer.
      const compaction = this.compaction === 'null' ? [] : this.compactionChunks(answer);
      this.seen = seen;
      return { items: [...compaction, ...chunks], done: true };
    }
    const transient = [
      ...(await this.statusChunks(answer, waited, options)),
      ...this.progressChunks(answer),
      ...this.compactionChunks(answer),
    ];
    // Only now, so that the next reading brings these chunks if a query of this one fails.
    this.seen = seen;
    const again = waited !== undefined && waited < WAITS_MS ? { againInMs: WAITS_MS - waited } : {};
    return { items: [...chunks, ...transient], done: false, ...again };
  }

  private async readRows(options: SharedReadOptions): Promise<Answer> {
    const cursor = cursorOf(this.seen);
    const answer = await this.readFrom(cursor, options);
    const all = cursorOf(this.seen, { all: true });
    // The end of a run closes parts before the cursor that lost attempts left open.
    return ENDED.has(answer.run_state) && all.index < cursor.index ? this.readFrom(all, options) : answer;
  }

  private async readFrom(cursor: AnswerRequest['cursor'], options: SharedReadOptions): Promise<Answer> {
    const answer = await this.reads.answer({ ...this.run, cursor }, options);
    if (answer === undefined) throw sessionNotFound();
    return answer;
  }

  /** How long the run could have begun, in milliseconds; undefined: it cannot, or has. */
  private waited({ position }: Answer): number | undefined {
    const now = performance.now();
    if (position !== 0) this.headSince = undefined;
    else this.headSince ??= now;
    return this.headSince === undefined ? undefined : Math.ceil(now - this.headSince);
  }

  /** Reports when the run waits (queue, retry, busy workers, questions of children) and when it continues. */
  private async statusChunks(
    answer: Answer,
    waited: number | undefined,
    options: SharedReadOptions,
  ): Promise<UIMessageChunk[]> {
    const { position, retry, questions, user_message_id } = answer;
    const isLate = waited !== undefined && waited >= WAITS_MS;
    const mark = canonicalJson({ position, retry, isLate, questions });
    const waits = (position ?? 0) > 0 || retry !== null || isLate || questions !== null;
    if (mark === this.status || (this.status === '' && !waits)) return [];
    const status = await this.reads.status(this.run.sessionId, options);
    this.status = mark;
    const data = {
      ...status,
      position: position ?? 0,
      ...(isLate && status?.state === 'busy' && { message: WAITS }),
      ...(position === null && { message_id: user_message_id }),
    };
    return [{ type: 'data-status', transient: true, data }];
  }

  private progressChunks({ progress }: Answer): UIMessageChunk[] {
    const mark = canonicalJson(progress);
    if (mark === this.progress) return [];
    this.progress = mark;
    return progress === null ? [] : [progressChunk(progress)];
  }

  private compactionChunks({ compaction }: Answer): UIMessageChunk[] {
    const mark = canonicalJson(compaction);
    if (mark === this.compaction) return [];
    this.compaction = mark;
    // None any more: an attempt whose worker was lost has asked for it, and the next one did not.
    return [{ type: 'data-compaction', transient: true, data: compaction ?? { state: 'none' } }];
  }
}
