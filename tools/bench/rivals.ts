// Figures of other systems doing the same work, measured before Perdure was written, on 2 cores with a model without delay
// and with a floor of 7.7 to 9.6 ms (plain) and 10 to 11 ms (tool).
import { type Column, COLUMNS } from './columns.ts';
import type { Result } from './figure.ts';

const MORE_IS_BETTER: ReadonlySet<Column> = new Set(['turns16', 'turns64']);

/** A number (the better end of a range), or a word where there is none. */
type Figures = Record<Column, number | string>;

const RIVALS: Record<string, Figures> = {
  'Restate 1.7': {
    plain: 15.6,
    tool: 28.9,
    turns16: 77,
    turns64: 97,
    firstToken: 'not streamed',
    bytes20: 5_072,
    bytes200: 6_411,
    death: 600,
  },
  'DBOS 5.3': {
    plain: 19.8,
    tool: 27.6,
    turns16: 96,
    turns64: 113,
    firstToken: 15,
    bytes20: 1_402,
    bytes200: 1_403,
    death: 1_600,
  },
  'ADK 2.0': {
    plain: 28.7,
    tool: 50.2,
    turns16: 82,
    turns64: 89,
    firstToken: 11,
    bytes20: 1_264,
    bytes200: 1_264,
    death: 'no',
  },
  'LangGraph 1.4': {
    plain: 41.8,
    tool: 94.7,
    turns16: 76,
    turns64: 137,
    firstToken: 8,
    bytes20: 8_404,
    bytes200: 37_934,
    death: 'no',
  },
  'Temporal ai-sdk 1.23': {
    plain: 54.3,
    tool: 149.5,
    turns16: 37,
    turns64: 34,
    firstToken: 163,
    bytes20: 18_285,
    bytes200: 147_032,
    death: 'not within 30 s',
  },
};

/** One line of the comparison: a column, our value, and the systems ahead of us. */
export interface Comparison {
  column: string;
  ours: number;
  rivals: Record<string, number | string>;
  /** Systems that are better; empty: passed. */
  ahead: string[];
}

/** Our measured results beside those of other systems, in column order. */
export function compare(results: readonly Result[]): Comparison[] {
  return (Object.keys(COLUMNS) as Column[]).flatMap((column) => {
    const result = results.find((each) => each.column === column && each.failed === undefined);
    if (result === undefined) return [];
    const ours = column === 'firstToken' ? result.value - (result.floor ?? 0) : result.value;
    const rivals = Object.fromEntries(Object.entries(RIVALS).map(([name, figures]) => [name, figures[column]]));
    const ahead = Object.entries(rivals).filter(
      ([, theirs]) => typeof theirs === 'number' && better(column, theirs, ours),
    );
    return [{ column: COLUMNS[column], ours, rivals, ahead: ahead.map(([name]) => name) }];
  });
}

function better(column: Column, a: number, b: number): boolean {
  return MORE_IS_BETTER.has(column) ? a > b : a < b;
}
