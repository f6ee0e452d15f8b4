import type { OpenSession } from '../../domain/rendezvous.ts';
import type { SessionAnswer } from '../api/api.ts';

/** A session as the API lists it, in the form of the sidebar. */
export function listed({ session, chat, status, title }: SessionAnswer): OpenSession {
  const { session_id, project_id, phase, updated_at } = session;
  const { agent, parent_id } = chat;
  return {
    session_id,
    project_id,
    phase,
    agent,
    state: status.state,
    waits_for: null,
    title,
    alias: null,
    parent_id,
    updated_at,
  };
}
