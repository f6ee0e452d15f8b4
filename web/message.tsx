import { isToolUIPart, type UIMessage } from 'ai';
import { lazy, memo, Suspense } from 'react';
import { ToolCall } from './tool-call.tsx';

/** Fetched at once, but the page does not wait for it: until it is there, an answer is shown as it was written. */
const fetched = import('./markdown.tsx').then(({ Markdown }) => ({ default: Markdown }));
const Markdown = lazy(() => fetched);

/** One message. It is drawn again only when it has changed. */
export const Message = memo(function Message({ message, isLive }: { message: UIMessage; isLive: boolean }) {
  const author = message.role === 'user' ? 'You' : 'Agent';
  return (
    <article className={`message ${message.role}`} aria-label={author}>
      {message.parts.map((part, index) => (
        // Parts only ever come at the end.
        <Part key={index} part={part} isLive={isLive} isUsers={message.role === 'user'} />
      ))}
    </article>
  );
});

interface PartProps {
  part: UIMessage['parts'][number];
  isLive: boolean;
  /** What users type is shown as they typed it. */
  isUsers: boolean;
}

function Part({ part, isLive, isUsers }: PartProps) {
  if (isToolUIPart(part)) return <ToolCall part={part} isLive={isLive} />;
  switch (part.type) {
    case 'text':
      if (part.text === '') return null;
      if (isUsers) return <div className="text">{part.text}</div>;
      return (
        <Suspense fallback={<div className="text">{part.text}</div>}>
          <Markdown text={part.text} isStreaming={isLive && part.state === 'streaming'} />
        </Suspense>
      );
    case 'reasoning':
      return part.text === '' ? null : <Reasoning text={part.text} isOn={isLive && part.state === 'streaming'} />;
    case 'file':
      return <p className="note">Attached: {part.filename ?? part.mediaType}</p>;
    case 'data-interrupted':
      return <p className="note">The answer was interrupted here and begun again.</p>;
    default:
      return null;
  }
}

function Reasoning({ text, isOn }: { text: string; isOn: boolean }) {
  return (
    <details className="reasoning">
      <summary>{isOn ? 'Thinking…' : 'Reasoning'}</summary>
      <div className="text">{text}</div>
    </details>
  );
}
