// Many conversations at once, each turn after turn.
import { now } from './clock.ts';
import { cpuOf } from './cpu.ts';
import type { Result } from './figure.ts';
import { median } from './statistics.ts';

type Pids = Record<string, number>;

/** What a run of conversations measured, without its warm-up. */
export interface Load<Sample> {
  perSecond: number;
  /** One for each turn. */
  samples: Sample[];
  /** CPU of each process, in milliseconds. */
  cpu: Record<string, number>;
  ms: number;
}

/** Lets every conversation take turns without a rest, for `warmUpMs` that are not counted and then for `ms`. */
export async function load<Sample>(
  pids: () => Pids,
  conversations: readonly (() => Promise<Sample>)[],
  { warmUpMs, ms }: { warmUpMs: number; ms: number },
): Promise<Load<Sample>> {
  const from = now() + warmUpMs;
  const to = from + ms;
  const samples: Sample[] = [];
  const before = at(from, () => cpuSoFar(pids()));
  const after = at(to, () => cpuSoFar(pids()));
  await Promise.all(
    conversations.map(async (turn) => {
      while (now() < to) {
        const sample = await turn();
        if (now() > from && now() < to) samples.push(sample);
      }
    }),
  );
  const [first, last] = await Promise.all([before, after]);
  const used = Object.entries(last).map(([name, taken]): [string, number] => [name, taken - first[name]!]);
  return { perSecond: (samples.length * 1_000) / ms, samples, cpu: Object.fromEntries(used), ms };
}

/** The median rate of several runs, in turns a second. */
export const rateOf = (runs: readonly Load<unknown>[]): number => median(runs.map(({ perSecond }) => perSecond));

/** The median CPU of a turn in several runs, in milliseconds: of one process, or of all. */
export function cpuOfTurn(runs: readonly Load<unknown>[], process?: string): number {
  return median(runs.map((run) => cpuOfLoad(run, process) / run.samples.length));
}

/** CPU of one process, or of all, in milliseconds. */
export function cpuOfLoad({ cpu }: Load<unknown>, process?: string): number {
  return process === undefined ? Object.values(cpu).reduce((sum, each) => sum + each, 0) : cpu[process]!;
}

/** A row of CPU per turn for each process, and one for their sum, which gets `more`. */
export function cpuRows(
  name: string,
  runs: readonly Load<unknown>[],
  processes: readonly string[],
  more: Pick<Result, 'floor' | 'target'> = {},
): Result[] {
  const rows = processes.map((each) => ({ name: `${name}: ${each}`, value: cpuOfTurn(runs, each), unit: 'ms' }));
  return [...rows, { name, value: rows.reduce((sum, { value }) => sum + value, 0), unit: 'ms', ...more }];
}

function at<T>(moment: number, look: () => T): Promise<T> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(look()), moment - now());
  });
}

/** CPU so far of each process, in milliseconds. */
function cpuSoFar(pids: Pids): Record<string, number> {
  // Postgres' CPU includes its child processes (one per connection); the others are single processes.
  return Object.fromEntries(
    Object.entries(pids).map(([name, pid]) => [name, cpuOf(pid, { children: name === 'postgres' })]),
  );
}
