import { randomBytes } from 'node:crypto';

/** The kind of object. `ses` session, `msg` message, `prt` part, `call` tool call, `cmd` command, `prj` project,
 * `evt` event, `att` attachment, `ini` initiative, `tsk` task, `dec` decision. */
export type IdKind = 'ses' | 'msg' | 'prt' | 'call' | 'cmd' | 'prj' | 'evt' | 'att' | 'ini' | 'tsk' | 'dec';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 14;

/** 2026-01-01T00:00:00Z: 42 bits of milliseconds from here last until 2165, so text order does not wrap before then. */
const EPOCH = Date.UTC(2026, 0, 1);
const COUNTS_PER_MS = 64;

let lastStamp = 0;

/** 48 bits as 12 hex digits: 42 of milliseconds, 6 of a counter that overflows into the next millisecond. */
function nextStamp(): string {
  lastStamp = Math.max((Date.now() - EPOCH) * COUNTS_PER_MS, lastStamp + 1);
  return lastStamp.toString(16).padStart(12, '0');
}

function randomBase62(): string {
  let text = '';
  while (text.length < RANDOM_LENGTH) {
    // 248 is the largest multiple of 62 below 256: dropping larger bytes keeps the distribution uniform.
    for (const byte of randomBytes(RANDOM_LENGTH * 2)) {
      if (byte < 248 && text.length < RANDOM_LENGTH) text += BASE62[byte % 62];
    }
  }
  return text;
}

/** `ses_0123456789abXXXXXXXXXXXXXX`: 12 hex digits of time and counter, 14 random ones in base 62 (83 bits).
 * Ids of one process sort in the order of their creation. */
export function newId(kind: IdKind): string {
  return `${kind}_${nextStamp()}${randomBase62()}`;
}
