import { attachmentOf, isTextType } from './attachments.ts';

/** What a `data-refused` part of a failed answer contains: the provider refused the request of its turn. */
export interface RefusedData {
  /** Ids of the messages whose files the model no longer sees. */
  messages: string[];
}

/** The fields of a file part of a message. */
interface File {
  mediaType: string;
  filename?: string | undefined;
}

/** What the model sees in place of a file. */
export function fileNote({ mediaType, filename }: File, why: string): string {
  const name = filename === undefined ? '' : ` ${JSON.stringify(filename)}`;
  return `[file${name} of type ${mediaType}: ${why}]`;
}

/** The messages whose files the model no longer sees, by their ids, as the `data-refused` parts of visible messages name them. */
export function refusedMessages(messages: readonly { parts: readonly { type: string }[] }[]): ReadonlySet<string> {
  const parts = messages.flatMap((message) => message.parts.filter(({ type }) => type === 'data-refused'));
  return new Set(parts.flatMap((part) => (part as unknown as { data: RefusedData }).data.messages));
}

/** The part as it is shown once its provider has refused its message: a note in place of a file. */
export function withoutRefused<Part extends { type: string }>(part: Part): Part {
  if (part.type !== 'file') return part;
  const file = part as unknown as File;
  // It is sent as text, which is no file for the provider.
  if (attachmentOf(part) !== undefined && isTextType(file.mediaType)) return part;
  return { type: 'text', text: fileNote(file, 'the model provider refused it') } as unknown as Part;
}
