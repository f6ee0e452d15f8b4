import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { PerdureError } from '../../domain/errors.ts';

/** Browsers resolve subdomains of "localhost" to their own machine, without DNS. */
const DOMAIN = '.preview.localhost';
const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const TIME_BYTES = 4;
const LABEL_LENGTH = 63;
/** Longer paths would make host names longer than 253 characters, the limit of DNS. */
const MAX_PATH_BYTES = 110;

/**
 * One host name per workspace that serves the workspace's files at the root, so that absolute paths such as
 * `/style.css` work. The name grants access and is encrypted, like the token in the other preview URLs.
 */
export class PreviewNames {
  private readonly key: Uint8Array;

  constructor(secret: string | Uint8Array) {
    this.key = new Uint8Array(hkdfSync('sha256', secret, '', 'perdure-preview-name', KEY_BYTES));
  }

  /** The host name for a relative path, valid until `until` (epoch seconds); undefined: the path is too long. */
  nameOf(path: string, until: number): string | undefined {
    const bytes = Buffer.from(path);
    if (bytes.length > MAX_PATH_BYTES) return undefined;
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.key, iv);
    const time = Buffer.alloc(TIME_BYTES);
    time.writeUInt32BE(until);
    const sealed = Buffer.concat([iv, cipher.update(time), cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
    const labels = textOf(sealed).match(new RegExp(`.{1,${LABEL_LENGTH}}`, 'g')) ?? [];
    return `${labels.join('.')}${DOMAIN}`;
  }

  /**
   * The relative path that a host name encrypts; undefined: not a preview's host name.
   * @throws {PerdureError} `NotFound` for a forged or expired name
   */
  pathOf(hostname: string): string | undefined {
    if (!hostname.endsWith(DOMAIN)) return undefined;
    try {
      const sealed = bytesOf(hostname.slice(0, -DOMAIN.length).replaceAll('.', ''));
      const decipher = createDecipheriv(CIPHER, this.key, sealed.subarray(0, IV_BYTES));
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      const opened = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
      if (opened.readUInt32BE() > Date.now() / 1000) return opened.subarray(TIME_BYTES).toString();
    } catch {
      // Forged, or encrypted with another secret.
    }
    throw new PerdureError('NotFound', 'this preview URL is invalid or has expired; get a new one');
  }
}

const BASE = 36;

/** Bytes in base 36, the characters of host names. The leading 0x01 preserves leading zeros. */
function textOf(bytes: Buffer): string {
  return BigInt(`0x01${bytes.toString('hex')}`).toString(BASE);
}

function bytesOf(text: string): Buffer {
  let number = 0n;
  for (const digit of text) number = number * BigInt(BASE) + BigInt(Number.parseInt(digit, BASE));
  return Buffer.from(number.toString(16).padStart(2, '0').slice(1), 'hex');
}
