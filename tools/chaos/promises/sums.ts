import { addUsage, totalTokens, type Usage, ZERO_USAGE } from '../../../domain/usage.ts';
import { by, type Evidence } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

/** Session sums equal the sums over the answers; no delta of a settled part is left. */
export function checkSums(ledger: Ledger, { sums, messages, deltas }: Evidence): void {
  const bySession = by(messages, (row) => row.session_id);
  for (const row of sums) {
    const where = `session ${row.session_id}`;
    let expected: Usage = ZERO_USAGE;
    for (const { id, metadata } of bySession.get(row.session_id) ?? []) {
      if (!metadata.usage) continue;
      const steps = (metadata.steps ?? []).reduce((sum, step) => addUsage(sum, step.usage), ZERO_USAGE);
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
