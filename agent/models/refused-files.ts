import { type UIMessage, UnsupportedFunctionalityError, wrapLanguageModel } from 'ai';
import { isShownSummary } from '../../domain/compaction.ts';
import { modalityOf, type Modality } from '../../domain/model-info.ts';
import { fileNote, REFUSED_MESSAGE, type RefusalScope, type RefusedData } from '../../domain/refusals.ts';
import type { ModelObject, ModelPrompt } from '../model-object.ts';

type Call = Parameters<ModelObject['doStream']>[0];
type Answer = Awaited<ReturnType<ModelObject['doStream']>>;

/**
 * The model, but files that it cannot take in, or of types that its provider does not accept, are replaced by a note. Messages stay in the
 * conversation, so one such file would otherwise fail every later turn of its session.
 *
 * @param modalities what the model can take in; null: unknown
 */
export function withoutRefusedFiles(model: ModelObject, modalities: readonly Modality[] | null): ModelObject {
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      wrapStream: ({ model: inner, params }) => streamWithNotes(inner, readable(params, modalities)),
    },
  });
}

function readable(call: Call, modalities: readonly Modality[] | null): Call {
  const unread = mediaTypes(call.prompt).filter((type) => !takesIn(modalities, type));
  return unread.length === 0 ? call : { ...call, prompt: withNotes(call.prompt, new Set(unread)) };
}

function takesIn(modalities: readonly Modality[] | null, mediaType: string): boolean {
  const modality = modalityOf(mediaType);
  return modalities === null || modality === undefined || modality === 'text' || modalities.includes(modality);
}

/**
 * What the model no longer sees once a provider has refused a request:
 * - files: those of the turn's own message, if any were sent, else all others that were. So a later refusal, of a turn without
 *   files, takes back the files that are left;
 * - a turn: its message, and those directly before it that were not answered.
 *
 * @param messages of the request, as `streamModelCall` got them
 * @param own the id of the message that was being answered
 */
export function refusedIn(
  refusal: RefusalScope,
  messages: readonly UIMessage[],
  { own, modalities }: { own: string; modalities: readonly Modality[] | null },
): RefusedData {
  if (refusal === 'turn') return { messages: unanswered(messages, own), whole: true };
  const wasSent = (part: UIMessage['parts'][number]) => part.type === 'file' && takesIn(modalities, part.mediaType);
  const ids = messages.filter(({ parts }) => parts.some(wasSent)).map(({ id }) => id);
  return { messages: ids.includes(own) ? [own] : ids };
}

function unanswered(messages: readonly UIMessage[], own: string): string[] {
  const until = messages.slice(0, messages.findIndex(({ id }) => id === own) + 1);
  const asked = until.slice(until.findLastIndex(({ role }) => role !== 'user') + 1);
  return asked.filter((message) => message.id !== '' && !isNote(textOf(message))).map(({ id }) => id);
}

function isNote(text: string): boolean {
  return text === REFUSED_MESSAGE || isShownSummary(text);
}

function textOf({ parts }: UIMessage): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

async function streamWithNotes(model: ModelObject, call: Call): Promise<Answer> {
  try {
    return await model.doStream(call);
  } catch (error) {
    const types = new Set(mediaTypes(call.prompt));
    if (!UnsupportedFunctionalityError.isInstance(error) || types.size === 0) throw error;
    const named = [...types].filter((type) => error.functionality.includes(type));
    // Some providers do not say which type they refuse.
    const prompt = withNotes(call.prompt, named.length > 0 ? new Set(named) : types);
    return streamWithNotes(model, { ...call, prompt });
  }
}

function mediaTypes(prompt: ModelPrompt): string[] {
  return prompt.flatMap((message) =>
    message.role === 'user' ? message.content.flatMap((part) => (part.type === 'file' ? [part.mediaType] : [])) : [],
  );
}

function withNotes(prompt: ModelPrompt, refused: ReadonlySet<string>): ModelPrompt {
  return prompt.map((message) => {
    if (message.role !== 'user') return message;
    const content = message.content.map((part) => {
      if (part.type !== 'file' || !refused.has(part.mediaType)) return part;
      return { type: 'text' as const, text: fileNote(part, 'this model cannot read it') };
    });
    return { ...message, content };
  });
}
