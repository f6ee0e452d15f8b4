import { passed, type Result, type Target } from './figure.ts';
import { compare } from './rivals.ts';

type Row = readonly string[];

/** The results as tables for a terminal, with details below each line. */
export function tablesOf(results: readonly Result[]): string {
  const details = results.map(({ detail, failed }) => failed ?? detail);
  return [aligned([HEAD, ...results.map(rowOf)], [undefined, ...details]), aligned(comparisonRows(results))]
    .filter((table) => table !== '')
    .join('\n\n');
}

/** The same as Markdown, for docs/performance.md; without details. */
export function markdownOf(results: readonly Result[]): string {
  return [[HEAD, ...results.map(rowOf)], comparisonRows(results)]
    .filter((rows) => rows.length > 0)
    .map((rows) => {
      const [head, ...body] = rows.map((row) => `| ${row.join(' | ')} |`);
      return [head, `|${' --- |'.repeat(rows[0]!.length)}`, ...body].join('\n');
    })
    .join('\n\n');
}

const HEAD: Row = ['figure', 'value', 'floor', 'target', ''];

function rowOf(result: Result): Row {
  const { name, value, unit, floor, target, failed } = result;
  const verdict = passed(result);
  return [
    name,
    failed === undefined ? `${written(value)} ${unit}`.trim() : 'not measured',
    floor === undefined ? '' : `${written(floor)} ${unit}`.trim(),
    target === undefined ? 'no target' : boundOf(target, unit),
    verdict === undefined ? '' : verdict ? 'passed' : 'MISSED',
  ];
}

function boundOf(target: Target, unit: string): string {
  if ('atMost' in target) return `at most ${written(target.atMost)} ${unit}`.trim();
  if ('atLeast' in target) return `at least ${written(target.atLeast)} ${unit}`.trim();
  if ('overFloor' in target) return `floor + ${written(target.overFloor)} ${unit}`.trim();
  if ('timesFloor' in target) return `${written(target.timesFloor)} × the floor`;
  return `${(target.shareOfFloor * 100).toFixed(0)} % of the floor`;
}

/** One row per compared column; empty if none was measured. */
function comparisonRows(results: readonly Result[]): Row[] {
  const lines = compare(results);
  if (lines.length === 0) return [];
  const names = Object.keys(lines[0]!.rivals);
  return [
    ['compared', 'Perdure', ...names, ''],
    ...lines.map(({ column, ours, rivals, ahead }) => {
      const theirs = names.map((name) => rivals[name]!);
      const cells = [ours, ...theirs].map((value) => (typeof value === 'number' ? written(value) : value));
      return [column].concat(cells, ahead.length === 0 ? 'ahead of all' : `behind ${ahead.join(', ')}`);
    }),
  ];
}

/** Aligns columns, the first to the left; `below` is an extra line under a row. */
function aligned(rows: readonly Row[], below: readonly (string | undefined)[] = []): string {
  if (rows.length === 0) return '';
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((row) => row[at]!.length)));
  const line = (row: Row) =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))).join('  ');
  return rows
    .flatMap((row, at) => [line(row).trimEnd(), ...(below[at] === undefined ? [] : [`    ${below[at]}`])])
    .join('\n');
}

function written(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}
