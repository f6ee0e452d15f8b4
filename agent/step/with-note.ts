import type { ModelMessage } from 'ai';

type ToolOutput = Extract<
  Extract<ModelMessage, { role: 'tool' }>['content'][number],
  { type: 'tool-result' }
>['output'];

/**
 * Adds a note at the end of a model's messages. In the midst of a turn it is in the newest output of a tool: some providers accept no
 * message of the user there.
 */
export function withNote(messages: ModelMessage[], note: string | undefined): ModelMessage[] {
  if (note === undefined) return messages;
  const last = messages.at(-1);
  const result = last?.role === 'tool' ? last.content.at(-1) : undefined;
  const output = result?.type === 'tool-result' ? noted(result.output, note) : undefined;
  if (last?.role !== 'tool' || result?.type !== 'tool-result' || output === undefined) {
    return [...messages, { role: 'user', content: note }];
  }
  return [...messages.slice(0, -1), { ...last, content: [...last.content.slice(0, -1), { ...result, output }] }];
}

/** Undefined: it takes no text. */
function noted(output: ToolOutput, note: string): ToolOutput | undefined {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return { ...output, value: `${output.value}\n\n${note}` };
    case 'json':
      return { type: 'text', value: `${JSON.stringify(output.value)}\n\n${note}` };
    default:
      return undefined;
  }
}
