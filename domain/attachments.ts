import { cleanText, HIGH_AT_END } from './text.ts';

const URL_SCHEME = 'perdure:';

/** The URL of an attachment in a file part; such a URL is valid in the sessions that have the attachment. */
export const ATTACHMENT_URL = /^perdure:att_[0-9A-Za-z]{1,40}$/;

/** The URL that a file part refers to an attachment with. */
export function attachmentUrl(attachmentId: string): string {
  return `${URL_SCHEME}${attachmentId}`;
}

/** The id of the attachment that a file part refers to; undefined: the part has its content, or is no file. */
export function attachmentOf(part: { type: string; url?: unknown }): string | undefined {
  if (part.type !== 'file' || typeof part.url !== 'string' || !ATTACHMENT_URL.test(part.url)) return undefined;
  return part.url.slice(URL_SCHEME.length);
}

/** Whether the model is given the content as text. */
export function isTextType(mediaType: string): boolean {
  return mediaType.startsWith('text/') || mediaType === 'application/json';
}

const MAX_FILENAME = 256;
/** Control characters, line separators, spaces of no width, and what turns the direction of a text. */
const HIDDEN = /[\p{Cc}\u061C\u200B\uFEFF\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu;
/** Not a file's name, but a folder's. */
const DOTS = /^\.+$/;

/** A file's name without what is not seen of it, but makes it look like another one: `photo<U+202E>gnp.exe` looks like a picture's. */
export function plainName(filename: string): string {
  return filename.replaceAll(HIDDEN, '');
}

/** The name that an attachment keeps of a file's; null: it has none. */
export function keptName(filename: string | undefined): string | null {
  // Browsers of old send whole paths.
  const [name = ''] = cleanText(plainName(filename ?? ''))
    .split(/[/\\]/)
    .slice(-1);
  return name.trim().slice(0, MAX_FILENAME).replace(HIGH_AT_END, '').replace(DOTS, '') || null;
}
