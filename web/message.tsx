import { isToolUIPart, type UIMessage } from 'ai';
import { memo } from 'react';
import { ToolCall } from './tool-call.tsx';

/** One message. It is drawn again only when it has changed. */
export const Message = memo(function Message({ message, isLive }: { message: UIMessage; isLive: boolean }) {
  const author = message.role === 'user' ? 'You' : 'Agent';
  return (
    <article className={`message ${message.role}`} aria-label={author}>
      {message.parts.map((part, index) => (
        // Parts only ever come at the end.
        <Part key={index} part={part} isLive={isLive} />
      ))}
    </article>
  );
});

function Part({ part, isLive }: { part: UIMessage['parts'][number]; isLive: boolean }) {
  if (isToolUIPart(part)) return <ToolCall part={part} isLive={isLive} />;
  switch (part.type) {
    case 'text':
      return part.text === '' ? null : <div className="text">{part.text}</div>;
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
