import { sentence } from './sentence.ts';
import type { View } from './view.ts';

/** The session's status, for users; empty if there is nothing to show. */
export function statusWords({ lost, status, pending_tool }: View): string {
  if (lost) return 'The connection is lost. Reconnecting; your messages are kept and sent then.';
  switch (status.state) {
    case 'idle':
      return '';
    case 'busy':
      return status.message ?? (pending_tool ? `Running ${pending_tool.name}…` : 'Working…');
    case 'retrying':
      return sentence(`${status.attempt === undefined ? '' : `Attempt ${status.attempt} failed: `}${status.message}`);
    case 'waiting':
      return 'Waiting for your decision.';
    case 'error':
      return `${sentence(status.message ?? 'Something went wrong')} Send a message to go on.`;
  }
}
