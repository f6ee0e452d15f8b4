import { attachmentOf, isTextType } from './attachments.ts';

/** What a `data-refused` part of a failed answer contains: the provider refused the request of its turn, or to go on with it. */
export interface RefusedData {
  /** Ids of the messages whose files the model no longer sees. */
  messages: string[];
  /** The model no longer sees these messages at all, nor the answer that the part is in. */
  whole?: true;
}

/** Why a request was refused: its files may be the reason, or the provider's content filter stopped the whole turn. */
export type Refusal = 'files' | 'turn';

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

type Message = { parts: readonly { type: string }[] };

/** What the model sees in place of a message and its answer. */
export const REFUSED_MESSAGE = '[a message that the content filter of the model provider refused]';

/** What the model sees in place of a file. */
export function fileNote({ mediaType, filename }: File, why: string): string {
  const name = filename === undefined ? '' : ` ${JSON.stringify(filename)}`;
  return `[file${name} of type ${mediaType}: ${why}]`;
}

export function refusedMessages(messages: readonly Message[]): RefusedMessages {
  const refusals = messages.flatMap(refusalsIn);
  const named = (isWhole: boolean) =>
    new Set(refusals.flatMap(({ messages: ids, whole = false }) => (whole === isWhole ? ids : [])));
  return { files: named(false), whole: named(true) };
}

/** Whether it is an answer that the model no longer sees. */
export function isRefusedAnswer(message: Message): boolean {
  return refusalsIn(message).some(({ whole }) => whole === true);
}

function refusalsIn({ parts }: Message): RefusedData[] {
  return parts
    .filter(({ type }) => type === 'data-refused')
    .map((part) => (part as unknown as { data: RefusedData }).data);
}

/** The part as it is shown once its provider has refused the files of its message: a note in place of a file. */
export function withoutRefused<Part extends { type: string }>(part: Part): Part {
  if (part.type !== 'file') return part;
  const file = part as unknown as File;
  // It is sent as text, which is no file for the provider.
  if (attachmentOf(part) !== undefined && isTextType(file.mediaType)) return part;
  return { type: 'text', text: fileNote(file, 'the model provider refused it') } as unknown as Part;
}
