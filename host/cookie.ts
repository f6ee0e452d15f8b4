import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';

const NAME = 'perdure_user';
const MAX_AGE_S = 365 * 86_400;
const KEY_BYTES = 32;
const KEY_FILE = 'cookie.key';

/** The key that signs cookies, made at the first start and kept in `dir`, for its owner only. */
export async function cookieKey(dir: string): Promise<Buffer> {
  const file = path.join(dir, KEY_FILE);
  await mkdir(dir, { recursive: true });
  const made = randomBytes(KEY_BYTES).toString('hex');
  // Of two first starts at once one makes it, and both read it.
  await writeFile(file, made, { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  });
  return Buffer.from((await readFile(file, 'utf8')).trim(), 'hex');
}

/** The user whom a Cookie header names, if we have signed it. */
export function userOfCookie(header: string | null, key: Buffer): string | undefined {
  const value = header
    ?.split(';')
    .map((pair) => pair.trim())
    .find((pair) => pair.startsWith(`${NAME}=`))
    ?.slice(NAME.length + 1);
  const dot = value?.lastIndexOf('.') ?? -1;
  if (value === undefined || dot < 1) return undefined;
  const user = value.slice(0, dot);
  const given = Buffer.from(value.slice(dot + 1), 'base64url');
  const right = signature(user, key);
  return given.length === right.length && timingSafeEqual(given, right) ? user : undefined;
}

/** A Set-Cookie header that names a user. */
export function userCookie(user: string, key: Buffer): string {
  const value = `${user}.${signature(user, key).toString('base64url')}`;
  return `${NAME}=${value}; Path=/; Max-Age=${MAX_AGE_S}; HttpOnly; SameSite=Lax`;
}

function signature(user: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(`user:${user}`).digest();
}
