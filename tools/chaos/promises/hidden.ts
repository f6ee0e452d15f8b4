import { by, type MessageRow, type Rows } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import { isStored } from '../summaries.ts';

/** A rewind or an edit that was not undone. */
interface Change {
  /** What the rows name that it hides. */
  id: string;
  /** Position of the message that was gone back to. */
  target: number;
  at: Date;
}

type Session = Pick<Rows, 'messages' | 'events' | 'runs'>;

/** Each hidden row names the rewind, edit, compaction or cancel that hides it; what these hide is hidden, and nothing else. */
export function checkHidden(ledger: Ledger, rows: Session & Pick<Rows, 'parts'>): void {
  const [events, runs] = [by(rows.events, (row) => row.session_id), by(rows.runs, (row) => row.session_id)];
  const summaries = new Set(rows.parts.filter(({ data }) => data.type === 'data-compaction').map((p) => p.message_id));
  for (const [id, messages] of by(rows.messages, (row) => row.session_id)) {
    const session = { messages, events: events.get(id) ?? [], runs: runs.get(id) ?? [] };
    const changes = standingChanges(session);
    for (const row of messages) {
      const where = `session ${id}, message ${row.id}`;
      if (row.hidden_at === null) {
        const over = changes.filter((one) => row.position > one.target && row.created_at < one.at && row.id !== one.id);
        ledger.check('what was gone back over is hidden', where, over.length === 0, () => ({ row, over }));
      } else {
        const wrong = faultOf(row, session, changes, summaries);
        ledger.check('a row is hidden only by its own cause', where, wrong === undefined, () => ({ wrong, row }));
      }
    }
  }
}

/** The rewinds of a session that were not undone, and its edits. A new message makes what was rewound final. */
function standingChanges({ messages, events, runs }: Session): Change[] {
  const byId = new Map(messages.map((row) => [row.id, row]));
  const accepted = messages.filter(({ role }) => role === 'user').map((row) => row.created_at);
  const standing = new Set<Change>();
  let stack: { change: Change; message: unknown }[] = [];
  let last = new Date(0);
  for (const { seq, at, kind, data } of events) {
    if (accepted.some((time) => time > last && time < at)) stack = [];
    last = at;
    if (kind === 'rewind') {
      const change = { id: `event:${seq}`, target: byId.get(String(data['message_id']))?.position ?? -1, at };
      standing.add(change);
      if (stack.at(-1)?.message !== data['message_id']) stack.push({ change, message: data['message_id'] });
    } else if (kind === 'unrewind') {
      const undone = stack.pop();
      if (undone) standing.delete(undone.change);
    } else if (kind === 'edit') {
      stack = [];
      // Of a message that was queued nothing but the message itself is exchanged.
      const wasQueued = runs.some((run) => run.message_id === data['replaced'] && run.state === 'cancelled');
      const target = byId.get(String(data['replaced']))?.position ?? -1;
      if (!wasQueued) standing.add({ id: String(data['message_id']), target, at });
    }
  }
  return [...standing];
}

/** What is wrong with the cause that a hidden row names. */
function faultOf(
  row: MessageRow,
  { messages, events, runs }: Session,
  changes: readonly Change[],
  summaries: ReadonlySet<string>,
): string | undefined {
  const { cause, id } = row.metadata.hidden_by ?? {};
  const hider = messages.find((one) => one.id === id);
  switch (cause) {
    case 'cancelled': {
      const isCancelled = runs.some((run) => run.message_id === id && run.state === 'cancelled');
      return id === row.id && isCancelled ? undefined : 'its run was not cancelled';
    }
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
      return isEdited || isRewound ? undefined : 'it was neither edited nor gone back to';
    }
    case 'compaction': {
      const made = events.find((event) => isStored(event, id));
      if (made === undefined || hider === undefined || !summaries.has(hider.id)) return 'there is no such summary';
      // A summary that is kept only because it was paid for.
      if (id === row.id) return made.data['hidden'] === 0 ? undefined : 'a summary hides itself';
      if (row.position >= hider.position) return 'the summary is before it';
      const over = changes.filter((one) => one.at > made.at && one.target < hider.position);
      return over.some((one) => row.position <= one.target) ? 'its compaction was gone back over' : undefined;
    }
    default:
      return 'it names no cause';
  }
}
