import { parseArgs } from 'node:util';

export interface Options {
  rounds: number;
  /** Names of figures; empty: all of them. */
  only: string[];
  /** Print Markdown, as docs/performance.md has it. */
  markdown: boolean;
}

/**
 * `--rounds n`, `--only name` (several times), `--markdown`.
 * @throws {Error} saying what is wrong and which names there are
 */
export function parseOptions(args: string[], names: readonly string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string', default: '5' },
      only: { type: 'string', multiple: true, default: [] },
      markdown: { type: 'boolean', default: false },
    },
  });
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds: expected a number from 1 on');
  const unknown = values.only.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`--only ${unknown}: expected one of ${names.join(', ')}`);
  return { rounds, only: values.only, markdown: values.markdown };
}
