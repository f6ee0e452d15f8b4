import { createHmac } from 'node:crypto';

const BYTES = 32;
const HEX = /^[0-9a-f]{64}$/i;
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/;

/** What `isHideUsersKey` accepts, for errors. */
export const HIDE_USERS_KEY_EXPECTED = '32 bytes, as 64 hexadecimal digits or in base64';

/** The id of a user as Temporal gets it. */
export type ShowUser = (userId: string) => string;

/** Whether a text is a key of 32 bytes, in hexadecimal digits or base64. */
export function isHideUsersKey(text: string): boolean {
  return keyOf(text)?.length === BYTES;
}

/**
 * With a key: the HMAC-SHA256 of a user's id in UTF-8, as 64 hexadecimal digits, so that nobody without the key can compute or
 * guess it. Without: the id itself.
 * @param key as `isHideUsersKey` accepts
 */
export function showUserWith(key: string | undefined): ShowUser {
  const bytes = key === undefined ? undefined : keyOf(key);
  if (bytes === undefined) return (userId) => userId;
  return (userId) => createHmac('sha256', bytes).update(userId).digest('hex');
}

function keyOf(text: string): Buffer | undefined {
  if (HEX.test(text)) return Buffer.from(text, 'hex');
  return BASE64.test(text) ? Buffer.from(text, 'base64url') : undefined;
}
