import { passed, type Result } from './figure.ts';

const HEAD = ['figure', 'value', 'floor', 'target', ''];

/** The results as a table for a terminal; details stand below their line. */
export function tableOf(results: readonly Result[]): string {
  const rows = results.map((result) => rowOf(result));
  const widths = HEAD.map((head, at) => Math.max(head.length, ...rows.map((row) => row[at]!.length)));
  const line = (row: readonly string[]) =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))).join('  ');
  return [
    line(HEAD),
    ...results.flatMap((result, at) => [line(rows[at]!), ...(result.detail ? [`    ${result.detail}`] : [])]),
  ].join('\n');
}

function rowOf(result: Result): string[] {
  const { name, value, unit, floor, target, against } = result;
  const verdict = passed(result);
  const bound = target === undefined ? '' : `≤ ${target}${against === 'floor' ? ' over' : ''}`;
  return [
    name,
    `${written(value)} ${unit}`.trim(),
    floor === undefined ? '' : written(floor),
    bound,
    verdict === undefined ? '' : verdict ? 'passed' : 'MISSED',
  ];
}

function written(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 2 : 1);
}
