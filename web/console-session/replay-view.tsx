import { useState } from 'react';
import type { ConsoleReplay } from '../../wire/console.ts';
import { wordsOf } from '../api/problem.ts';
import { ReadingNote } from '../console-parts/reading-note.tsx';
import { Table } from '../console-parts/table.tsx';
import { askConsole, sessionPath, useConsole, useRepeat } from '../console-parts/use-console.ts';
import { WorkState } from '../console-parts/work-state.tsx';
import { countWords, timeWords } from '../lib/amount-words.ts';

/** A replay that waits or runs is looked at this often, in milliseconds. */
const AGAIN_MS = 1_000;
const HEADS = ['Execution', 'Began', 'Events', 'Result'];

type Execution = ConsoleReplay['executions'][number];

/** Replays the histories of a session against the workers' code, and says what came of it. */
export function ReplayView({ id, temporalUrl }: { id: string; temporalUrl: string | null }) {
  const path = `${sessionPath(id)}/replay`;
  const shown = useConsole<ConsoleReplay>(path);
  const { data: replay, again } = shown;
  const isOpen = replay?.state === 'queued' || replay?.state === 'running';
  useRepeat(shown, isOpen ? AGAIN_MS : null);
  const [problem, setProblem] = useState<string>();
  const start = () => {
    setProblem(undefined);
    askConsole('POST', path).then(again, (error: unknown) => setProblem(wordsOf(error)));
  };
  return (
    <section aria-labelledby="replay">
      <h2 id="replay">Replay</h2>
      <p className="faint">
        A worker replays what Temporal still has of this session against its own workflow code. Nothing is run, and the
        session is not changed.
      </p>
      <div className="tools">
        <button type="button" onClick={start} disabled={replay === undefined || isOpen}>
          Replay against the current code
        </button>
        <span role="status">{replay && wordsOfReplay(replay)}</span>
      </div>
      {problem !== undefined && (
        <p role="alert" className="problem">
          {problem}
        </p>
      )}
      <ReadingNote of={shown} what="the last replay" />
      {replay !== undefined && replay.executions.length > 0 && (
        <Table label="Executions" heads={HEADS}>
          {replay.executions.map((execution) => (
            <Row key={execution.run_id} execution={execution} temporalUrl={temporalUrl} />
          ))}
        </Table>
      )}
    </section>
  );
}

function wordsOfReplay({ state, finished_at: ended, worker, problem, executions }: ConsoleReplay): string {
  switch (state) {
    case 'none':
      return 'Nobody has asked for a replay yet.';
    case 'queued':
      return 'It waits for a worker.';
    case 'running':
      return 'A worker replays it.';
    case 'failed':
      return `It could not be replayed: ${problem}.`;
    case 'done': {
      const by = `${ended === null ? '' : timeWords(ended)}, worker ${worker?.slice(0, 8)}`;
      if (executions.length === 0) return `Temporal has no history of this session (${by}).`;
      const broken = executions.filter(({ outcome }) => outcome === 'broke').length;
      if (broken > 0) return `${countWords(broken)} of ${countWords(executions.length)} do not replay (${by}).`;
      return `All that were replayed passed (${by}).`;
    }
  }
}

function Row({ execution, temporalUrl }: { execution: Execution; temporalUrl: string | null }) {
  const { run_id: run, started_at: began, events } = execution;
  return (
    <tr>
      <th scope="row">
        {temporalUrl === null ? (
          <code>{run}</code>
        ) : (
          <a href={`${temporalUrl}/${run}`} target="_blank" rel="noreferrer">
            {run}
          </a>
        )}
      </th>
      <td>{timeWords(began)}</td>
      <td className="number">{countWords(events)}</td>
      <td className="broke">
        <Result execution={execution} />
      </td>
    </tr>
  );
}

function Result({ execution: { outcome, broke } }: { execution: Execution }) {
  if (outcome === 'passed') return <WorkState state="passed" />;
  if (outcome === 'skipped') return <>not replayed: the histories are too long in all</>;
  return (
    <>
      <WorkState state="differs" /> at {broke}
    </>
  );
}
