// What strict providers refuse of a conversation, whatever their API.
import { fail } from './model-actions.ts';
import type { ChatMessage, ModelScript } from './model-server.ts';

/** A message of a conversation as a provider reads it. */
export interface ReadMessage {
  /** `call`: of the assistant, with tool calls. */
  role: 'user' | 'assistant' | 'call' | 'tool';
  texts: string[];
  /** Media types, or whatever a file is called. */
  files: string[];
}

/**
 * Why a strict provider refuses a conversation: blank texts (as Anthropic), roles that do not alternate, calls with their
 * outputs left out (as the chat templates of open models), a message of the user after an output, or a file. Undefined: it does not.
 */
export function refusalOf(messages: readonly ReadMessage[]): string | undefined {
  if (messages.some(({ texts }) => texts.some((text) => text.trim() === ''))) {
    return 'text content blocks must contain non-whitespace text';
  }
  if (messages.some(({ role }, at) => role === 'user' && messages[at - 1]?.role === 'tool')) {
    return 'Unexpected role user after role tool';
  }
  const said = messages.filter(({ role }) => role === 'user' || role === 'assistant');
  if (said.some(({ role }, at) => (role === 'user') !== (at % 2 === 0))) {
    return 'Conversation roles must alternate user/assistant/user/assistant/...';
  }
  return messages.some(({ files }) => files.length > 0) ? 'invalid image' : undefined;
}

/** The script of a strict provider with chat completions, which takes only a string as content unless there are files. */
export function strictly(script: ModelScript): ModelScript {
  return (request, index) => {
    const told = request.messages.filter(({ role }) => role !== 'system' && role !== 'developer');
    const isSplit = told.some(({ content }) => Array.isArray(content) && content.every(({ type }) => type === 'text'));
    const message = isSplit ? 'content: expected a string' : refusalOf(told.map(readChat));
    return message === undefined ? script(request, index) : [fail(400, { message })];
  };
}

/** A message of chat completions. */
export function readChat({ role, content, tool_calls: calls }: ChatMessage): ReadMessage {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  const isCall = calls !== undefined && calls.length > 0;
  return {
    role: isCall ? 'call' : (role as ReadMessage['role']),
    texts: role === 'tool' ? [] : parts.flatMap(({ type, text }) => (type === 'text' ? [text ?? ''] : [])),
    files: parts.flatMap(({ type }) => (type === 'text' ? [] : [type])),
  };
}
