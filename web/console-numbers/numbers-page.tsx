import { useMemo } from 'react';
import type { ConsoleNumbers } from '../../wire/numbers.ts';
import { ChooseUsers } from '../console-parts/choose-users.tsx';
import { consoleAddress } from '../console-parts/console-link.tsx';
import { Fact } from '../console-parts/details.tsx';
import { ReadingNote } from '../console-parts/reading-note.tsx';
import { useConsole, useRepeat, type Viewer } from '../console-parts/use-console.ts';
import { countWords, durationWords } from '../lib/amount-words.ts';
import { Chart } from './chart.tsx';
import { type Charts, chartsOf } from './charts.ts';

const RANGES = { hour: 'Last hour', day: 'Last day', week: 'Last week' } as const;
/** The numbers are read again this often, in milliseconds. */
const AGAIN_MS = 30_000;

/**
 * What happened in a time range, in the reader's sessions, or for those who may read all, in those of all users or of one.
 * @param range `hour`, `day` or `week`; another one is an hour
 */
export function NumbersPage({ range: asked, all, user }: { range: string; all: boolean; user: string }) {
  const range = Object.hasOwn(RANGES, asked) ? asked : 'hour';
  const whose = { ...(all && { all: 'true' }), ...(user !== '' && { user }) };
  const viewer = useConsole<Viewer>('');
  const numbers = useConsole<ConsoleNumbers>(`/numbers?${new URLSearchParams({ range, ...whose })}`);
  useRepeat(numbers, AGAIN_MS);
  const { data } = numbers;
  const charts = useMemo(() => data && chartsOf(data), [data]);
  return (
    <>
      <h1>Numbers of {user === '' ? (all ? 'all users' : 'your sessions') : user}</h1>
      <div className="tools">
        {viewer.data?.reads_all === true && <ChooseUsers all={all} user={user} beside={{ numbers: range }} />}
        <button type="button" onClick={numbers.again}>
          Refresh
        </button>
      </div>
      <nav aria-label="Time range">
        {Object.entries(RANGES).map(([name, words]) => (
          <a
            key={name}
            href={consoleAddress({ numbers: name, ...whose })}
            aria-current={name === range ? 'page' : undefined}
          >
            {words}
          </a>
        ))}
      </nav>
      <ReadingNote of={numbers} what="the numbers" />
      {data && <Now now={data.now} />}
      {charts && <AllCharts charts={charts} />}
    </>
  );
}

/** What is open at this moment. */
function Now({ now }: { now: ConsoleNumbers['now'] }) {
  return (
    <section aria-labelledby="now">
      <h2 id="now">Now</h2>
      <dl className="facts">
        <Fact name="Queued">{countWords(now.queued)}</Fact>
        <Fact name="Oldest in the queue">{now.queued === 0 ? '–' : durationWords(now.oldest_ms)}</Fact>
        <Fact name="Running">{countWords(now.running)}</Fact>
        <Fact name="Waiting for users">{countWords(now.waiting)}</Fact>
        <Fact name="Stuck">{countWords(now.stuck)}</Fact>
        <Fact name="Open streams at this host">{countWords(now.streams)}</Fact>
        <Fact name="Workers">{countWords(now.workers)}</Fact>
        <Fact name="Workers that were lost">{countWords(now.lost_workers)}</Fact>
        <Fact name="Oldest renewal of a lease">
          {now.workers === 0 ? '–' : `${durationWords(now.lease_age_ms)} ago`}
        </Fact>
        <Fact name="Sweeper late by">{durationWords(now.overdue_ms)}</Fact>
      </dl>
    </section>
  );
}

function AllCharts({ charts }: { charts: Charts }) {
  return (
    <div className="charts">
      {charts.map(({ title, of }) =>
        of === null ? (
          <figure key={title} className="chart">
            <figcaption>{title}</figcaption>
            <p className="problem">Reading this took too long. Choose a shorter time.</p>
          </figure>
        ) : (
          <Chart key={title} title={title} of={of} />
        ),
      )}
    </div>
  );
}
