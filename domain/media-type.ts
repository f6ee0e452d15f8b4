/** The bytes that files of a type begin with; `null` is any byte. */
const SIGNATURES: readonly [mediaType: string, bytes: readonly (number | null)[]][] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
  ['image/webp', [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50]],
  ['application/pdf', [0x25, 0x50, 0x44, 0x46, 0x2d]],
];

/** Types that a file may have, for people. */
export const ACCEPTED_FILES = 'a PNG, JPEG, GIF or WebP image, a PDF, or text in UTF-8';

const TEXT_TYPE = /^(?:text\/[\w.+-]+|application\/json)$/;

/**
 * The media type of a file as its content shows it, whatever its sender says: of an image or a PDF by its first bytes, else
 * the sender's type if that is one of text. Feed it the content in order.
 */
export class MediaTypeReader {
  private head = new Uint8Array(0);
  private readonly decoder = new TextDecoder('utf-8', { fatal: true });
  private isText = true;

  take(bytes: Uint8Array): void {
    if (this.head.length < 12) this.head = Uint8Array.of(...this.head, ...bytes.subarray(0, 12));
    if (this.isText) this.isText = !bytes.includes(0) && this.decodes(bytes);
  }

  /** @returns undefined for a type that is not accepted */
  end(declared: string | undefined): string | undefined {
    const binary = SIGNATURES.find(([, bytes]) => bytes.every((byte, at) => byte === null || this.head[at] === byte));
    if (binary) return binary[0];
    if (!this.isText || !this.decodes()) return undefined;
    const [type = ''] = (declared ?? '').toLowerCase().split(';', 1);
    return TEXT_TYPE.test(type.trim()) ? type.trim() : 'text/plain';
  }

  private decodes(bytes?: Uint8Array): boolean {
    try {
      this.decoder.decode(bytes, { stream: bytes !== undefined });
      return true;
    } catch {
      return false;
    }
  }
}
