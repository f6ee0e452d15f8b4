import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Drawn } from './drawn.ts';

// The canvas of a chart, in a part of the console that is loaded with the first one.

const HEIGHT = 180;
/** Of the numbers beside the vertical axis. */
const AXIS_WIDTH = 64;
const LINE_WIDTH = 2;
const POINT_SIZE = 4;
/** Of the width of a part of the range. */
const BAR_SHARE = 0.8;
const DAY = 86_400_000;
const FONT = '12px system-ui, sans-serif';
/** Empty space above the highest value. */
const HEADROOM = 1.08;
const SCHEMES = ['(prefers-color-scheme: dark)', '(prefers-contrast: more)'];

/** Draws bars that stand on each other, or lines. Says over which part of the range the pointer is; null: over none. */
export default function ChartCanvas({ of, onPart }: { of: Drawn; onPart: (part: number | null) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const scheme = useScheme();
  useEffect(() => {
    const { current: element } = place;
    if (element === null) return;
    const chart = new uPlot(optionsOf(of, element, onPart), dataOf(of), element);
    const watching = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    watching.observe(element);
    return () => {
      watching.disconnect();
      chart.destroy();
    };
  }, [of, onPart, scheme]);
  return <div ref={place} aria-hidden="true" />;
}

/** Another number whenever the colours of the page change, which a canvas does not do by itself. */
function useScheme(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    for (const scheme of SCHEMES) {
      const count = () => setChanges((number) => number + 1);
      matchMedia(scheme).addEventListener('change', count, { signal: left.signal });
    }
    return () => left.abort();
  }, []);
  return changes;
}

function dataOf({ from, step, series, kind }: Drawn): uPlot.AlignedData {
  const times = series[0]?.values.map((_value, part) => (from + (part + 0.5) * step) / 1_000) ?? [];
  if (kind === 'lines') return [times, ...series.map(({ values }) => [...values])];
  // Each bar reaches down to zero: those of the highest sums are drawn first.
  const sums = series.map((_each, at) =>
    times.map((_time, part) => series.slice(0, at + 1).reduce((sum, { values }) => sum + (values[part] ?? 0), 0)),
  );
  return [times, ...sums.toReversed()];
}

function optionsOf(of: Drawn, element: HTMLElement, onPart: (part: number | null) => void): uPlot.Options {
  const { series, from, step } = of;
  const styles = getComputedStyle(element);
  const colour = (name: string) => styles.getPropertyValue(`--${name}`).trim();
  const to = from + (series[0]?.values.length ?? 0) * step;
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { range: [from / 1_000, to / 1_000] },
      y: { range: (_chart, _least, most) => [0, most > 0 ? most * HEADROOM : 1] },
    },
    axes: axesOf(of, to - from, colour),
    series: [{}, ...seriesOf(of, colour)],
    hooks: { setCursor: [({ cursor }) => onPart(cursor.idx ?? null)] },
  };
}

type Colours = (name: string) => string;

function axesOf({ words }: Drawn, range: number, colour: Colours): uPlot.Axis[] {
  const axis = { stroke: colour('faint'), font: FONT, ticks: { show: false } };
  const clock = clockOf(range);
  return [
    { ...axis, grid: { show: false }, values: (_chart, times) => times.map((time) => clock.format(time * 1_000)) },
    {
      ...axis,
      size: AXIS_WIDTH,
      grid: { stroke: colour('line'), width: 1 },
      values: (_chart, values) => values.map((value) => words(value)),
    },
  ];
}

/** In the order of `dataOf`. */
function seriesOf({ kind, series }: Drawn, colour: Colours): uPlot.Series[] {
  if (kind === 'lines') {
    const points = { show: true, size: POINT_SIZE };
    return series.map(({ colour: name, dash = [] }) => {
      return { stroke: colour(name), width: LINE_WIDTH, spanGaps: true, points, dash: [...dash] };
    });
  }
  const paths = uPlot.paths.bars?.({ size: [BAR_SHARE, Infinity] });
  const bar = { stroke: colour('ground'), width: 1, points: { show: false }, ...(paths && { paths }) };
  return series.toReversed().map(({ colour: name }) => Object.assign({ fill: colour(name) }, bar));
}

/** The words of a time below the chart of a range of so many milliseconds. */
function clockOf(range: number): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-GB', range > DAY ? { weekday: 'short', hour: '2-digit' } : { timeStyle: 'short' });
}
