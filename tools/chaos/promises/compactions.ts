import type { PruneData } from '../../../domain/compaction.ts';
import { by, type Evidence, type MessageRow, type PartRow, type Rows } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import type { SummaryCall } from '../model.ts';
import { isStored, type Summary, summariesOf } from '../summaries.ts';
import { billed, sorted } from './answers.ts';

/** A compaction or a prune is stored as a whole or not at all; a compaction costs what its summarizer was billed for. */
export function checkCompactions(
  ledger: Ledger,
  rows: Pick<Rows, 'messages' | 'events' | 'parts' | 'runs'> & Pick<Evidence, 'summaries'>,
): void {
  const messages = by(rows.messages, (row) => row.session_id);
  const summaries = summariesOf(rows.parts);
  for (const summary of summaries) {
    const where = `session ${summary.session}, summary ${summary.message}`;
    const wrong = faultOf(summary, messages.get(summary.session) ?? [], rows.events);
    ledger.check('no compaction is half done', where, wrong === undefined, () => ({ wrong, summary }));
  }
  const stored = new Set(rows.messages.map(({ session_id, id }) => `${session_id}/${id}`));
  for (const { session_id, kind, data } of rows.events.filter((event) => isStored(event))) {
    const id = String(data['message_id']);
    const where = `session ${session_id}, ${kind} ${id}`;
    ledger.check(`no ${kind} is half done`, where, stored.has(`${session_id}/${id}`), () => data);
  }
  checkPrunes(ledger, rows);
  checkCosts(ledger, summaries, rows.messages, rows.summaries);
}

/** A prune has one event, and is about calls that are there. */
function checkPrunes(ledger: Ledger, { parts, events }: Pick<Rows, 'parts' | 'events'>): void {
  const calls = new Set(parts.map(({ session_id: session, tool_call_id: call }) => `${session}/${call}`));
  for (const { session_id: session, message_id: message, data } of parts.filter((part) => isPrune(part))) {
    const made = events.filter((event) => event.session_id === session && isStored(event, message));
    const { outputs } = data['data'] as PruneData;
    const isWhole = made.length === 1 && outputs.every(({ tool_call_id: call }) => calls.has(`${session}/${call}`));
    ledger.check('no prune is half done', `session ${session}, prune ${message}`, isWhole, () => [data, made]);
  }
}

function isPrune({ data }: PartRow): boolean {
  return data.type === 'data-prune';
}

/** What of a compaction is missing. */
function faultOf(
  { session, message, data }: Summary,
  messages: readonly MessageRow[],
  events: Rows['events'],
): string | undefined {
  const own = events.filter((event) => event.session_id === session);
  const made = own.filter((event) => isStored(event, message));
  const row = messages.find(({ id }) => id === message);
  const tail = messages.find(({ id }) => id === data.tail_start_id);
  if (made.length !== 1) return `${made.length} events`;
  if (row === undefined || tail?.role !== 'user' || tail.position <= row.position) return 'it is not before its tail';
  const hidden = messages.filter(({ metadata }) => metadata.hidden_by?.id === message);
  if (row.metadata.hidden_by?.id === message) return hidden.length === 1 ? undefined : 'it is not used, but hides rows';
  const left = messages.filter(({ position, hidden_at }) => position < row.position && hidden_at === null);
  if (row.hidden_at === null && left.length > 0) return `it is visible, and so are ${left.length} rows before it`;
  const isRewound = own.some(
    ({ kind, seq }) => ['rewind', 'unrewind', 'edit', 'regenerate'].includes(kind) && seq > made[0]!.seq,
  );
  const wanted = Number(made[0]!.data['hidden']);
  return isRewound || hidden.length === wanted ? undefined : `${hidden.length} rows name it instead of ${wanted}`;
}

function checkCosts(
  ledger: Ledger,
  summaries: readonly Summary[],
  messages: readonly MessageRow[],
  calls: readonly SummaryCall[],
): void {
  const rows = new Map(messages.map((row) => [`${row.session_id}/${row.id}`, row]));
  const paid = new Set<number>();
  for (const { session, message, call } of summaries) {
    const steps = rows.get(`${session}/${message}`)?.metadata.steps ?? [];
    const made = calls.find(({ number }) => number === call);
    const same = made?.whole === true && JSON.stringify(sorted(steps[0]?.usage ?? {})) === billed(made);
    const once = steps.length === 1 && !paid.has(call);
    paid.add(call);
    ledger.check('a summary costs what its call cost', `session ${session}, ${message}`, same && once, () => [
      steps,
      made,
    ]);
  }
}
