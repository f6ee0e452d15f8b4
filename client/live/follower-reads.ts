import type { SessionStatus } from '../../domain/runs.ts';
import { type Answer, type AnswerRequest, readAnswers } from '../../store/answers.ts';
import type { Db } from '../../store/db.ts';
import { type Followed, type FollowedRequest, readFollowed, readStatuses } from '../../store/status.ts';
import type { Limiter } from '../wait/limiter.ts';
import { MAX_SHARED_BYTES, type SharedReadOptions, SharedReads } from './shared-reads.ts';

/** Share of the concurrent statements that may read a large answer each, so that others continue meanwhile. */
const LARGE_SHARE = 0.5;

/**
 * What the followers of answers and sessions read, in statements that all followers in a process share. Results may be
 * shared, so callers must not change them.
 */
export class FollowerReads {
  private readonly answers: SharedReads<AnswerRequest, Answer | undefined>;
  private readonly sessions: SharedReads<FollowedRequest, Followed | undefined>;
  private readonly statuses: SharedReads<string, SessionStatus | undefined>;

  /** @param limiter limits concurrent statements */
  constructor(db: Db, limiter: Limiter) {
    const options = {
      limit: limiter.run,
      maxAlone: Math.max(1, Math.floor(limiter.most * LARGE_SHARE)),
    };
    this.answers = new SharedReads({
      ...options,
      read: (requests, { isAlone }) => readAnswers(db, requests, isAlone ? {} : { maxBytes: MAX_SHARED_BYTES }),
    });
    this.sessions = new SharedReads({ ...options, read: (requests) => readFollowed(db, requests) });
    this.statuses = new SharedReads({ ...options, read: (requests) => readStatuses(db, requests) });
  }

  /**
   * A run's answer from a cursor on; undefined: the user has no such run.
   * @param options as in `SharedReads.read`
   */
  answer(request: AnswerRequest, options?: SharedReadOptions): Promise<Answer | undefined> {
    return this.answers.read(request, options);
  }

  /**
   * A session's state, status and turns; undefined: the user has no such session.
   * @param options as in `SharedReads.read`
   */
  session(request: FollowedRequest, options?: SharedReadOptions): Promise<Followed | undefined> {
    return this.sessions.read(request, options);
  }

  /**
   * The status of a session, whoever owns it; undefined: there is no such session.
   * @param options as in `SharedReads.read`
   */
  status(sessionId: string, options?: SharedReadOptions): Promise<SessionStatus | undefined> {
    return this.statuses.read(sessionId, options);
  }
}
