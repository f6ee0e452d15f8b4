import type { Phase } from './phases.ts';
import type { SessionStatus, Wait } from './runs.ts';

/** A session in the list that its user's tabs show. */
export interface OpenSession {
  session_id: string;
  project_id: string | null;
  phase: Phase;
  agent: string;
  state: SessionStatus['state'];
  /** While its state is waiting: what for. The user's approval, if any is missing. */
  waits_for: Wait | null;
  /** What the user has called it, else the first line of the first user message; truncated. null: there is no message yet. */
  title: string | null;
  /** The client's id of the session, if it was opened with one. */
  alias: string | null;
  /** The session that it is a branch of; null: none. */
  parent_id: string | null;
  /** When the session, its chat or its newest run last changed, in ISO 8601. */
  updated_at: string;
}

/**
 * What a tab receives about its user's sessions: first each open session as session_open, then `ready`, then changes.
 * session_close contains the last known state.
 */
export type RendezvousEvent =
  | ({ event: 'session_open' | 'session_update' | 'session_close' } & OpenSession)
  | { event: 'ready' };

/** In characters, including the ellipsis. */
const MAX_TITLE = 80;

/** The title of a message: its first non-empty line, at most 80 characters. */
export function titleOf(text: string | null): string | null {
  const line = text?.trim().split(/[\r\n\u2028\u2029]/, 1)[0] ?? '';
  // Control characters, and those that change the text direction around the title.
  const plain = line.replaceAll(/[\p{Cc}\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu, ' ');
  const characters = Array.from(plain.trim().replaceAll(/\s+/g, ' '));
  if (characters.length === 0) return null;
  if (characters.length <= MAX_TITLE) return characters.join('');
  return `${characters
    .slice(0, MAX_TITLE - 1)
    .join('')
    .trimEnd()}…`;
}
