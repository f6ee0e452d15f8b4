import type { ConsoleTurn } from '../../wire/console.ts';
import { consoleAddress, ConsoleLink } from '../console-parts/console-link.tsx';
import { Fact } from '../console-parts/details.tsx';
import { ReadingNote } from '../console-parts/reading-note.tsx';
import {
  sessionPath,
  type ConsoleSessionView,
  useNewestFirst,
  useConsole,
  useRepeat,
} from '../console-parts/use-console.ts';
import { WorkState } from '../console-parts/work-state.tsx';
import { costWords, countWords, timeWords } from '../lib/amount-words.ts';
import { EventLog } from './event-log.tsx';
import { PastSession } from './past-session.tsx';
import { ReplayView } from './replay-view.tsx';
import { Runs } from './runs.tsx';
import { Timeline } from './timeline.tsx';

/** A session is read again this often, in milliseconds: at work, and while it waits for a user. */
const AGAIN_MS: Readonly<Record<string, number>> = { busy: 2_000, retrying: 2_000, waiting: 10_000 };

const VIEWS = { timeline: 'Timeline', events: 'Events', runs: 'Runs and fences', replay: 'Replay' } as const;
type View = keyof typeof VIEWS;

function isView(name: string | null): name is View {
  return name !== null && Object.hasOwn(VIEWS, name);
}

/**
 * One session: its timeline, its event log, its runs, or what a replay of its histories says.
 * @param after the number of an event: the session is shown as it stood then
 */
export function SessionPage({ id, view: named, after }: { id: string; view: string | null; after: string | null }) {
  const view = isView(named) ? named : 'timeline';
  const shown = useConsole<ConsoleSessionView>(sessionPath(id));
  const { data: session, again } = shown;
  useRepeat(shown, AGAIN_MS[session?.status.state ?? ''] ?? null);
  return (
    <>
      <h1>
        Session <code>{id}</code>
      </h1>
      <ReadingNote of={shown} what="the session" />
      {shown.problem !== undefined && session === undefined && <a href={consoleAddress({})}>All sessions</a>}
      {session && (
        <>
          <Facts shown={session} />
          <nav aria-label="Views of the session">
            {Object.entries(VIEWS).map(([name, words]) => (
              <a
                key={name}
                href={consoleAddress({ session: id, view: name })}
                aria-current={name === view && after === null ? 'page' : undefined}
              >
                {words}
              </a>
            ))}
            <button type="button" onClick={again}>
              Refresh
            </button>
          </nav>
          {after !== null ? (
            <PastSession id={id} seq={after} mayBranch={session.is_own && session.chat.depth === 0} />
          ) : view === 'events' ? (
            <EventLog id={id} of={session} />
          ) : view === 'replay' ? (
            <ReplayView id={id} temporalUrl={session.temporal_url} />
          ) : (
            <Turns id={id} of={session} view={view} />
          )}
        </>
      )}
    </>
  );
}

/** What is known of the session as a whole. */
function Facts({ shown: { session, chat, status, is_own, epoch, temporal_url: url } }: { shown: ConsoleSessionView }) {
  return (
    <dl className="facts">
      <Fact name="State">
        <WorkState state={status.state} /> {status.message}
      </Fact>
      <Fact name="Phase">{session.phase}</Fact>
      <Fact name="Agent">{chat.agent}</Fact>
      <Fact name="User">{is_own ? `${session.user_id} (you)` : session.user_id}</Fact>
      {session.project_id !== null && <Fact name="Project">{session.project_id}</Fact>}
      {chat.parent_id !== null && (
        <Fact name="Parent">
          <ConsoleLink id={chat.parent_id} />
        </Fact>
      )}
      <Fact name="Tokens">{countWords(chat.total_tokens)}</Fact>
      <Fact name="Cost">{costWords(chat.cost_usd)}</Fact>
      <Fact name="Epoch">{epoch}</Fact>
      <Fact name="Opened">{timeWords(chat.created_at)}</Fact>
      {url !== null && (
        <Fact name="Workflow">
          <a href={url} target="_blank" rel="noreferrer">
            in Temporal’s UI
          </a>
        </Fact>
      )}
    </dl>
  );
}

/** The turns, read again with the session. */
function Turns({ id, of, view }: { id: string; of: ConsoleSessionView; view: 'timeline' | 'runs' }) {
  const turns = useNewestFirst<ConsoleTurn>(`${sessionPath(id)}/turns`, 'before', of);
  return (
    <>
      <ReadingNote of={turns} what="the turns" />
      {turns.data?.length === 0 && <p className="faint">Nothing was said yet.</p>}
      {turns.data !== undefined &&
        turns.data.length > 0 &&
        (view === 'runs' ? <Runs turns={turns.data} /> : <Timeline id={id} turns={turns.data} />)}
      {turns.more && (
        <button type="button" onClick={turns.more}>
          Earlier turns
        </button>
      )}
    </>
  );
}
