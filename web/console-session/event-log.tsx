import { consoleAddress } from '../console-parts/console-link.tsx';
import { ReadingNote } from '../console-parts/reading-note.tsx';
import { Table } from '../console-parts/table.tsx';
import { type LogEntry, sessionPath, useOldestFirst } from '../console-parts/use-console.ts';
import { timeWords } from '../lib/amount-words.ts';

const HEADS = ['Number', 'Time', 'Event', 'By', 'Data'];

/**
 * The event log of a session, oldest first; each event leads to the session as it stood after it.
 * @param of the session: the log is read again with it
 */
export function EventLog({ id, of }: { id: string; of: unknown }) {
  const log = useOldestFirst<LogEntry>(`${sessionPath(id)}/log`, 'after', of);
  return (
    <>
      <ReadingNote of={log} what="the events" />
      {log.data && (
        <Table label="Events" heads={HEADS}>
          {log.data.map((entry) => (
            <tr key={entry.seq}>
              <th scope="row">{entry.seq}</th>
              <td>{timeWords(entry.at)}</td>
              <td>
                <a href={consoleAddress({ session: id, after: String(entry.seq) })}>{wordsOfEvent(entry)}</a>
              </td>
              <td>{entry.actor}</td>
              <td>
                <details>
                  <summary aria-label={`Data of event ${entry.seq}`}>Data</summary>
                  <pre tabIndex={0}>{JSON.stringify(entry.data, null, 2)}</pre>
                </details>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {log.more && (
        <button type="button" onClick={log.more}>
          Later events
        </button>
      )}
    </>
  );
}

/** A transition with its phases, any other event by its kind. */
function wordsOfEvent({ kind, data }: LogEntry): string {
  if (kind !== 'transition') return kind;
  const { event, from, to } = data;
  return `${String(event)}: ${String(from)} → ${String(to)}`;
}
