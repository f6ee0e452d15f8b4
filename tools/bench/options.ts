import { parseArgs } from 'node:util';

export interface Options {
  rounds: number;
  minutes: number;
  /** Of sessions, initiatives or updates, in figures of ten thousand. */
  count: number;
  /** Names of figures; empty: all of them. */
  only: string[];
  /** Print Markdown, as docs/performance.md has it. */
  markdown: boolean;
}

/**
 * `--rounds n`, `--minutes n`, `--count n`, `--only name` (several times), `--markdown`.
 * @throws {Error} naming the invalid option and the valid names
 */
export function parseOptions(args: string[], names: readonly string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string', default: '5' },
      minutes: { type: 'string', default: '1' },
      count: { type: 'string', default: '10000' },
      only: { type: 'string', multiple: true, default: [] },
      markdown: { type: 'boolean', default: false },
    },
  });
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds: expected a number from 1 on');
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new Error('--minutes: expected a number above 0');
  const count = Number(values.count);
  if (!Number.isInteger(count) || count < 2 || count % 2 > 0)
    throw new Error('--count: expected an even number from 2 on');
  const unknown = values.only.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`--only ${unknown}: expected one of ${names.join(', ')}`);
  return { rounds, minutes, count, only: values.only, markdown: values.markdown };
}
