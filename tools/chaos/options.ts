import { parseArgs } from 'node:util';
import { FAULT_KINDS, type FaultKind } from './faults.ts';

export const BREAKS = [
  'fence',
  'receipt',
  'publish',
  'state',
  'rewind',
  'unrewind',
  'regenerate',
  'compaction',
  'prune',
  'sums',
  'branch',
  'attachment',
  'denial',
  'approval',
  'child',
  'task',
  'supervisor',
  'state-file',
] as const;

/** A promise that is broken on purpose. */
export type Break = (typeof BREAKS)[number];

export interface Options {
  seed: number;
  /** How long faults are injected. */
  seconds: number;
  /** They go on after `seconds` until there have been this many; default 0. */
  leastFaults?: number;
  /** Users go on after `seconds` until they have made each of CHANGES this often (`floors.ts`); default 0. */
  leastChanges?: number;
  sessions: number;
  faults: readonly FaultKind[];
  /** Mean time between two faults. */
  gapMs: number;
  broken: Break | undefined;
}

const MINUTES = 5;
const SESSIONS = 8;
const GAP_MS = 2_000;
/** In less time than this users may do anything, or nothing; else they make each of CHANGES once a minute. */
const SHORT_S = 20;

/**
 * `--minutes n` (parts of one too), `--seed n`, `--sessions n`, `--faults kind,kind`, `--break` and one of BREAKS.
 * @throws {Error} naming the option and what was expected
 */
export function parseOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      minutes: { type: 'string' },
      seed: { type: 'string' },
      sessions: { type: 'string' },
      faults: { type: 'string' },
      break: { type: 'string' },
    },
  });
  const broken = values.break === undefined ? undefined : oneOf('--break', values.break, BREAKS);
  const faults = values.faults?.split(',').map((kind) => oneOf('--faults', kind, FAULT_KINDS)) ?? FAULT_KINDS;
  const seconds = number('--minutes', values.minutes, MINUTES, 0.05) * 60;
  return {
    seed: number('--seed', values.seed, Math.floor(Math.random() * 1e6), 0),
    seconds,
    leastChanges: seconds < SHORT_S ? 0 : Math.ceil(seconds / 60),
    sessions: number('--sessions', values.sessions, SESSIONS, 1),
    faults,
    gapMs: GAP_MS,
    broken,
  };
}

/** Command line arguments that repeat the campaign. */
export function argumentsOf({ seed, seconds, sessions, faults, broken }: Options): string {
  return [
    `--seed ${seed} --minutes ${seconds / 60} --sessions ${sessions}`,
    ...(faults.length === FAULT_KINDS.length ? [] : [`--faults ${faults.join(',')}`]),
    ...(broken === undefined ? [] : [`--break ${broken}`]),
  ].join(' ');
}

function number(name: string, given: string | undefined, standard: number, least: number): number {
  const value = given === undefined ? standard : Number(given);
  if (Number.isFinite(value) && value >= least) return value;
  throw new Error(`${name}: expected a number from ${least} on`);
}

function oneOf<Name extends string>(option: string, given: string, names: readonly Name[]): Name {
  const found = names.find((name) => name === given);
  if (found === undefined) throw new Error(`${option} ${given}: expected one of ${names.join(', ')}`);
  return found;
}
