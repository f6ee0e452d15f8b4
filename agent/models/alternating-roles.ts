import { wrapLanguageModel } from 'ai';
import type { ModelObject, ModelPrompt } from '../model-object.ts';
import { isScripted } from '../scripted/script-model.ts';

type Message = ModelPrompt[number];
type Part = Extract<Message, { role: 'user' | 'assistant' }>['content'][number];

/** The model, but its prompts are as strict providers accept them: `alternating`. A script has no provider. */
export function withAlternatingRoles(model: ModelObject): ModelObject {
  if (isScripted(model)) return model;
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      transformParams: ({ params }) => Promise.resolve({ ...params, prompt: alternating(params.prompt) }),
    },
  });
}

/** Stands after tool outputs that no answer followed: some providers accept no message of the user there. */
const NO_ANSWER: Message = {
  role: 'assistant',
  content: [{ type: 'text', text: '[The turn ended without an answer.]' }],
};

/**
 * The prompt with messages of the user and of the assistant in turn, although turns may have failed, or been aborted, before
 * their first word. Neighbours of one role become one message, with the options of the last. Texts of the user that meet become one
 * text, because some providers accept only a string as content, which is what the SDK's packages make of a single text.
 */
export function alternating(prompt: ModelPrompt): ModelPrompt {
  const messages: ModelPrompt = [];
  for (const message of prompt) {
    const last = messages.at(-1);
    if (message.role === 'user' && last?.role === 'user') {
      messages[messages.length - 1] = { ...last, ...message, content: joined([...last.content, ...message.content]) };
    } else if (message.role === 'user') {
      if (last?.role === 'tool') messages.push(NO_ANSWER);
      messages.push({ ...message, content: joined(message.content) });
    } else if (message.role === 'assistant' && last?.role === 'assistant') {
      // Within each of the two, texts stay apart as the model wrote them.
      const meeting = joined([...last.content.slice(-1), ...message.content.slice(0, 1)]);
      const content = [...last.content.slice(0, -1), ...meeting, ...message.content.slice(1)];
      messages[messages.length - 1] = { ...last, ...message, content };
    } else {
      messages.push(message);
    }
  }
  return messages;
}

/** The parts, with texts that meet joined by an empty line, unless a provider has options for one of them. */
function joined<P extends Part>(parts: readonly P[]): P[] {
  const kept: P[] = [];
  for (const part of parts) {
    const last = kept.at(-1);
    if (last?.type === 'text' && part.type === 'text' && !last.providerOptions && !part.providerOptions) {
      kept[kept.length - 1] = { ...last, text: `${last.text}\n\n${part.text}` };
    } else {
      kept.push(part);
    }
  }
  return kept;
}
