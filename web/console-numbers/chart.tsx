import { lazy, Suspense, useState } from 'react';
import { Table } from '../console-parts/table.tsx';
import { timeWords } from '../lib/amount-words.ts';
import type { Drawn, Series } from './drawn.ts';

/** Without it there are still the legend and the table. */
const NotLoaded = () => <p className="problem">The chart could not be loaded.</p>;
const ChartCanvas = lazy(() => import('./chart-canvas.tsx').catch(() => ({ default: NotLoaded })));

/** A chart over time, with its numbers as a table. Of bars the legend says the sums, of lines the newest values. */
export function Chart({ title, of }: { title: string; of: Drawn }) {
  const [part, setPart] = useState<number | null>(null);
  const isEmpty = of.series.every(({ values }) => values.every((value) => value === null || value === 0));
  if (isEmpty) {
    return (
      <figure className="chart">
        <figcaption>{title}</figcaption>
        <p className="faint">There was nothing.</p>
      </figure>
    );
  }
  return (
    <figure className="chart">
      <figcaption>
        {title} <span className="faint">{part === null ? '' : timeWords(startOf(of, part))}</span>
      </figcaption>
      <div className="canvas">
        <Suspense>
          <ChartCanvas of={of} onPart={setPart} />
        </Suspense>
      </div>
      <ul className="legend">
        {of.series.map((series) => (
          <li key={series.name} data-colour={series.colour}>
            {series.name} <b>{wordsOf(part === null ? wholeOf(of.kind, series) : series.values[part], of)}</b>
          </li>
        ))}
      </ul>
      <details>
        <summary>{title} as a table</summary>
        <Rows title={title} of={of} />
      </details>
    </figure>
  );
}

function Rows({ title, of }: { title: string; of: Drawn }) {
  const parts = of.series[0]?.values.map((_value, part) => part) ?? [];
  const known = parts.filter((part) => of.series.some(({ values }) => (values[part] ?? 0) !== 0));
  return (
    <Table label={title} heads={['From', ...of.series.map(({ name }) => name)]}>
      {known.toReversed().map((part) => (
        <tr key={part}>
          <th scope="row">{timeWords(startOf(of, part))}</th>
          {of.series.map(({ name, values }) => (
            <td key={name} className="number">
              {wordsOf(values[part], of)}
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}

function startOf({ from, step }: Drawn, part: number): string {
  return new Date(from + part * step).toISOString();
}

function wholeOf(kind: Drawn['kind'], { values }: Series): number | null {
  const known = values.filter((value) => value !== null);
  return kind === 'bars' ? known.reduce((sum, value) => sum + value, 0) : (known.at(-1) ?? null);
}

function wordsOf(value: number | null | undefined, { words }: Drawn): string {
  return value === null || value === undefined ? '–' : words(value);
}
