import { attachmentOf, isTextType } from './attachments.ts';

/** What a `data-refused` part of a failed answer contains: the provider refused the request of its turn, or to go on with it. */
export interface RefusedData {
  /** Ids of messages whose files the model no longer sees; with `whole`, of messages that it does not see at all. */
  messages: string[];
  /** The model no longer sees these messages, nor what was answered to them. */
  whole?: true;
}

/**
 * What the model no longer sees after a refusal: `files`, which may be its reason, or the `turn`, message and answer, which a
 * content filter stopped.
 */
export type RefusalScope = 'files' | 'turn';

/** Ids of the messages that providers refused, as the `data-refused` parts of visible messages name them. */
export interface RefusedMessages {
  /** The model no longer sees their files. */
  files: ReadonlySet<string>;
  /** The model no longer sees them. */
  whole: ReadonlySet<string>;
}

/** The fields of a file part of a message. */
interface File {
  mediaType: string;
  filename?: string | undefined;
}

/** What the model sees in place of a message and its answer. */
export const REFUSED_MESSAGE = '[a message that the content filter of the model provider refused]';

/** What the model sees in place of a file. */
export function fileNote({ mediaType, filename }: File, why: string): string {
  const name = filename === undefined ? '' : ` ${JSON.stringify(filename)}`;
  return `[file${name} of type ${mediaType}: ${why}]`;
}

export function refusedMessages(messages: readonly { parts: readonly { type: string }[] }[]): RefusedMessages {
  const parts = messages.flatMap((message) => message.parts.filter(({ type }) => type === 'data-refused'));
  const refusals = parts.map((part) => (part as unknown as { data: RefusedData }).data);
  const named = (isWhole: boolean) =>
    new Set(refusals.flatMap(({ messages: ids, whole = false }) => (whole === isWhole ? ids : [])));
  return { files: named(false), whole: named(true) };
}

/** The part as it is shown once its provider has refused the files of its message: a note in place of a file. */
export function withoutRefused<Part extends { type: string }>(part: Part): Part {
  if (part.type !== 'file') return part;
  const file = part as unknown as File;
  // It is sent as text, which is no file for the provider.
  if (attachmentOf(part) !== undefined && isTextType(file.mediaType)) return part;
  return { type: 'text', text: fileNote(file, 'the model provider refused it') } as unknown as Part;
}
