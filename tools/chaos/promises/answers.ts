import { by, type Evidence, type MessageRow, type PartRow, type RunRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import type { SummaryCall } from '../model.ts';
import { CANARY } from '../plan.ts';

/** The parts of one attempt at a step. */
interface Attempt {
  parts: PartRow[];
  /** It was lost and another attempt followed. */
  lost: boolean;
}

/** Stored parts equal the model's output, step by step: all of it for a settled step, a prefix for a lost attempt. */
export function checkAnswers(ledger: Ledger, evidence: Evidence): Map<number, RunRow> {
  const settled = new Map<number, RunRow>();
  const parts = by(evidence.parts, (part) => `${part.session_id}/${part.message_id}`);
  const messages = new Map(evidence.messages.map((row) => [`${row.session_id}/${row.id}`, row]));
  for (const run of evidence.runs.filter(({ kind }) => kind === 'turn')) {
    const answer = messages.get(`${run.session_id}/${run.answer_id}`);
    if (answer === undefined) continue;
    const attempts = attemptsOf(parts.get(`${run.session_id}/${run.answer_id}`) ?? []);
    checkAnswer(ledger, evidence, { run, answer, attempts }, settled);
  }
  return settled;
}

function attemptsOf(parts: readonly PartRow[]): Attempt[] {
  const attempts: Attempt[] = [];
  for (const part of parts) {
    const last = attempts.at(-1);
    if (part.data.type === 'data-interrupted') {
      if (last) last.lost = true;
    } else if (part.data.type === 'step-start' || last === undefined) attempts.push({ parts: [part], lost: false });
    else last.parts.push(part);
  }
  return attempts;
}

type Subject = { run: RunRow; answer: MessageRow; attempts: Attempt[] };

function checkAnswer(
  ledger: Ledger,
  { calls }: Evidence,
  { run, answer, attempts }: Subject,
  settled: Map<number, RunRow>,
): void {
  const where = `session ${run.session_id}, run ${run.seq}, answer ${run.answer_id}`;
  const steps = answer.metadata.steps ?? [];
  const standing = attempts.filter((attempt) => !attempt.lost);
  ledger.check(
    'a step is settled once',
    where,
    steps.length === run.step,
    () => `${steps.length} usages, ${run.step} steps`,
  );
  for (const [n, { usage }] of steps.entries()) {
    const call = calls.find((one) => one.messageId === run.tag && billed(one) === JSON.stringify(sorted(usage)));
    const whole = call?.whole === true && call.step === n && !settled.has(call.number);
    ledger.check('usage is what the provider billed', `${where}, step ${n}`, whole, () => ({ usage, call }));
    if (call === undefined) continue;
    settled.set(call.number, run);
    const said = call.pieces.map((piece) => piece.text).join('');
    const stored = textOf(standing[n]);
    ledger.check('a settled step holds all that the model sent', `${where}, step ${n}`, stored === said, () => ({
      stored,
      said,
    }));
    const ids = providerIds(standing[n]);
    const same = JSON.stringify(ids) === JSON.stringify(call.tools);
    ledger.check('a settled step holds its tool calls', `${where}, step ${n}`, same, () => ({
      ids,
      asked: call.tools,
    }));
  }
  for (const attempt of [...attempts.filter((one) => one.lost), ...standing.slice(steps.length)]) {
    const stored = textOf(attempt);
    const call = calls.find((one) => stored.startsWith(`${CANARY}${one.number}.`));
    const said = call?.pieces.map((piece) => piece.text).join('') ?? '';
    const begins = stored === '' || (call?.messageId === run.tag && said.startsWith(stored));
    ledger.check('a lost attempt holds a prefix of what the model sent', where, begins, () => ({ stored, said }));
  }
  const left = run.state === 'finished' ? standing.length - steps.length : 0;
  ledger.check('a finished run has settled steps only', where, left === 0, () => `${left} more in a finished run`);
}

function textOf(attempt: Attempt | undefined): string {
  const texts = attempt?.parts.filter(({ data }) => data.type === 'text') ?? [];
  return texts.map(({ data }) => String(data['text'])).join('');
}

function providerIds(attempt: Attempt | undefined): string[] {
  return (attempt?.parts ?? []).flatMap(({ data }) => providerIdOf(data) ?? []);
}

/** The provider's id of a tool call. */
export function providerIdOf(data: PartRow['data']): string | undefined {
  const metadata = (data['callProviderMetadata'] ?? data['resultProviderMetadata']) as
    | { perdure?: { providerToolCallId?: string } }
    | undefined;
  return metadata?.perdure?.providerToolCallId;
}

/** The usage that a call reported, as five numbers to compare. */
export function billed({ usage }: SummaryCall): string {
  const { input, output, reasoning, cached } = usage;
  return JSON.stringify(
    sorted({ input: input - cached, output: output - reasoning, reasoning, cache_read: cached, cache_write: 0 }),
  );
}

/** Entries in the order of their names. */
export function sorted(usage: object): [string, unknown][] {
  return Object.entries(usage).toSorted(([a], [b]) => a.localeCompare(b));
}
