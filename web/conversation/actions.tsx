import {
  ArrowPathIcon,
  ArrowTurnDownRightIcon,
  ArrowUturnLeftIcon,
  CheckIcon,
  ClipboardDocumentIcon,
  PencilSquareIcon,
} from '@heroicons/react/20/solid';
import type { UIMessage } from 'ai';
import { memo } from 'react';
import { IconButton } from '../design/icon-button.tsx';
import { useCopy } from '../lib/copy.ts';
import { momentWords } from '../lib/moments.ts';
import type { TabSession } from '../session/tab-session.ts';
import { isFromTask, messageText } from '../transcript/transcript.ts';

interface Props {
  message: UIMessage;
  session: TabSession;
  /** An answer is in flight. */
  isWorking: boolean;
  /** The session is that of a subagent: it takes what its caller says only. */
  isChild: boolean;
  onEdit: (messageId: string) => void;
  onGoneBack: (message: UIMessage) => void;
}

/** What can be done with a message, which model has written it, and when. */
export const Actions = memo(function Actions(props: Props) {
  const { message, session, isWorking, isChild } = props;
  const { goingBack } = session;
  const isUsers = message.role === 'user';
  const answeredBy = isUsers ? undefined : (message.metadata as { model?: string } | undefined)?.model;
  return (
    <p className={`actions ${message.role}`} data-focus-home=".composer textarea">
      <Copy label={isUsers ? 'Copy message' : 'Copy answer'} text={() => messageText(message)} />
      {isUsers && !isChild && !isFromTask(message) && <OfUsers {...props} />}
      {!isUsers && !isChild && (
        <IconButton label="Answer again" onClick={() => void goingBack.regenerate(message)}>
          <ArrowPathIcon aria-hidden="true" />
        </IconButton>
      )}
      {!isWorking && !isChild && (
        <IconButton label="Branch here" onClick={() => void goingBack.branch(message)}>
          <ArrowTurnDownRightIcon aria-hidden="true" />
        </IconButton>
      )}
      {answeredBy !== undefined && <span className="note">{answeredBy}</span>}
      <Moment at={session.timeOf(message)} />
    </p>
  );
});

function OfUsers({ message, session, isWorking, onEdit, onGoneBack }: Props) {
  const goBack = async () => {
    if (await session.goingBack.rewind(message)) onGoneBack(message);
  };
  return (
    <>
      <IconButton label="Edit" onClick={() => onEdit(message.id)}>
        <PencilSquareIcon aria-hidden="true" />
      </IconButton>
      {!isWorking && (
        <IconButton label="Go back here" onClick={() => void goBack()}>
          <ArrowUturnLeftIcon aria-hidden="true" />
        </IconButton>
      )}
    </>
  );
}

/** Absent where the browser has no clipboard: it is available in secure contexts only. */
function Copy({ label, text }: { label: string; text: () => string }) {
  const { isCopied, copy } = useCopy(text);
  if (!window.isSecureContext) return null;
  return (
    <IconButton label={isCopied ? 'Copied' : label} onClick={() => void copy()}>
      {isCopied ? <CheckIcon aria-hidden="true" /> : <ClipboardDocumentIcon aria-hidden="true" />}
    </IconButton>
  );
}

function Moment({ at }: { at: Date }) {
  return (
    <time className="moment" dateTime={at.toISOString()} title={at.toLocaleString()}>
      {momentWords(at)}
    </time>
  );
}
