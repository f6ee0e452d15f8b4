import type { SessionStatus } from '../domain/runs.ts';
import { statusOf } from '../domain/status.ts';
import type { SessionRow } from '../store/sessions.ts';

type State = 'session_id' | 'user_id' | 'project_id' | 'phase' | 'pending_tool' | 'cancel_token' | 'updated_at';

/** A session as callers see it: its state, its chat's settings and totals, its status. Times in ISO 8601. */
export interface SessionView {
  session: Pick<SessionRow, State>;
  chat: Omit<SessionRow, State | 'status' | 'chat_updated_at'> & { session_id: string; updated_at: string };
  status: SessionStatus;
}

export function sessionView(row: SessionRow): SessionView {
  const { session_id, user_id, project_id, phase, pending_tool, cancel_token, updated_at, ...rest } = row;
  const { status, chat_updated_at, ...chat } = rest;
  return {
    session: { session_id, user_id, project_id, phase, pending_tool, cancel_token, updated_at },
    chat: { session_id, ...chat, updated_at: chat_updated_at },
    status: statusOf(status),
  };
}
