import type { ConsoleNumbers } from '../../wire/numbers.ts';
import { amountWords, costWords, durationWords } from '../lib/amount-words.ts';
import type { Drawn, Series } from './drawn.ts';

/** Charts with their titles; without what to show: reading it took too long. */
export type Charts = readonly { title: string; of: Drawn | null }[];

/** What the charts of the console show of these numbers. */
export function chartsOf({ turns, work, tokens, errors, ...range }: ConsoleNumbers): Charts {
  const drawn = (kind: Drawn['kind'], words: Drawn['words'], series: readonly Series[]): Drawn => ({
    ...{ kind, words, series },
    ...{ from: Date.parse(range.from), step: range.step_ms },
  });
  const counts = (series: readonly Series[]) => drawn('bars', amountWords, series);
  const times = (of: Quantiles) => drawn('lines', durationWords, quantilesOf(of));
  return [
    { title: 'Turns', of: turns && counts(turnSeries(turns)) },
    { title: 'Time in the queue', of: turns && times(turns.waited) },
    { title: 'Duration of turns', of: turns && times(turns.took) },
    { title: 'First token', of: work && times(work.first) },
    { title: 'Steps and tool calls', of: work && counts(workSeries(work)) },
    {
      title: 'Workers that did them',
      of: work && drawn('lines', amountWords, [{ name: 'Workers', values: work.workers, colour: 'accent' }]),
    },
    { title: 'Tokens', of: tokens && counts(tokenSeries(tokens)) },
    {
      title: 'Cost',
      of: tokens && drawn('bars', costWords, [{ name: 'Cost', values: tokens.cost_usd, colour: 'accent' }]),
    },
    { title: 'Failed turns', of: errors && counts(codeSeries(errors.turns)) },
    { title: 'Failed calls of models', of: errors && counts(codeSeries(errors.provider)) },
  ];
}

type Quantiles = NonNullable<ConsoleNumbers['work']>['first'];

function quantilesOf({ p50, p95 }: Quantiles): Series[] {
  return [
    { name: 'Median', values: p50, colour: 'accent' },
    { name: '95 %', values: p95, colour: 'warn', dash: [6, 4] },
  ];
}

function turnSeries(turns: NonNullable<ConsoleNumbers['turns']>): Series[] {
  return [
    { name: 'Finished', values: turns.finished, colour: 'good' },
    { name: 'Open', values: turns.open, colour: 'accent' },
    { name: 'Aborted', values: turns.aborted, colour: 'warn' },
    { name: 'Cancelled', values: turns.cancelled, colour: 'faint' },
    { name: 'Failed', values: turns.error, colour: 'bad' },
  ];
}

function workSeries(work: NonNullable<ConsoleNumbers['work']>): Series[] {
  return [
    { name: 'Steps', values: work.steps, colour: 'accent' },
    { name: 'Tool calls', values: work.calls, colour: 'good' },
  ];
}

function tokenSeries(tokens: NonNullable<ConsoleNumbers['tokens']>): Series[] {
  return [
    { name: 'Input', values: tokens.input, colour: 'accent' },
    { name: 'Cache reads', values: tokens.cache_read, colour: 'faint' },
    { name: 'Cache writes', values: tokens.cache_write, colour: 'ink' },
    { name: 'Output', values: tokens.output, colour: 'good' },
    { name: 'Reasoning', values: tokens.reasoning, colour: 'warn' },
  ];
}

const CODE_COLOURS = ['bad', 'warn', 'accent', 'good'] as const;

/** The most frequent codes, and all others as one. */
function codeSeries(codes: readonly { code: string; counts: readonly number[] }[]): Series[] {
  const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);
  const byCount = codes.toSorted((a, b) => sumOf(b.counts) - sumOf(a.counts));
  const series: Series[] = byCount
    .slice(0, CODE_COLOURS.length)
    .map(({ code, counts }, at) => ({ name: code, values: counts, colour: CODE_COLOURS[at] ?? 'bad' }));
  const others = byCount.slice(CODE_COLOURS.length);
  const [first] = others;
  if (first === undefined) return series;
  const values = first.counts.map((_count, part) => sumOf(others.map(({ counts }) => counts[part] ?? 0)));
  return [...series, { name: 'Others', values, colour: 'faint' }];
}
