import { Conversation } from '../conversation/conversation.tsx';
import { statusWords } from '../conversation/status-words.ts';
import { Answering, ShownSession } from '../session/shown-session.ts';
import type { TabSession } from '../session/tab-session.ts';
import type { View } from '../session/view.ts';

/** A conversation, once it has been loaded. */
export function Column(props: { session: TabSession; view: View; isBeside?: boolean }) {
  const { session, view } = props;
  if (!view.loaded)
    return (
      <p className="loading" role="status">
        {view.lost ? statusWords(view) : 'Loading…'}
      </p>
    );
  return (
    <ShownSession value={session.id}>
      <Answering value={session.answer}>
        <Conversation {...props} />
      </Answering>
    </ShownSession>
  );
}
