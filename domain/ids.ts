import { randomBytes } from 'node:crypto';

/** What an id names. `call` is a tool call, `cmd` a command, `prj` a project. */
export type IdKind = 'ses' | 'msg' | 'prt' | 'call' | 'cmd' | 'prj';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 14;

/** 2026-01-01T00:00:00Z: 42 bits of milliseconds from here on last until 2165, so text order never wraps before. */
const EPOCH = Date.UTC(2026, 0, 1);
const COUNTS_PER_MS = 64;

let lastStamp = 0;

/** 48 bits as 12 hex digits: 42 of milliseconds, 6 of a counter that borrows from the next millisecond. */
function nextStamp(): string {
  lastStamp = Math.max((Date.now() - EPOCH) * COUNTS_PER_MS, lastStamp + 1);
  return lastStamp.toString(16).padStart(12, '0');
}

function randomBase62(): string {
  let text = '';
  while (text.length < RANDOM_LENGTH) {
    // 248 is the largest multiple of 62 below 256: dropping the bytes above it keeps the digits even.
    for (const byte of randomBytes(RANDOM_LENGTH * 2)) {
      if (byte < 248 && text.length < RANDOM_LENGTH) text += BASE62[byte % 62];
    }
  }
  return text;
}

/** `ses_0123456789abXXXXXXXXXXXXXX`: 12 hex digits of time and counter, 14 random ones in base 62 (83 bits).
 * The text order of two ids is the order in which they were made. */
export function newId(kind: IdKind): string {
  return `${kind}_${nextStamp()}${randomBase62()}`;
}
