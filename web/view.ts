import type { SessionStatus } from '../domain/runs.ts';
import type { SessionState } from './api.ts';
import type { Shown } from './shown.ts';
import type { Waiting } from './transcript.ts';

/** What the page shows besides the messages. */
export interface View extends SessionState {
  /** False until an existing session has been loaded. */
  loaded: boolean;
  /** The connection to the server is lost and being retried. */
  lost: boolean;
  status: SessionStatus;
  /** Messages that are not being answered yet, in order. */
  waiting: Waiting[];
  /** Cursor of earlier messages that are not loaded; null: all are loaded. */
  earlier: string | null;
  /** Why the user's last action failed. */
  notice: string | null;
  /** The built site; null: none. Its URL changes whenever a file changes. */
  preview: Shown | null;
}

/** The view of a new session. */
export const NEW_VIEW: View = {
  phase: 'chatting',
  project_id: null,
  pending_tool: null,
  loaded: false,
  lost: false,
  status: { state: 'idle' },
  waiting: [],
  earlier: null,
  notice: null,
  preview: null,
};
