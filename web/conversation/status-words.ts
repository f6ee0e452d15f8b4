import { COMPACTING } from '../../domain/runs.ts';
import { sentence } from '../lib/sentence.ts';
import type { View } from '../session/view.ts';
import type { HeldCall } from '../transcript/transcript.ts';

const WAITING_WORDS: Record<HeldCall['by'], string> = {
  user: 'The agent waits for your answer.',
  page: 'A tool call waits for another page, which carries it out.',
};

/** The session's status, for users; empty if there is nothing to show. `held`: the call that the turn waits for. */
export function statusWords({ lost, status, pending_tool, isChild }: View, held?: HeldCall): string {
  if (lost) return 'The connection is lost. Reconnecting; your messages are kept and sent then.';
  switch (status.state) {
    case 'idle':
      return '';
    case 'busy':
      if (status.message === COMPACTING) return 'Summarizing earlier turns…';
      return status.message ?? (pending_tool ? `Running ${pending_tool.name}…` : 'Working…');
    case 'retrying':
      return sentence(`${status.attempt === undefined ? '' : `Attempt ${status.attempt} failed: `}${status.message}`);
    case 'waiting':
      if (held === undefined && status.questions !== undefined) {
        const isAsking = status.questions.some((asked) => asked.for === 'approval');
        return isAsking ? 'A subagent waits for your answer.' : 'A subagent waits for another page.';
      }
      return WAITING_WORDS[held?.by ?? 'user'];
    case 'error':
      return sentence(status.message ?? 'Something went wrong') + (isChild ? '' : ' Send a message to go on.');
  }
}
