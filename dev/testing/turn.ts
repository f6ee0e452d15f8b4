import {
  type DynamicToolUIPart,
  getToolName,
  isToolUIPart,
  readUIMessageStream,
  type ToolUIPart,
  type UIMessage,
  type UIMessageChunk,
} from 'ai';
import { convertArrayToReadableStream } from 'ai/test';

/** A tool call of a turn: it has an output, or the error that the model was shown. */
export interface TestToolCall {
  tool: string;
  input: unknown;
  output?: unknown;
  error?: string;
}

/** A turn that is over. */
export interface TestTurn {
  /** The answer's text without that before tool calls: what the last step wrote. */
  text: string;
  /** In the order of the answer. */
  calls: TestToolCall[];
  /** The whole answer, as `useChat` has it. */
  message: UIMessage;
  chunks: UIMessageChunk[];
  /** Why the turn failed; undefined if it did not. */
  error?: string;
}

/** Reads the chunks of a turn to its end. */
export async function collectTurn(arriving: AsyncIterable<UIMessageChunk>): Promise<TestTurn> {
  const chunks = await Array.fromAsync(arriving);
  const stream = convertArrayToReadableStream(chunks);
  let message: UIMessage = { id: '', role: 'assistant', parts: [] };
  for await (const each of readUIMessageStream({ stream, onError: () => {} })) message = each;
  const failure = chunks.find((chunk) => chunk.type === 'error');
  return {
    text: lastText(message),
    calls: message.parts.filter(isToolUIPart).map(callOf),
    message,
    chunks,
    ...(failure && { error: failure.errorText }),
  };
}

function callOf(part: ToolUIPart | DynamicToolUIPart): TestToolCall {
  const call = { tool: getToolName(part), input: part.input };
  if (part.state === 'output-available') return { ...call, output: part.output };
  return part.state === 'output-error' ? { ...call, error: part.errorText } : call;
}

function lastText({ parts }: UIMessage): string {
  const lastCall = parts.findLastIndex(isToolUIPart);
  return parts
    .slice(lastCall + 1)
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('');
}
