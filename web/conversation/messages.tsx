import type { UIMessage } from 'ai';
import { type ReactElement, type RefObject, useCallback, useState } from 'react';
import type { TabSession } from '../session/tab-session.ts';
import { sessionAddress } from '../session/tab.ts';
import type { View } from '../session/view.ts';
import { hasContent, type HeldCall } from '../transcript/transcript.ts';
import { type Placed, placed } from '../transcript/turns.ts';
import { BesideButton } from './beside-button.tsx';
import type { Editing, OnEdit } from './edit-form.tsx';
import { LongList } from './long-list.tsx';
import { TurnMessage } from './turn-message.tsx';

interface Props {
  session: TabSession;
  view: View;
  messages: UIMessage[];
  isStreaming: boolean;
  /** An answer is in flight, streamed to this tab or not. */
  isWorking: boolean;
  isBeside: boolean;
  held: HeldCall | undefined;
  /** What scrolls. */
  scrolled: RefObject<HTMLElement | null>;
  /** Id of the message that the page's URL names. */
  linked: string | undefined;
  /** A message was gone back to: what can be changed and sent in its place. */
  onGoneBack: (message: UIMessage) => void;
  onUndone: () => void;
  /** The user wants another model. */
  onChooseModel: () => void;
}

/** The messages of a conversation whose turns have begun, with their turns' ends. */
export function Messages(props: Props) {
  const { session, view, messages, isStreaming, isWorking, isBeside, scrolled, linked } = props;
  const [editing, setEditing] = useState<Editing>();
  const onEdit = useCallback<OnEdit>((id, change) => setEditing(id === undefined ? undefined : { id, change }), []);
  // A conversation that is longer than a page of messages; one that becomes so is not drawn anew.
  const [isLong] = useState(view.earlier !== null);
  const shown = messages.filter((message) => hasContent(message));
  const turnOf = (each: Placed): ReactElement => (
    <div
      className="turn"
      key={each.message.id}
      data-message={each.message.id}
      data-linked={each.message.id === linked || undefined}
    >
      <TurnMessage
        placed={each}
        {...props}
        isLive={isWorking && each.message === messages.at(-1) && each.message.role === 'assistant'}
        editing={editing}
        onEdit={onEdit}
      />
    </div>
  );
  const all = placed(shown);
  return (
    <>
      {(isLong || view.earlier !== null) && <Earlier session={session} view={view} />}
      {view.parent !== null && (
        <p className="note">
          {view.isChild ? 'A subagent works here.' : 'This is a branch.'}{' '}
          <a href={sessionAddress(view.parent)} target="_blank" rel="opener">
            Open the conversation that {view.isChild ? 'has called it' : 'it was made from'}
          </a>{' '}
          {!isBeside && <BesideButton id={view.parent} />}
        </p>
      )}
      {/* Screen readers read an answer when it is complete, not word by word. */}
      <div role="log" aria-live="polite" aria-busy={isStreaming} aria-label="Messages">
        {shown.length === 0 && !isWorking && !view.isChild && <Welcome onPick={(text) => session.send(text)} />}
        {isLong ? (
          <LongList items={all} scrolled={scrolled} itemOf={turnOf} kept={[editing?.id, linked]} />
        ) : (
          all.map((each) => turnOf(each))
        )}
        {isWorking && shown.at(-1)?.role !== 'assistant' && <p className="thinking" aria-hidden="true" />}
      </div>
    </>
  );
}

/** Once all are loaded its place stays empty, so that nothing moves under a button of the mouse that is down. */
function Earlier({ session, view }: Pick<Props, 'session' | 'view'>) {
  const visibility = view.earlier === null ? 'hidden' : 'visible';
  return (
    <button type="button" className="quiet" style={{ visibility }} onClick={() => void session.showEarlier()}>
      Show earlier messages
    </button>
  );
}

const EXAMPLE = 'Build me a site about owls';

function Welcome({ onPick }: { onPick: (text: string) => void }) {
  return (
    <div className="welcome">
      <p>Say what you want, and watch it being built. Whatever stops or breaks, nothing of it is lost.</p>
      <button type="button" onClick={() => onPick(EXAMPLE)}>
        {EXAMPLE}
      </button>
    </div>
  );
}
