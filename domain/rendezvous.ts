import type { Phase } from './phases.ts';
import type { SessionStatus } from './runs.ts';

/** A session as its owner's other tabs list it. */
export interface OpenSession {
  session_id: string;
  project_id: string | null;
  phase: Phase;
  agent: string;
  state: SessionStatus['state'];
  /** The first line of the first user message, shortened; null: nothing has been said yet. */
  title: string | null;
  /** The id that its owner gave it, where it was opened by one. */
  alias: string | null;
  /** When it, its conversation or its newest run last changed, in ISO 8601. */
  updated_at: string;
}

/**
 * What a tab learns of its user's sessions. Those that are open come first, each as session_open, then `ready`, then
 * what changes. A session_close carries what was last known.
 */
export type RendezvousEvent =
  | ({ event: 'session_open' | 'session_update' | 'session_close' } & OpenSession)
  | { event: 'ready' };

/** In characters, the ellipsis included. */
const LONGEST_TITLE = 80;

/** A title made of a message's text: its first line that says anything, on one line, at most 80 characters. */
export function titleOf(text: string | null): string | null {
  const line = text?.trim().split(/[\r\n\u2028\u2029]/, 1)[0] ?? '';
  // Control characters, and those that turn the direction of what stands around a title.
  const plain = line.replaceAll(/[\p{Cc}\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu, ' ');
  const characters = Array.from(plain.trim().replaceAll(/\s+/g, ' '));
  if (characters.length === 0) return null;
  if (characters.length <= LONGEST_TITLE) return characters.join('');
  return `${characters
    .slice(0, LONGEST_TITLE - 1)
    .join('')
    .trimEnd()}…`;
}
