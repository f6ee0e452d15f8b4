import { useChat } from '@ai-sdk/react';
import { useEffect, useState } from 'react';
import { Composer } from './composer.tsx';
import { Message } from './message.tsx';
import type { TabSession } from './session.ts';
import type { View } from './view.ts';
import { StatusLine } from './status-line.tsx';
import { statusWords } from './status-words.ts';
import { countToolsEnded, hasContent, isInFlight, textOf, type Waiting } from './transcript.ts';
import { useStickToEnd } from './stick-to-end.ts';
import { WaitingList } from './waiting-list.tsx';

/** Minimum interval between redraws of a streaming answer; faster ones would not be noticed. */
const REDRAW_MS = 40;
const REFRESH_MS = 150;

/** The messages, the waiting messages and the input field. */
export function Conversation({ session, view }: { session: TabSession; view: View }) {
  const { messages, status } = useChat({ chat: session.chat, throttle: REDRAW_MS });
  const [draft, setDraft] = useState('');
  const isStreaming = status === 'submitted' || status === 'streaming';
  const isWorking = isStreaming || isInFlight(view.status);
  const main = useStickToEnd<HTMLElement>();
  const shown = messages.filter((message) => hasContent(message));

  const toolsEnded = countToolsEnded(messages);
  useEffect(() => {
    // Debounced: loading a conversation reports many ended tools at once.
    const timer = setTimeout(() => void session.refreshPreview(), toolsEnded > 0 ? REFRESH_MS : 0);
    return () => clearTimeout(timer);
  }, [session, toolsEnded]);

  const takeBack = (waiting: Waiting) => {
    void session.takeBack(waiting);
    if (draft === '') setDraft(textOf(waiting.message));
  };

  return (
    <>
      <main ref={main} aria-label="Conversation" tabIndex={0}>
        <h2 className="unseen">Conversation</h2>
        {view.earlier !== null && (
          <button type="button" className="quiet" onClick={() => void session.showEarlier()}>
            Show earlier messages
          </button>
        )}
        {/* Screen readers read an answer when it is complete, not word by word. */}
        <div role="log" aria-live="polite" aria-busy={isStreaming} aria-label="Messages">
          {shown.length === 0 && !isWorking && <Welcome onPick={(text) => session.send(text)} />}
          {shown.map((message) => (
            <Message key={message.id} message={message} isLive={isWorking && message === messages.at(-1)} />
          ))}
          {isWorking && shown.at(-1)?.role !== 'assistant' && <p className="thinking" aria-hidden="true" />}
        </div>
        <WaitingList waiting={view.waiting} onTakeBack={takeBack} />
      </main>
      <footer>
        {view.notice !== null && (
          <p className="notice" role="alert" data-focus-home=".composer textarea">
            <span>{view.notice}</span>
            <button type="button" className="quiet" onClick={() => session.dismiss()}>
              Dismiss
            </button>
          </p>
        )}
        <p className="status" role="status" data-state={view.lost ? 'lost' : view.status.state}>
          <StatusLine words={statusWords(view)} />
        </p>
        <Composer
          draft={draft}
          onDraft={setDraft}
          onSend={(text) => session.send(text)}
          {...(isWorking && { onStop: () => void session.stop() })}
        />
      </footer>
    </>
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
