import { PerdureError } from '../../domain/errors.ts';
import type { AgentDefinition, PromptSession } from '../definition/define.ts';
import { whenAborted } from '../stop-signal.ts';

/** Whether the prompt has to be stored before its first use, because evaluating it again may give another text. */
export function isPromptFunction({ prompt }: Pick<AgentDefinition, 'prompt'>): boolean {
  return typeof prompt === 'function';
}

/**
 * The text of an agent's prompt; a function is called.
 * @throws {PerdureError} `AgentNotConfigured`, naming the agent whose function threw (the `cause`) or returned no text
 * @throws the signal's reason when the run was aborted
 */
export async function promptText(
  { id, prompt }: Pick<AgentDefinition, 'id' | 'prompt'>,
  session: PromptSession,
  signal: AbortSignal,
): Promise<string> {
  if (typeof prompt === 'string') return prompt;
  let text: unknown;
  try {
    text = await Promise.race([prompt(session), whenAborted(signal)]);
  } catch (cause) {
    signal.throwIfAborted();
    throw invalid(id, 'it threw an error, which the log of the worker shows', cause);
  }
  if (typeof text !== 'string' || text.trim() === '') throw invalid(id, 'it returned something else');
  return text;
}

function invalid(id: string, problem: string, cause?: unknown): PerdureError {
  const message = `agent "${id}": prompt: expected a function that returns a text; ${problem}`;
  return new PerdureError('AgentNotConfigured', message, { cause });
}
