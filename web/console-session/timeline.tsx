import { type ReactNode, useState } from 'react';
import type { ConsoleTurn } from '../../wire/console.ts';
import { CallDetails, StepDetails } from '../console-parts/details.tsx';
import { Table } from '../console-parts/table.tsx';
import type { Call, Step, ConsoleWork } from '../console-parts/use-console.ts';
import { WorkState } from '../console-parts/work-state.tsx';
import { costWords, countWords, durationWords, stretchOf, timeWords } from '../lib/amount-words.ts';
import { PromptText } from './prompt-text.tsx';

/** The turns of a session, newest first, each with its steps and tool calls in their order. */
export function Timeline({ id, turns }: { id: string; turns: readonly ConsoleTurn[] }) {
  return (
    <ol className="turns" aria-label="Turns, newest first">
      {turns.map((turn, at) => (
        <li key={turn.run_seq}>
          <TurnRows id={id} turn={turn} earlier={turns.slice(at + 1)} />
        </li>
      ))}
    </ol>
  );
}

const HEADS = ['Work', 'When', 'Duration', 'Tokens in', 'Tokens out', 'Cost', 'Retries', 'Worker'];

function TurnRows({ id, turn, earlier }: { id: string; turn: ConsoleTurn; earlier: readonly ConsoleTurn[] }) {
  const { run_seq: number, started_at: began, finished_at: ended } = turn;
  const rows = worksOf(turn);
  return (
    <section aria-labelledby={`turn-${number}`}>
      <h2 id={`turn-${number}`}>
        {turn.kind === 'turn' ? 'Turn' : turn.kind} {number} <WorkState state={turn.state} />
        {began !== null && ended !== null && (
          <span className="faint">{durationWords(Date.parse(ended) - Date.parse(began))}</span>
        )}
        <span className="faint">{timeWords(turn.created_at)}</span>
      </h2>
      {turn.text !== null && (
        <p className="said" dir="auto">
          {turn.text}
        </p>
      )}
      {turn.code !== null && (
        <p className="problem">
          {turn.code}: {turn.message}
        </p>
      )}
      {turn.retry !== null && (
        <p className="problem">
          Attempt {turn.retry.attempt} failed: {turn.retry.reason}
        </p>
      )}
      {turn.failures.map((failure) => (
        <p key={failure.event_seq} className="problem">
          {timeWords(failure.at)}: the provider failed with {failure.code}
          {failure.status !== null && ` (${failure.status})`}: {failure.message}
        </p>
      ))}
      {rows.length > 0 && (
        <Table label={`Steps and tool calls of turn ${number}`} heads={HEADS} className="works">
          {rows.map((row) => (
            <WorkRow key={'call' in row ? row.call.tool_call_id : row.step.step} row={row} turn={turn} />
          ))}
        </Table>
      )}
      {turn.prompt_digest !== null && <PromptText id={id} digest={turn.prompt_digest} before={promptBefore(earlier)} />}
    </section>
  );
}

/** The newest prompt of these turns. */
function promptBefore(turns: readonly ConsoleTurn[]): { run: number; digest: string } | undefined {
  for (const { run_seq: run, prompt_digest: digest } of turns) if (digest !== null) return { run, digest };
  return undefined;
}

type WorkOf = { step: Step } | { call: Call };

/** Each step with its calls; calls without a known step come last. */
function worksOf({ steps, calls }: ConsoleTurn): WorkOf[] {
  const inOrder = steps.flatMap((step): WorkOf[] => [
    { step },
    ...calls.filter((call) => call.step === step.step).map((call) => ({ call })),
  ]);
  const numbers = new Set(steps.map(({ step }) => step));
  const others = calls.filter(({ step }) => step === null || !numbers.has(step));
  return [...inOrder, ...others.map((call) => ({ call }))];
}

function WorkRow({ row, turn }: { row: WorkOf; turn: ConsoleTurn }) {
  const [isOpen, setOpen] = useState(false);
  const { work } = 'call' in row ? row.call : row.step;
  const name = 'call' in row ? row.call.name : `Step ${row.step.step + 1}`;
  return (
    <>
      <tr data-kind={'call' in row ? 'call' : 'step'}>
        <th scope="row">
          <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {name}
          </button>
          <span className="under">{'call' in row ? row.call.state : row.step.model}</span>
        </th>
        <td>{work && <Bar work={work} turn={turn} />}</td>
        <td className="number">{work ? durationWords(work.ms) : '–'}</td>
        <Tokens of={row} />
        <td className="number">{work ? Math.max(work.attempt, work.fence[2] ?? 1, 1) - 1 : '–'}</td>
        <td>{work ? <code title={work.worker}>{work.worker.slice(0, 8)}</code> : '–'}</td>
      </tr>
      {isOpen && (
        <tr className="opened">
          <td colSpan={HEADS.length}>
            {'call' in row ? <CallDetails call={row.call} /> : <StepDetails step={row.step} />}
          </td>
        </tr>
      )}
    </>
  );
}

function Tokens({ of }: { of: WorkOf }): ReactNode {
  if ('call' in of) return <td colSpan={3} />;
  const { usage, cost_usd: cost } = of.step;
  return (
    <>
      <td className="number">{usage ? countWords(usage.input + usage.cache_read + usage.cache_write) : '–'}</td>
      <td className="number">{usage ? countWords(usage.output + usage.reasoning) : '–'}</td>
      <td className="number">{costWords(cost)}</td>
    </>
  );
}

/** When within its turn the work was done. The table says the same in words. */
function Bar({ work, turn }: { work: ConsoleWork; turn: ConsoleTurn }) {
  const from = Date.parse(turn.started_at ?? turn.created_at);
  const ends = turn.finished_at ?? latest(turn) ?? work.ended_at;
  const { from: start, length } = stretchOf(work, { from, to: Date.parse(ends) });
  return (
    <span className="stretch" aria-hidden="true">
      <span style={{ marginInlineStart: `${start * 100}%`, width: `${length * 100}%` }} />
    </span>
  );
}

/** Until when a turn that goes on is known. */
function latest({ steps, calls }: ConsoleTurn): string | undefined {
  const ends = [...steps, ...calls].flatMap(({ work }) => (work ? [work.ended_at] : []));
  return ends.toSorted().at(-1);
}
