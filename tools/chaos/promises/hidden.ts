import { answeredAgain } from '../answered-again.ts';
import { by, type MessageRow, type Rows } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import { isStored } from '../summaries.ts';

/** A rewind, an edit or a new answer that was not undone. */
interface Change {
  /** What the rows name that it hides. */
  id: string;
  /** Position of the message that was gone back to. */
  target: number;
  at: Date;
  /** Whether it may have been undone: its message was taken back at about the time at which another turn began. */
  isDoubtful: boolean;
}

type Session = Pick<Rows, 'messages' | 'events' | 'runs'>;

/** Each hidden row names the rewind, edit, compaction or cancel that hides it; what these hide is hidden, and nothing else. */
export function checkHidden(ledger: Ledger, rows: Session & Pick<Rows, 'parts'>): void {
  const [events, runs] = [by(rows.events, (row) => row.session_id), by(rows.runs, (row) => row.session_id)];
  const summaries = new Set(rows.parts.filter(({ data }) => data.type === 'data-compaction').map((p) => p.message_id));
  for (const [id, messages] of by(rows.messages, (row) => row.session_id)) {
    const session = { messages, events: events.get(id) ?? [], runs: runs.get(id) ?? [] };
    const queue = new Queue(session);
    const changes = standingChanges(session, queue);
    const certain = changes.filter(({ isDoubtful }) => !isDoubtful);
    for (const row of messages) {
      const where = `session ${id}, message ${row.id}`;
      if (row.hidden_at === null) {
        const over = certain.filter((one) => row.position > one.target && row.created_at < one.at && row.id !== one.id);
        ledger.check('what was gone back over is hidden', where, over.length === 0, () => ({ row, over }));
      } else {
        const wrong = faultOf(row, session, { changes, queue, summaries });
        ledger.check('a row is hidden only by its own cause', where, wrong === undefined, () => ({ wrong, row }));
      }
    }
  }
}

/** Which messages of a session were taken out of its queue, by a cancel or by what drops the queue. */
class Queue {
  private readonly session: Session;
  private readonly byId: ReadonlyMap<string, MessageRow>;

  constructor(session: Session) {
    this.session = session;
    this.byId = new Map(session.messages.map((row) => [row.id, row]));
  }

  /** Whether none of a message's runs has begun, and none will. */
  isCancelled(id: string): boolean {
    const runs = this.session.runs.filter((run) => run.message_id === id);
    return runs.length > 0 && runs.every(({ state }) => state === 'cancelled');
  }

  /** Whether a message, or what edits of it have put in its place, was taken back: what it had replaced is visible again. */
  isTakenBack(id: string): boolean {
    return this.newest(id)?.metadata.hidden_by?.cause === 'cancelled';
  }

  /** Whether another turn may have begun between a message and the one that was taken back in its place: then nothing is undone. */
  isDoubtful(id: string): boolean {
    const last = this.newest(id)?.id;
    const seqs = this.session.runs
      .filter((run) => run.message_id === id || run.message_id === last)
      .map(({ seq }) => seq);
    const [from, to] = [Math.min(...seqs), Math.max(...seqs)];
    return (
      this.isTakenBack(id) &&
      this.session.runs.some((run) => run.seq > from && run.seq < to && run.state !== 'cancelled')
    );
  }

  private newest(id: string): MessageRow | undefined {
    const row = this.byId.get(id);
    const { cause, id: next } = row?.metadata.hidden_by ?? {};
    return cause === 'edit' && next !== undefined ? this.newest(next) : row;
  }
}

/**
 * The rewinds of a session that were not undone, its edits and its new answers. A new message or answer makes what was rewound
 * final, unless it is taken back: then it, and an edit whose message it is, count as if they had never been.
 */
