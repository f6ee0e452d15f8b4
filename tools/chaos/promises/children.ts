import type { Evidence, EventRow, TaskRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

const FINAL: ReadonlySet<string> = new Set(['finished', 'aborted', 'error', 'cancelled']);

/** A child ends with its parent's abort, in the same transaction; and each is over, with one result at most. */
export function checkChildren(
  ledger: Ledger,
  { tasks, events, messages, children }: Pick<Evidence, 'tasks' | 'events' | 'messages' | 'children'>,
): void {
  for (const task of tasks) {
    const where = `session ${task.parent_id}, child ${task.child_id}`;
    const aborts = events.filter((event) => event.session_id === task.parent_id && endsChildren(event));
    for (const { at, seq } of aborts.filter((event) => event.at > task.created_at && isMeant(task, event))) {
      const isOver = task.ended_at !== null && task.ended_at <= at;
      ledger.check('no child outlives its parent’s abort', `${where}, event ${seq}`, isOver, () => [at, task]);
    }
    const runs = children.runs.filter((run) => run.session_id === task.child_id);
    const over = task.ended_at !== null && runs.every(({ state }) => FINAL.has(state));
    ledger.check('every child is over', where, over, () => [task, runs]);
    const results = messages.filter(
      (row) =>
        row.session_id === task.parent_id &&
        row.tag === `task-${task.child_id}` &&
        // It was dropped from the queue, and may have come again.
        row.metadata.hidden_by?.cause !== 'cancelled',
    );
    const most = task.background ? 1 : 0;
    ledger.check('a child has one result at most', where, results.length <= most, () => results);
  }
}

/** The command does not mean one message, whose run may be over, nor was it accepted before the run that has called the child. */
function isMeant(task: TaskRow, { data }: EventRow): boolean {
  return data['message_id'] === undefined && task.run_seq <= Number(data['last_run'] ?? Infinity);
}

/** Abort, cancel and close were carried out: all children ended with them. */
function endsChildren({ kind, data }: EventRow): boolean {
  return kind === 'abort' || kind === 'closed' || (kind === 'transition' && data.event === 'cancel');
}
