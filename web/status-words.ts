import { sentence } from './sentence.ts';
import type { View } from './session.ts';

/** What the session is doing, for people; empty when there is nothing to say. */
export function statusWords({ lost, status, pending_tool }: View): string {
  if (lost) return 'The connection is lost. Trying again; what you send is kept until then.';
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