function standingChanges({ messages, events, runs }: Session, queue: Queue): Change[] {
  const byId = new Map(messages.map((row) => [row.id, row]));
  const accepted = messages
    .filter(({ role, id }) => role === 'user' && !queue.isCancelled(id))
    .map((row) => row.created_at);
  const again = answeredAgain({ events, runs }).filter(({ isTakenBack }) => !isTakenBack);
  const standing = new Set<Change>(
    again.map(({ message, answer: id, at }) => {
      return { id, target: byId.get(message)?.position ?? -1, at, isDoubtful: false };
    }),
  );
  let stack: { change: Change; message: unknown }[] = [];
  let last = new Date(0);
  for (const { seq, at, kind, data } of events) {
    if (accepted.some((time) => time > last && time < at)) stack = [];
    last = at;
    const id = String(data['message_id']);
    if (kind === 'rewind') {
      const change = { id: `event:${seq}`, target: byId.get(id)?.position ?? -1, at, isDoubtful: false };
      standing.add(change);
      if (stack.at(-1)?.message !== id || Number(data['hidden']) > 0) stack.push({ change, message: id });
    } else if (kind === 'unrewind') {
      const undone = stack.pop();
      if (undone) standing.delete(undone.change);
    } else if (kind === 'regenerate') {
      if (again.some((one) => one.at === at)) stack = [];
    } else if (kind === 'edit' && (!queue.isTakenBack(id) || queue.isDoubtful(id))) {
      stack = [];
      // Of a message that was queued nothing but the message itself is exchanged.
      const replaced = String(data['replaced']);
      const wasQueued = queue.isCancelled(replaced) && (data['dropped'] as unknown[]).includes(replaced);
      const target = byId.get(replaced)?.position ?? -1;
      if (!wasQueued) standing.add({ id, target, at, isDoubtful: queue.isDoubtful(id) });
    }
  }
  return [...standing];
}

interface Known {
  changes: readonly Change[];
  queue: Queue;
  summaries: ReadonlySet<string>;
}

/** What is wrong with the cause that a hidden row names. */
function faultOf(
  row: MessageRow,
  { messages, events }: Session,
  { changes, queue, summaries }: Known,
): string | undefined {
  const { cause, id = '' } = row.metadata.hidden_by ?? {};
  const hider = messages.find((one) => one.id === id);
  switch (cause) {
    case 'cancelled':
      return id === row.id && queue.isCancelled(id) ? undefined : 'its run was not cancelled';
    case 'rewind': {
      const change = changes.find((one) => one.id === id);
      if (change === undefined) return 'there is no such rewind, or it was undone';
      return row.position > change.target && row.created_at < change.at ? undefined : 'the rewind does not cover it';
    }
    case 'edit': {
      if (hider?.role !== 'user' || hider.position <= row.position) return 'no later message replaced it';
      const isEdited = events.some(
        ({ kind, data }) => kind === 'edit' && data['message_id'] === id && data['replaced'] === row.id,
      );
      const isRewound = events.some(({ kind, data }) => kind === 'rewind' && data['message_id'] === row.id);
      if (!isEdited && !isRewound) return 'it was neither edited nor gone back to';
      const isExchanged = isEdited && queue.isCancelled(row.id);
      return queue.isTakenBack(id) && !queue.isDoubtful(id) && !isExchanged
        ? 'what replaced it was taken back'
        : undefined;
    }
    case 'compaction': {
      const made = events.find((event) => isStored(event, id));
      if (made === undefined || hider === undefined || !summaries.has(hider.id)) return 'there is no such summary';
      // A summary that is kept only because it was paid for.
      if (id === row.id) return made.data['hidden'] === 0 ? undefined : 'a summary hides itself';
      if (row.position >= hider.position) return 'the summary is before it';
      const over = changes.filter((one) => !one.isDoubtful && one.at > made.at && one.target < hider.position);
      return over.some((one) => row.position <= one.target) ? 'its compaction was gone back over' : undefined;
    }
    default:
      return 'it names no cause';
  }
}
