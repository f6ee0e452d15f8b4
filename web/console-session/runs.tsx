import type { ConsoleTurn } from '../../wire/console.ts';
import { Table } from '../console-parts/table.tsx';
import { WorkState } from '../console-parts/work-state.tsx';
import { countWords, durationWords, timeWords } from '../lib/amount-words.ts';

const HEADS = ['Run', 'State', 'Kind', 'Fence', 'Worker', 'Tokens', 'Accepted', 'Began', 'Ended', 'Waited for answers'];

/** The runs of a session with the fences under which they were last claimed: epoch, ordinal, attempt, renewal. */
export function Runs({ turns }: { turns: readonly ConsoleTurn[] }) {
  return (
    <Table label="Runs and fences" heads={HEADS}>
      {turns.map((turn) => (
        <tr key={turn.run_seq}>
          <th scope="row">{turn.run_seq}</th>
          <td>
            <WorkState state={turn.state} /> {turn.code}
          </td>
          <td>{turn.kind}</td>
          <td>
            <code>{turn.fence.join('.')}</code>
          </td>
          <td>{turn.worker === null ? '–' : <code title={turn.worker}>{turn.worker.slice(0, 8)}</code>}</td>
          <td className="number">{countWords(turn.tokens)}</td>
          <td>{timeWords(turn.created_at)}</td>
          <td>{turn.started_at === null ? '–' : timeWords(turn.started_at)}</td>
          <td>{turn.finished_at === null ? '–' : timeWords(turn.finished_at)}</td>
          <td className="number">{turn.waited_ms === 0 ? '–' : durationWords(turn.waited_ms)}</td>
        </tr>
      ))}
    </Table>
  );
}
