import type { UIMessageChunk } from 'ai';
import { canonicalJson } from '../domain/canonical-json.ts';
import type { RunState } from '../domain/runs.ts';
import { advance, progressChunk } from '../domain/stream.ts';
import { cursorOf, NOTHING_SEEN, type Seen } from '../domain/stream-seen.ts';
import { type Answer, readAnswer } from '../store/answers.ts';
import type { Db } from '../store/db.ts';
import { readStatus } from '../store/status.ts';
import { sessionNotFound } from './refusals.ts';

const ENDED: ReadonlySet<RunState> = new Set(['finished', 'aborted', 'error', 'cancelled']);

/**
 * Reads one run's answer as chunks: first everything so far, then only new chunks. Transient parts report what the
 * message does not store: place in the queue and retries (`data-status`), and a tool's progress.
 */
export class AnswerReading {
  private readonly db: Db;
  private readonly run: { userId: string; sessionId: string; runSeq: number };
  private seen: Seen = NOTHING_SEEN;
  private status = '';
  private progress = 'null';

  constructor(db: Db, run: AnswerReading['run']) {
    this.db = db;
    this.run = run;
  }

  async read(): Promise<{ items: UIMessageChunk[]; done: boolean }> {
    const answer = await this.readRows();
    const { seen, chunks } = advance(this.seen, answer);
    const transient = seen.ended ? [] : [...(await this.statusChunks(answer)), ...this.progressChunks(answer)];
    // Only now, so that the next reading brings these chunks if a query of this one fails.
    this.seen = seen;
    return { items: [...chunks, ...transient], done: seen.ended };
  }

  private async readRows(): Promise<Answer> {
    const cursor = cursorOf(this.seen);
    const answer = await this.readFrom(cursor);
    const all = cursorOf(this.seen, { all: true });
    // The end of a run closes parts before the cursor that lost attempts left open.
    return ENDED.has(answer.run_state) && all.index < cursor.index ? this.readFrom(all) : answer;
  }

  private async readFrom(cursor: ReturnType<typeof cursorOf>): Promise<Answer> {
    const answer = await readAnswer(this.db, this.run, cursor);
    if (answer === undefined) throw sessionNotFound();
    return answer;
  }

  /** Reports when the run waits (queue, retry) and when it continues. */
  private async statusChunks(answer: Answer): Promise<UIMessageChunk[]> {
    const { position, retry, user_message_id } = answer;
    const mark = canonicalJson({ position, retry });
    const waits = (position ?? 0) > 0 || retry !== null;
    if (mark === this.status || (this.status === '' && !waits)) return [];
    const status = await readStatus(this.db, this.run.sessionId);
    this.status = mark;
    const data = { ...status, position: position ?? 0, ...(position === null && { message_id: user_message_id }) };
    return [{ type: 'data-status', transient: true, data }];
  }

  private progressChunks({ progress }: Answer): UIMessageChunk[] {
    const mark = canonicalJson(progress);
    if (mark === this.progress) return [];
    this.progress = mark;
    return progress === null ? [] : [progressChunk(progress)];
  }
}
