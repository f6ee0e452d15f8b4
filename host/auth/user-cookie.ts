import { parseSigned, serializeSigned } from 'hono/utils/cookie';

const NAME = 'perdure_user';
const MAX_AGE_S = 365 * 86_400;
/** Prefix of the signed text, so that a signature made for another purpose is not accepted. */
const PREFIX = 'user:';

/** The user named by a Cookie header; undefined unless the cookie was signed with `key`. */
export async function userOfCookie(header: string | null, key: Buffer<ArrayBuffer>): Promise<string | undefined> {
  const { [NAME]: signed } = await parseSigned(header ?? '', key, NAME);
  const isUser = typeof signed === 'string' && signed.startsWith(PREFIX) && signed.length > PREFIX.length;
  return isUser ? signed.slice(PREFIX.length) : undefined;
}

/** A Set-Cookie header that names a user. */
export function userCookie(user: string, key: Buffer<ArrayBuffer>): Promise<string> {
  const options = { path: '/', maxAge: MAX_AGE_S, httpOnly: true, sameSite: 'Lax' } as const;
  return serializeSigned(NAME, PREFIX + user, key, options);
}
