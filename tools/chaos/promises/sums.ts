import { addUsage, limitedTokens, totalTokens, type Usage, ZERO_USAGE } from '../../../domain/usage.ts';
import { by, type Rows } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

/** Sums of sessions, of answers and of runs equal what the model calls say, those of summaries too; no delta of a settled part is left. */
export function checkSums(ledger: Ledger, rows: Pick<Rows, 'sums' | 'messages' | 'deltas' | 'runs'>): void {
  const { sums, messages, deltas, runs } = rows;
  checkRuns(ledger, runs, messages);
  const bySession = by(messages, (row) => row.session_id);
  for (const row of sums) {
    const where = `session ${row.session_id}`;
    let expected: Usage = ZERO_USAGE;
    for (const { id, metadata } of bySession.get(row.session_id) ?? []) {
      if (!metadata.usage) continue;
      const steps = callsOf(metadata).reduce((sum, call) => addUsage(sum, call.usage), ZERO_USAGE);
      const same = totalTokens(steps) === totalTokens(metadata.usage) && steps.input === metadata.usage.input;
      ledger.check('an answer’s usage is that of its steps', `${where}, answer ${id}`, same, () => metadata);
      expected = addUsage(expected, metadata.usage);
    }
    const found = [
      row['prompt_tokens'],
      row['completion_tokens'],
      row['reasoning_tokens'],
      row['cache_read'],
      row['cache_write'],
    ];
    const { input, output, reasoning, cache_read, cache_write } = expected;
    const wanted = [input, output, reasoning, cache_read, cache_write];
    const same = JSON.stringify([...found, row['total_tokens']]) === JSON.stringify([...wanted, totalTokens(expected)]);
    ledger.check('sums are those of the answers', where, same, () => ({ found, wanted }));
    const left = deltas.filter((delta) => delta.session_id === row.session_id);
    ledger.check('no delta of a settled part is left', where, left.length === 0, () => left);
  }
}

/** A run counts the tokens of its answer's steps. */
function checkRuns(ledger: Ledger, runs: Rows['runs'], messages: Rows['messages']): void {
  const answers = new Map(messages.map((row) => [`${row.session_id}/${row.id}`, row]));
  for (const run of runs.filter(({ kind }) => kind === 'turn')) {
    const steps = callsOf(answers.get(`${run.session_id}/${run.answer_id}`)?.metadata ?? {});
    const tokens = steps.reduce((sum, { usage }) => sum + limitedTokens(usage), 0);
    const where = `session ${run.session_id}, run ${run.seq}`;
    ledger.check('a run counts the tokens of its steps', where, run.tokens === tokens, () => [run, steps]);
  }
}

/** Those that were whole: the steps, and answers that were made again. */
function callsOf({ steps = [], discarded = [] }: Partial<Rows['messages'][number]['metadata']>) {
  return [...steps, ...discarded];
}
