import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { createRemoteJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyOptions } from 'jose';
import { PerdureError } from '../domain/errors.ts';
import type { Identify } from './context.ts';
import { userCookie, userOfCookie } from './cookie.ts';

/** 1 to 128 printable ASCII characters, none at the ends a space: what a header can carry unchanged. */
const USER = /^[!-~](?:[ -~]{0,126}[!-~])?$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/** True for an address that only this machine can reach. */
export function isLoopback(address: string): boolean {
  return address === '::1' || LOOPBACK.test(address);
}

/**
 * Takes callers at their word, for a host that only this machine can reach: the header x-perdure-user, else a cookie
 * signed by us, else a new user with such a cookie. Pages of other sites are kept out: neither a name that is made to
 * resolve to this machine nor a form or script elsewhere gets through.
 */
export function loopbackUser(key: Buffer): Identify {
  const identify = async (request: Request) => {
    refuseOtherSites(request);
    const header = request.headers.get('x-perdure-user');
    if (header !== null) return { user: validUser(header) };
    const known = userOfCookie(request.headers.get('cookie'), key);
    if (known !== undefined) return { user: known };
    const user = `guest-${randomBytes(12).toString('base64url')}`;
    return { user, setCookie: userCookie(user, key) };
  };
  return Object.assign(identify, { guard: refuseOtherNames });
}

/**
 * What has no caller is read by programs that name an address, as probes do. A name that is not this machine's own was
 * made to resolve to it.
 * @throws {PerdureError} `Forbidden`
 */
function refuseOtherNames(request: Request): void {
  const { host, hostname } = hostOf(request);
  if (LOOPBACK.test(host) || isIP(hostname.replaceAll(/[[\]]/g, '')) > 0) return;
  throw otherHost();
}

/** @throws {PerdureError} `Forbidden` for a request that did not come from this machine's own pages or programs */
function refuseOtherSites(request: Request): void {
  const { host } = hostOf(request);
  if (!LOOPBACK.test(host)) throw otherHost();
  const origin = request.headers.get('origin');
  if (origin !== null && originHost(origin) !== host.toLowerCase()) {
    throw new PerdureError('Forbidden', 'this host takes requests from its own pages only');
  }
}

function hostOf(request: Request): { host: string; hostname: string } {
  const host = request.headers.get('host') ?? new URL(request.url).host;
  return { host, hostname: host.replace(/:\d{1,5}$/, '') };
}

function otherHost(): PerdureError {
  return new PerdureError('Forbidden', 'this host answers to localhost only; the request names another host');
}

function originHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

export interface TokenSettings {
  /** Of tokens signed with HMAC. */
  secret?: string | undefined;
  /** Where the keys of an issuer are found. */
  jwksUrl?: string | undefined;
  issuer?: string | undefined;
  audience?: string | undefined;
}

/** Takes `Authorization: Bearer` JSON web tokens; the claim `sub` is the user. */
export function tokenUser({ secret, jwksUrl, issuer, audience }: TokenSettings): Identify {
  const expected: JWTVerifyOptions = {
    requiredClaims: ['sub'],
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
  };
  const verify = verifier(secret, jwksUrl, expected);
  return async (request) => {
    const token = /^Bearer\s+(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1];
    if (token === undefined) throw unauthorized('expected a header "Authorization: Bearer <token>"');
    const payload = await verify(token).catch((error: unknown) => {
      throw isVerdict(error) ? unauthorized('the token is not valid', error) : keysAway(error);
    });
    return { user: validUser(payload.sub ?? '') };
  };
}

function verifier(secret: string | undefined, jwksUrl: string | undefined, expected: JWTVerifyOptions) {
  if (secret !== undefined) {
    const key = new TextEncoder().encode(secret);
    const options = { ...expected, algorithms: ['HS256', 'HS384', 'HS512'] };
    return async (token: string): Promise<JWTPayload> => (await jwtVerify(token, key, options)).payload;
  }
  const keys = createRemoteJWKSet(new URL(jwksUrl ?? ''));
  return async (token: string): Promise<JWTPayload> => (await jwtVerify(token, keys, expected)).payload;
}

/** True where the token is at fault, and not that its issuer's keys could not be had. */
function isVerdict(error: unknown): boolean {
  return error instanceof errors.JOSEError && !(error instanceof errors.JWKSTimeout);
}

function keysAway(cause: unknown): PerdureError {
  return new PerdureError('Unavailable', 'the keys that verify tokens cannot be had; try again in a moment', { cause });
}

function validUser(user: string): string {
  if (USER.test(user)) return user;
  throw unauthorized('expected a user of 1 to 128 printable characters');
}

function unauthorized(message: string, cause?: unknown): PerdureError {
  return new PerdureError('Unauthorized', message, { cause });
}
