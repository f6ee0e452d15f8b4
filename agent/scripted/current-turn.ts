// What a scripted model reads from a prompt.
import type { ModelPrompt } from '../model-object.ts';

/** The outcome of a tool call, as the model sees it. */
export interface SeenOutcome {
  tool: string;
  ok: boolean;
  /** A JSON value; for an error its message. */
  output: unknown;
}

/** The prompt before the user's last message, the text of that, and what the tools have returned since. */
export interface CurrentTurn {
  before: ModelPrompt;
  text: string;
  /** Model calls of this turn that are over. */
  steps: number;
  outcomes: SeenOutcome[];
}

/** Splits a prompt at the user's last message. */
export function currentTurn(prompt: ModelPrompt): CurrentTurn {
  const at = prompt.findLastIndex((message) => message.role === 'user');
  const since = prompt.slice(at + 1);
  return {
    before: prompt.slice(0, Math.max(at, 0)),
    text: at < 0 ? '' : textOf(prompt[at]),
    steps: since.filter((message) => message.role === 'assistant').length,
    outcomes: outcomesOf(since),
  };
}

/** The outcomes of all tool calls in some messages, in order. */
export function outcomesOf(messages: ModelPrompt): SeenOutcome[] {
  return messages.flatMap((message) => {
    if (message.role !== 'tool') return [];
    return message.content.flatMap((part) => {
      if (part.type !== 'tool-result') return [];
      const { toolName: tool, output } = part;
      const ok = output.type === 'text' || output.type === 'json' || output.type === 'content';
      return [{ tool, ok, output: 'value' in output ? output.value : (output.reason ?? null) }];
    });
  });
}

function textOf(message: ModelPrompt[number] | undefined): string {
  if (message?.role !== 'user') return '';
  return message.content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}
