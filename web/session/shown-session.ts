import { createContext } from 'react';
import type { PermissionAnswer } from '../../domain/permissions.ts';

/** The session whose messages are shown: its id or alias. */
export const ShownSession = createContext('');

/** The answer to a tool call that asks. */
export interface CallAnswer {
  /** The session of the call: its id or alias. */
  session: string;
  toolCallId: string;
  decision: PermissionAnswer;
  /** Of a rejection, for the model. */
  reason?: string;
}

/** Sends an answer. False: it was not taken, and the page says why. Null: questions are answered elsewhere in the page. */
export const Answering = createContext<((answer: CallAnswer) => Promise<boolean>) | null>(null);
