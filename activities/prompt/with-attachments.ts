import type { FileUIPart, UIMessage } from 'ai';
import { attachmentOf, isTextType } from '../../domain/attachments.ts';
import { findAttachments, type AttachmentRow, type PlacedAttachment } from '../../store/attachments.ts';
import { LostContentError } from '../../store/contents.ts';
import type { ActivityContext } from '../activity-context.ts';
import { firstBytes } from './first-bytes.ts';
import { RecentContents } from './recent-contents.ts';

/**
 * Most bytes of attachments in one model request; the newest ones come first. In base64 they are a third more, and a provider's requests
 * have at most 32 MB: https://platform.claude.com/docs/en/api/overview#request-size-limits
 */
const REQUEST_BYTES = 22 * 1024 ** 2;
/** Most bytes of one text; the rest is cut off. */
const TEXT_BYTES = 256 * 1024;
/** Attachments that are read at a time: each holds a connection. */
const AT_ONCE = 4;

/** Of all conversations of this process. */
const recent = new RecentContents(3 * REQUEST_BYTES);

type Part = UIMessage['parts'][number];
type Reading = { context: ActivityContext; sessionId: string; signal: AbortSignal };

/**
 * Messages with the bytes of the attachments that they refer to, as the AI SDK gives them to providers: texts as text, images
 * and PDFs as data. What no request holds any more, or is not stored, is replaced by a note.
 * @throws {ContentUnavailableError} their store is away
 */
export async function withAttachments(reading: Reading, messages: UIMessage[]): Promise<UIMessage[]> {
  const refs = messages.flatMap(({ parts }) =>
    parts.flatMap((part) => {
      const id = attachmentOf(part);
      return id === undefined ? [] : [{ part, id }];
    }),
  );
  if (refs.length === 0) return messages;
  const { context, sessionId } = reading;
  const rows = await findAttachments(context.db, sessionId, [...new Set(refs.map(({ id }) => id))]);
  const byId = new Map(rows.map((row) => [row.attachment_id, row]));
  const sent = newestWithin(REQUEST_BYTES, refs.toReversed(), byId);
  const read = await contentsOf(reading, [...new Set(sent.values())]);
  const resolved = (part: Part): Part => {
    const id = attachmentOf(part);
    if (id === undefined) return part;
    const row = byId.get(id);
    // The same bytes may have another name in another message.
    const name = (part as FileUIPart).filename ?? row?.filename ?? null;
    const content = read.get(id);
    if (row === undefined || content === null) return note(name, 'no longer stored');
    if (sent.has(part) && content) return partOf({ ...row, filename: name }, content);
    return note(name, sentSize(row) > REQUEST_BYTES ? 'too large to be sent' : 'no longer sent');
  };
  return messages.map((message) => ({ ...message, parts: message.parts.map(resolved) }));
}

/** Bytes of an attachment that a request has. */
function sentSize({ media_type: mediaType, size }: AttachmentRow): number {
  return isTextType(mediaType) ? Math.min(size, TEXT_BYTES) : size;
}

/** The first of the parts whose files are within the limit together, without those that are larger by themselves. */
function newestWithin(
  most: number,
  refs: readonly { part: Part; id: string }[],
  rows: ReadonlyMap<string, PlacedAttachment>,
): ReadonlyMap<Part, PlacedAttachment> {
  const sent = new Map<Part, PlacedAttachment>();
  let bytes = 0;
  for (const { part, id } of refs) {
    const row = rows.get(id);
    if (row === undefined || sentSize(row) > most) continue;
    bytes += sentSize(row);
    if (bytes > most) break;
    sent.set(part, row);
  }
  return sent;
}

/** The bytes of attachments, by their ids; null: they are lost. */
async function contentsOf(
  reading: Reading,
  rows: readonly PlacedAttachment[],
): Promise<ReadonlyMap<string, Buffer | null>> {
  const read = new Map<string, Buffer | null>();
  for (let at = 0; at < rows.length; at += AT_ONCE) {
    const some = rows.slice(at, at + AT_ONCE);
    await Promise.all(some.map(async (row) => read.set(row.attachment_id, await contentOf(reading, row))));
  }
  return read;
}

async function contentOf({ context, sessionId, signal }: Reading, row: PlacedAttachment): Promise<Buffer | null> {
  const most = sentSize(row);
  const known = recent.get(row.content_id);
  if (known?.length === most) return known;
  try {
    const bytes = await firstBytes(await context.contents.open(row, signal), most);
    recent.keep(row.content_id, bytes);
    return bytes;
  } catch (err) {
    if (!(err instanceof LostContentError)) throw err;
    const ids = { session: sessionId, attachment: row.attachment_id };
    context.log.warn({ err, ...ids }, 'an attachment is lost: the model is told so');
    return null;
  }
}

function partOf({ media_type: mediaType, filename, size }: AttachmentRow, bytes: Buffer): Part {
  if (!isTextType(mediaType)) {
    const url = `data:${mediaType};base64,${bytes.toString('base64')}`;
    return { type: 'file', mediaType, url, ...(filename !== null && { filename }) };
  }
  // A character that the limit cuts in two is left out.
  const text = new TextDecoder().decode(bytes, { stream: true });
  const cut = size > TEXT_BYTES ? `\n[the first ${TEXT_BYTES} of ${size} bytes]` : '';
  return { type: 'text', text: `[file ${nameOf(filename)} of type ${mediaType}]\n${text}${cut}` };
}

function note(filename: string | null, problem: string): Part {
  return { type: 'text', text: `[file ${nameOf(filename)}: ${problem}]` };
}

function nameOf(filename: string | null): string {
  return filename === null ? 'without a name' : JSON.stringify(filename);
}
