import { useChat } from '@ai-sdk/react';
import { PerdureChatTransport, problemOf } from 'perdure/chat';
import { useState } from 'react';

// The server has the conversation, so only the newest message is sent. `agent` chooses the agent of a new session.
const transport = new PerdureChatTransport({
  api: '/api/chat',
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
    body: { id, trigger, messageId, messages: messages.slice(-1), agent: 'croupier' },
  }),
});

export function Chat() {
  const { id, messages, sendMessage, status, error } = useChat({ transport });
  const [draft, setDraft] = useState('');
  const isAnswering = status === 'submitted' || status === 'streaming';
  const send = () => {
    if (draft.trim() === '' || isAnswering) return;
    void sendMessage({ text: draft });
    setDraft('');
  };
  // useChat's own `stop` only stops reading; this stops the model. It names the message, so that a late one stops no other answer.
  const stop = () =>
    fetch(`/api/sessions/${id}/abort`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ message_id: messages.findLast(({ role }) => role === 'user')?.id }),
    });
  return (
    <main>
      {messages.map((message) => (
        <section key={message.id} aria-label={message.role}>
          <strong>{message.role === 'user' ? 'You' : 'Agent'}</strong>
          {message.parts.map((part, index) => {
            if (part.type === 'text') return <p key={index}>{part.text}</p>;
            if (!part.type.startsWith('tool-')) return null;
            return (
              <pre key={index}>
                {JSON.stringify(part, ['type', 'state', 'input', 'output', 'dice', 'thrown', 'sum'])}
              </pre>
            );
          })}
        </section>
      ))}
      {error && <p role="alert">{problemOf(error)?.detail ?? error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <input aria-label="Message" value={draft} onChange={(event) => setDraft(event.target.value)} autoFocus />
        <button type="submit" disabled={isAnswering}>
          Send
        </button>
        {status === 'streaming' && (
          <button type="button" onClick={() => void stop()}>
            Stop
          </button>
        )}
      </form>
    </main>
  );
}
