import { randomUUID } from 'node:crypto';
import type { UIMessageChunk } from 'ai';
import type { PerdureClient } from '../../client/client.ts';
import type { Turn } from '../../client/reads.ts';
import type { Attributes } from '../../domain/attributes.ts';
import { PerdureError } from '../../domain/errors.ts';
import type { Question as SubagentQuestion, SessionStatus, Wait } from '../../domain/runs.ts';

/** Who asks an agent. */
export interface Asker {
  client: PerdureClient;
  user: string;
  attributes: Attributes | undefined;
}

/** A message for a session; without it, an earlier message's answer is read; without a session, one is opened. */
export interface AgentQuestion {
  agent: string;
  message?: string | undefined;
  session?: string | undefined;
  /** Of the message, or without one of the earlier message; unset: the newest one. */
  messageId?: string | undefined;
}

/**
 * What is waited for: the user's answer or the page's output for a tool call, if it is one of a subagent with the subagent's session
 * and agent; or a message after one that failed.
 */
type WaitingFor =
  | { for: Wait; tool: string; tool_call_id: string; session_id?: string; agent?: string }
  | { for: 'message' };

/** How a turn ended, or that it waits. */
export interface AgentAnswer {
  session_id: string;
  /** The message that this answers. */
  message_id: string;
  /** What the agent said last. */
  text: string;
  state: 'finished' | 'aborted' | 'cancelled' | 'error' | 'waiting';
  /** Of a turn that waits; or of one that is over, if a subagent waits that it has called in the background. */
  waiting_for?: WaitingFor;
  /** Why the turn failed, or why it waits for a message. */
  error?: string;
}

interface Reading {
  signal: AbortSignal;
  /** Says what happens, shortly. */
  say: (what: string) => void;
}

/**
 * Asks an agent and waits for the end of this message's turn. When the signal fires, only the waiting ends. A message with an id
 * that was accepted before is not asked again.
 * @throws {PerdureError} as `submit` does; `SessionNotFound`; `MessageNotFound`; `BadRequest` for a session of another agent
 */
export async function askAgent(asker: Asker, question: AgentQuestion, reading: Reading): Promise<AgentAnswer> {
  const { client, user, attributes } = asker;
  const { agent, message, session, messageId: id } = question;
  if (message === undefined) return readAnswer(asker, question, reading);
  // Opened only with the message: one that is refused leaves no session.
  const target = session ?? `mcp-${randomUUID()}`;
  const submitted = await client.submit(
    user,
    target,
    { text: message, ...(id !== undefined && { id }) },
    { open: true, agent, attributes },
  );
  return followed(asker, submitted, reading);
}

/** The answer to a message of a session, once it is there. */
async function readAnswer(
  { client, user }: Asker,
  { agent, session, messageId: message }: AgentQuestion,
  reading: Reading,
): Promise<AgentAnswer> {
  if (session === undefined)
    throw new PerdureError('BadRequest', 'message: expected a text, or the session whose answer is to be read');
  const view = await client.reads.session(user, session);
  if (view.chat.agent !== agent)
    throw new PerdureError(
      'BadRequest',
      `session: expected a session of the agent "${agent}", not of "${view.chat.agent}"`,
    );
  const { session_id } = view.session;
  const turn = await client.reads.turn(user, session_id, { message });
  if (turn === undefined) throw new PerdureError('BadRequest', 'session: expected one with a message');
  return followed({ client, user }, { session_id, ...turn }, reading);
}

/** Follows a turn until it is over, or waits. */
async function followed(
  { client, user }: Pick<Asker, 'client' | 'user'>,
  { session_id, message_id, run_seq }: { session_id: string; message_id: string; run_seq: number },
  { signal, say }: Reading,
): Promise<AgentAnswer> {
  say(`session ${session_id}`);
  say(`message ${message_id}`);
  for (;;) {
    const last = new LastText();
    let held: Pick<AgentAnswer, 'waiting_for'> | undefined;
    for await (const chunk of client.follow(user, session_id, run_seq, { signal })) {
      const news = last.add(chunk);
      if (news !== undefined) say(news);
      held = heldBy(chunk);
      if (held !== undefined) break;
    }
    signal.throwIfAborted();
    const answer = { session_id, message_id, text: last.text };
    if (held !== undefined) return { ...answer, state: 'waiting', ...held };
    const turn = await client.reads.turn(user, session_id, { run: run_seq });
    const status = await client.reads.status(user, session_id);
    const ending = turn && (endingOf(turn) ?? pausedBy(turn, status));
    // It went on between these reads.
    if (ending === undefined) continue;
    const { questions = [] } = status;
    const asked = questions.find(({ background }) => background);
    return { ...answer, ...(asked && { waiting_for: waitingFor(asked) }), ...ending };
  }
}

/** How a turn ended, or what it waits for; undefined: it goes on. */
function endingOf({ state, waits_for, error }: Turn): Pick<AgentAnswer, 'state' | 'waiting_for' | 'error'> | undefined {
  switch (state) {
    case 'finished':
    case 'aborted':
    case 'cancelled':
      return { state };
    case 'error':
      return { state, error: error ?? 'the turn ended with an error' };
    case 'waiting':
      return waits_for === null ? undefined : { state, waiting_for: waits_for };
    default:
      return undefined;
  }
}

/** That a message waits behind one that failed, and nobody has written since; undefined: it does not. */
function pausedBy(
  { state }: Turn,
  status: SessionStatus,
): Pick<AgentAnswer, 'state' | 'waiting_for' | 'error'> | undefined {
  if (state !== 'queued' || status.state !== 'error') return undefined;
  const error = `an earlier message of this session failed, and this one waits behind it until another is sent: ${status.message}`;
  return { state: 'waiting', waiting_for: { for: 'message' }, error };
}

/** What holds up a turn, of which its own run does not tell: a subagent that it waits for waits itself. */
function heldBy(chunk: UIMessageChunk): Pick<AgentAnswer, 'waiting_for'> | undefined {
  if (chunk.type !== 'data-status') return undefined;
  const { questions = [], position } = chunk.data as Partial<SessionStatus> & { position?: number };
  const asked = questions.find(({ background }) => !background);
  return asked !== undefined && position === 0 ? { waiting_for: waitingFor(asked) } : undefined;
}

function waitingFor({ for: what, tool, tool_call_id, session_id, agent }: SubagentQuestion): WaitingFor {
  return { for: what, tool, tool_call_id, session_id, agent };
}

/** The text of the newest step that has any. */
class LastText {
  private parts: string[] = [];
  private isNew = true;
  private steps = 0;

  get text(): string {
    return this.parts.join('');
  }

  /** @returns what happens, if it is worth saying */
  add(chunk: UIMessageChunk): string | undefined {
    switch (chunk.type) {
      case 'start-step':
        this.isNew = true;
        this.steps += 1;
        return `step ${this.steps}`;
      case 'tool-input-available':
        return `tool ${chunk.toolName}`;
      case 'text-delta':
        if (this.isNew) this.parts = [];
        this.isNew = false;
        this.parts.push(chunk.delta);
        return undefined;
      default:
        return undefined;
    }
  }
}
