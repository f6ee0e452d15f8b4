import { useChat } from '@ai-sdk/react';
import { ArrowDownIcon } from '@heroicons/react/20/solid';
import type { UIMessage } from 'ai';
import { useCallback, useEffect, useRef, useState } from 'react';
import { BesideComposer } from '../composer/beside-composer.tsx';
import { Composer } from '../composer/composer.tsx';
import { IconButton } from '../design/icon-button.tsx';
import { useStickToEnd } from '../lib/stick-to-end.ts';
import type { TabSession } from '../session/tab-session.ts';
import type { View } from '../session/view.ts';
import { ChildQuestions } from '../tool-calls/child-questions.tsx';
import { countToolsEnded, filesOf, heldCall, isInFlight, messageText, type Waiting } from '../transcript/transcript.ts';
import { Messages } from './messages.tsx';
import { StatusLine } from './status-line.tsx';
import { statusWords } from './status-words.ts';
import { useLinkedMessage } from './use-linked-message.ts';
import { WaitingList } from './waiting-list.tsx';

/** Minimum interval between redraws of a streaming answer; faster ones would not be noticed. */
const REDRAW_MS = 40;
const REFRESH_MS = 150;

/** The messages, the waiting messages and the input field. */
export function Conversation(props: { session: TabSession; view: View; isBeside?: boolean }) {
  const { session, view, isBeside = false } = props;
  const { messages, status } = useChat({ chat: session.chat, throttle: REDRAW_MS });
  const { draft, setDraft, putBack, putIn, takeOut } = useDraft(session);
  const isStreaming = status === 'submitted' || status === 'streaming';
  const isWorking = isStreaming || isInFlight(view.status);
  // A stream ends with the call that the turn waits for; until then the call may not be shown as it is.
  const held = isStreaming ? undefined : heldCall(messages, view.status);
  const { questions = [] } = view.status;
  useTitle(!isBeside && (held?.by === 'user' || questions.some((asked) => asked.for === 'approval')));
  const { ref: main, isAtEnd, toEnd, show } = useStickToEnd<HTMLDivElement>(() => void session.showEarlier());
  const linked = useLinkedMessage(isBeside ? undefined : session, { ref: main, show });

  // A page has one main part.
  const [Region, name] = isBeside ? (['div', 'Messages beside'] as const) : (['main', 'Conversation'] as const);
  const toolsEnded = countToolsEnded(messages);
  useEffect(() => {
    // The panels are those of the tab's own session.
    if (isBeside) return undefined;
    // Debounced: loading a conversation reports many ended tools at once.
    const timer = setTimeout(() => session.toolEnded(), toolsEnded > 0 ? REFRESH_MS : 0);
    return () => clearTimeout(timer);
  }, [session, toolsEnded, isBeside]);

  const focusOn = useCallback(
    (field: string) => main.current?.parentElement?.querySelector<HTMLElement>(field)?.focus(),
    [main],
  );
  const goneBack = useCallback(
    (message: UIMessage) => {
      putIn(message);
      focusOn('.composer textarea');
    },
    [putIn, focusOn],
  );
  const edit = async (waiting: Waiting) => {
    if (await session.takeBack(waiting)) putBack(waiting.message);
  };
  const send = (text: string) => {
    session.send(text);
    toEnd();
  };

  return (
    <>
      <Region ref={main} className="conversation" aria-label={name} tabIndex={0}>
        <h2 className="unseen">{name}</h2>
        <Messages
          session={session}
          view={view}
          messages={messages}
          isStreaming={isStreaming}
          isWorking={isWorking}
          isBeside={isBeside}
          held={held}
          scrolled={main}
          linked={linked}
          onGoneBack={goneBack}
          onUndone={takeOut}
          onChooseModel={() => focusOn('.picker select')}
        />
        <ChildQuestions questions={questions} />
        <WaitingList
          waiting={view.waiting}
          takingBack={view.takingBack}
          isPaused={view.status.state === 'error'}
          onEdit={(waiting) => void edit(waiting)}
          onTakeBack={(waiting) => void session.takeBack(waiting)}
        />
      </Region>
      <footer>
        {!isAtEnd && (
          <IconButton
            className="to-end"
            label="Jump to the latest"
            data-focus-home=".composer textarea"
            onClick={toEnd}
          >
            <ArrowDownIcon aria-hidden="true" />
          </IconButton>
        )}
        {view.notice !== null && (
          <p className="notice" role="alert" data-focus-home=".composer textarea">
            <span>{view.notice}</span>
            <button type="button" className="quiet" onClick={() => session.dismiss()}>
              Dismiss
            </button>
          </p>
        )}
        <p className="status" role="status" data-state={view.lost ? 'lost' : view.status.state}>
          <StatusLine words={statusWords(view, held)} />
        </p>
        <BesideComposer session={session} view={view} messages={messages} isWorking={isWorking} />
        {view.isChild ? (
          isWorking && (
            <button type="button" className="stop" onClick={() => void session.stop()}>
              Stop
            </button>
          )
        ) : (
          <Composer
            draft={draft}
            uploads={session.uploads}
            onDraft={setDraft}
            onSend={send}
            {...(isWorking && { onStop: () => void session.stop() })}
          />
        )}
      </footer>
    </>
  );
}

/** The text of the next message, into which a message is put back with its files. */
function useDraft({ uploads }: TabSession) {
  const [draft, setDraft] = useState('');
  const handedBack = useRef<{ text: string; files: number[] }>(undefined);
  const putBack = useCallback(
    (message: UIMessage) => {
      const text = messageText(message);
      setDraft((typed) => [typed, text].filter((each) => each !== '').join('\n'));
      return { text, files: uploads.putBack(filesOf(message)) };
    },
    [uploads],
  );
  /** Takes out the message that was gone back to, unless the user has changed it. */
  const takeOut = useCallback(() => {
    const { text = '', files = [] } = handedBack.current ?? {};
    handedBack.current = undefined;
    for (const key of files) uploads.remove(key);
    if (text !== '') setDraft((typed) => withoutEnd(typed, text));
  }, [uploads]);
  /** Puts in the message that was gone back to, in place of one before it. */
  const putIn = useCallback(
    (message: UIMessage) => {
      takeOut();
      handedBack.current = putBack(message);
    },
    [takeOut, putBack],
  );
  return { draft, setDraft, putBack, putIn, takeOut };
}

function withoutEnd(typed: string, end: string): string {
  if (typed === end) return '';
  return typed.endsWith(`\n${end}`) ? typed.slice(0, -end.length - 1) : typed;
}

/** The title of the page, which tells in the browser's list of tabs that the agent waits for the user. */
function useTitle(waits: boolean): void {
  useEffect(() => {
    const { title } = document;
    if (waits) document.title = `Waits for you – ${title}`;
    return () => void (document.title = title);
  }, [waits]);
}
