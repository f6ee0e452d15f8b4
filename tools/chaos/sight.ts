// What the turns of a session have seen, from what has hidden its messages since then.
import { answeredAgain } from './answered-again.ts';
import { by, type Evidence, type MessageRow } from './evidence.ts';
import { summariesOf } from './summaries.ts';

/** Knows which messages a turn saw. */
export class Sight {
  private readonly messages: MessageRow[];
  private readonly byId: ReadonlyMap<string, MessageRow>;
  /** When each event happened, by `event:` and its number, and when each new answer was asked for, by its id. */
  private readonly events: ReadonlyMap<string, Date>;
  /** Messages that were taken out of the queue, and never asked for again: no other turn saw them. */
  private readonly cancelled: ReadonlySet<string>;
  /** The position of the message with the summary of each call of the summarizer. */
  private readonly floors: ReadonlyMap<number, number>;

  constructor(
    { messages, events, parts, runs }: Pick<Evidence, 'messages' | 'events' | 'parts' | 'runs'>,
    session: string,
  ) {
    this.messages = messages.filter((row) => row.session_id === session);
    this.byId = new Map(this.messages.map((row) => [row.id, row]));
    const own = events.filter((event) => event.session_id === session);
    const ownRuns = runs.filter((run) => run.session_id === session);
    this.events = new Map([
      ...own.map(({ seq, at }) => [`event:${seq}`, at] as const),
      ...answeredAgain({ runs: ownRuns, events: own }).map(({ answer, at }) => [answer, at] as const),
    ]);
    const turns = [...by(ownRuns, (run) => run.message_id)];
    const taken = turns.filter(([, all]) => all.length === 1 && all[0]!.state === 'cancelled');
    this.cancelled = new Set(taken.map(([message]) => message));
    const made = summariesOf(parts.filter((part) => part.session_id === session));
    this.floors = new Map(made.map(({ message, call }) => [call, this.byId.get(message)!.position]));
  }

  /** Names of the user messages in a request of the turn of `own` that shows these summaries. */
  by(own: MessageRow, summaries: readonly number[]): string[] {
    const floor = Math.max(0, ...summaries.map((call) => this.floors.get(call) ?? Infinity));
    return this.messages
      .filter(({ role, position }) => role === 'user' && position > floor && position <= own.position)
      .filter((row) => this.wasVisible(row, own.created_at))
      .map(({ tag }) => tag);
  }

  /**
   * Whether a message was part of the conversation of a turn whose message was accepted at a time. A rewind, an edit or a new
   * answer ends what is in flight, so it came after every turn that was accepted before it. A summary shows itself by the
   * request.
   */
  private wasVisible({ id: row, hidden_at, metadata: { hidden_by } }: MessageRow, at: Date): boolean {
    if (hidden_at === null || hidden_by === undefined) return true;
    if (this.cancelled.has(row)) return false;
    const { cause, id } = hidden_by;
    const hider = this.byId.get(id);
    if (cause === 'compaction') return hider === undefined || this.wasVisible(hider, at);
    const since = this.events.get(id) ?? hider?.created_at;
    return since !== undefined && at < since;
  }
}
