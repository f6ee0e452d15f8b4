import type { UIMessage } from 'ai';
import { summaryOf } from '../../domain/compaction.ts';
import { canChooseModel } from '../composer/model-picker.tsx';
import type { TabSession } from '../session/tab-session.ts';
import { sessionAddress } from '../session/tab.ts';
import type { View } from '../session/view.ts';
import { Summary } from '../transcript/summary.tsx';
import { filesOf, type HeldCall, isFromTask, messageText } from '../transcript/transcript.ts';
import { type Placed, type WayOut, waysOut } from '../transcript/turns.ts';
import { Actions } from './actions.tsx';
import { BesideButton } from './beside-button.tsx';
import { type Change, EditForm, type Editing, type OnEdit } from './edit-form.tsx';
import { Message } from './message.tsx';
import { TurnEndMark } from './turn-end.tsx';

interface Props {
  placed: Placed;
  session: TabSession;
  view: View;
  /** The message is an answer in flight. */
  isLive: boolean;
  /** An answer is in flight. */
  isWorking: boolean;
  /** The tool call that the turn waits for. */
  held: HeldCall | undefined;
  editing: Editing | undefined;
  onEdit: OnEdit;
  onGoneBack: (message: UIMessage) => void;
  onUndone: () => void;
  onChooseModel: () => void;
}

/** A message, what can be done with it, and below the last one of its turn how that ended. */
export function TurnMessage(props: Props) {
  const { placed, session, view, isLive, isWorking, held, editing, onEdit, onGoneBack, onUndone } = props;
  const { message, end } = placed;
  if (editing?.id === message.id) {
    const send = async (change: Change) => {
      onEdit(undefined);
      // What the user has typed is not lost with a request that failed.
      if (!(await session.goingBack.edit(message, change))) onEdit(message.id, change);
    };
    const files = filesOf(message).map(({ filename, mediaType }) => filename ?? mediaType);
    const change = editing.change ?? { text: messageText(message), withFiles: true };
    return (
      <EditForm {...change} files={files} onSend={(sent) => void send(sent)} onDiscard={() => onEdit(undefined)} />
    );
  }
  const summary = summaryOf(message.parts);
  if (summary !== undefined) return <Summary message={message} data={summary} session={session} Answer={Message} />;
  return (
    <>
      <Message
        message={message}
        isLive={isLive}
        progress={isLive ? view.progress : null}
        held={isLive ? held : undefined}
      />
      {!isLive && (
        <Actions
          message={message}
          session={session}
          isWorking={isWorking}
          isChild={view.isChild}
          onEdit={onEdit}
          onGoneBack={onGoneBack}
        />
      )}
      {isGoneBackTo(props) && <GoneBack session={session} onUndone={onUndone} />}
      {view.branch?.from === message.id && <BranchMade id={view.branch.id} />}
      {end !== undefined && !(isWorking && placed.isNewest) && <End {...props} end={end} />}
    </>
  );
}

/** The next message replaces this one. */
function isGoneBackTo({ placed: { message, isNewest }, view, isWorking }: Props): boolean {
  return !isWorking && isNewest && view.gone_back_to === message.id;
}

function GoneBack({ session, onUndone }: { session: TabSession; onUndone: () => void }) {
  const undo = async () => {
    if (await session.goingBack.undo()) onUndone();
  };
  return (
    <p className="note gone-back" role="note" data-focus-home=".composer textarea">
      You have gone back here. Your next message replaces this one.{' '}
      <button type="button" className="quiet" onClick={() => void undo()}>
        Undo
      </button>
    </p>
  );
}

function BranchMade({ id }: { id: string }) {
  return (
    <p className="note" role="status">
      A branch was made:{' '}
      <a href={sessionAddress(id)} target="_blank" rel="opener">
        open it in another tab
      </a>{' '}
      or <BesideButton id={id} />
    </p>
  );
}

function End(props: Props & { end: NonNullable<Placed['end']> }) {
  const { placed, session, view, isWorking, end, onEdit, onChooseModel } = props;
  const { message, asked, before, isNewest } = placed;
  const isPossible: Record<WayOut, boolean> = {
    retry: !view.isChild,
    model: canChooseModel(view),
    edit: asked !== undefined && !isFromTask(asked),
    branch: before !== undefined && !view.isChild,
    compact: before !== undefined,
  };
  const onWayOut = (way: WayOut) => {
    if (way === 'retry') void session.goingBack.regenerate(message);
    else if (way === 'edit') onEdit(asked?.id);
    else if (way === 'model') onChooseModel();
    else if (way === 'compact') void session.command('compact');
    else if (before !== undefined) void session.goingBack.branch(before);
  };
  // Trying an older turn again would hide those after it; its message still has the button for that.
  const ways = isNewest && !isWorking ? waysOut(end).filter((way) => isPossible[way]) : [];
  return <TurnEndMark end={end} ways={ways} onWayOut={onWayOut} />;
}
