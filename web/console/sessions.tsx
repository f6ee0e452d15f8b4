import { type FormEvent, useState } from 'react';
import { ChooseUsers } from '../console-parts/choose-users.tsx';
import { consoleAddress, ConsoleLink } from '../console-parts/console-link.tsx';
import { ReadingNote } from '../console-parts/reading-note.tsx';
import { Table } from '../console-parts/table.tsx';
import { type ListedSession, useNewestFirst, useConsole, type Viewer } from '../console-parts/use-console.ts';
import { WorkState } from '../console-parts/work-state.tsx';
import { costWords, countWords, timeWords } from '../lib/amount-words.ts';

const HEADS = ['Session', 'State', 'Phase', 'Agent', 'User', 'Tokens', 'Cost', 'Opened'];

/** The sessions of the reader, or for those who may read all, those of all users or of one. */
export function Sessions({ all, user }: { all: boolean; user: string }) {
  const viewer = useConsole<Viewer>('');
  const query = new URLSearchParams({ ...(all && { all: 'true' }), ...(user !== '' && { user }) });
  const sessions = useNewestFirst<ListedSession>(`/sessions?${query}`, 'after');
  return (
    <>
      <h1>{user === '' ? (all ? 'Sessions of all users' : 'Your sessions') : `Sessions of ${user}`}</h1>
      <div className="tools">
        <FindSession />
        {viewer.data?.reads_all === true && <ChooseUsers all={all} user={user} />}
        <button type="button" onClick={sessions.again}>
          Refresh
        </button>
      </div>
      <ReadingNote of={sessions} what="the sessions" />
      {sessions.data?.length === 0 && <p className="faint">There are no sessions yet.</p>}
      {sessions.data !== undefined && sessions.data.length > 0 && (
        <Table label="Sessions" heads={HEADS}>
          {sessions.data.map((listed) => (
            <Row key={listed.session.session_id} listed={listed} />
          ))}
        </Table>
      )}
      {sessions.more && (
        <button type="button" onClick={sessions.more}>
          Older sessions
        </button>
      )}
    </>
  );
}

function FindSession() {
  const [id, setId] = useState('');
  const open = (event: FormEvent) => {
    event.preventDefault();
    location.assign(consoleAddress({ session: id.trim() }));
  };
  return (
    <form role="search" onSubmit={open}>
      <label htmlFor="find">Session</label>
      <input
        id="find"
        value={id}
        placeholder="ses_…"
        spellCheck={false}
        onChange={(event) => setId(event.target.value)}
      />
      <button type="submit" disabled={id.trim() === ''}>
        Open
      </button>
    </form>
  );
}

function Row({ listed: { session, chat, status } }: { listed: ListedSession }) {
  const title = chat.metadata['title'];
  return (
    <tr>
      <th scope="row">
        <ConsoleLink id={session.session_id} />
        {typeof title === 'string' && <span className="under">{title}</span>}
      </th>
      <td>
        <WorkState state={status.state} /> {chat.archived_at === null ? '' : 'archived '}
        {chat.closed_at === null ? '' : 'closed'}
      </td>
      <td>{session.phase}</td>
      <td>{chat.agent}</td>
      <td>{session.user_id}</td>
      <td className="number">{countWords(chat.total_tokens)}</td>
      <td className="number">{costWords(chat.cost_usd)}</td>
      <td>{timeWords(chat.created_at)}</td>
    </tr>
  );
}
