import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { PerdureError } from '../../domain/errors.ts';
import type { Identify } from '../context.ts';
import { userCookie, userOfCookie } from './user-cookie.ts';

/** 1 to 128 printable ASCII characters, no leading or trailing space, so that headers carry them unchanged. */
const USER = /^[!-~](?:[ -~]{0,126}[!-~])?$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/** Values of Sec-Fetch-Site for requests of our own pages, and for direct navigation. */
const OWN_SITES: ReadonlySet<string> = new Set(['same-origin', 'none']);

/** True for an address that only this machine can reach. */
export function isLoopback(address: string): boolean {
  return address === '::1' || LOOPBACK.test(address);
}

/**
 * Trusts callers, for a host that only this machine can reach. The user is the header x-perdure-user, else `onlyUser`, else the
 * user of our signed cookie, else a new user, who gets such a cookie. Refuses DNS rebinding and requests from other sites but
 * those of `allowedOrigins`.
 */
export function loopbackUser(
  key: Buffer<ArrayBuffer>,
  onlyUser?: string,
  allowedOrigins: readonly string[] = [],
): Identify {
  const identify = async (request: Request) => {
    refuseOtherSites(request, allowedOrigins);
    const header = request.headers.get('x-perdure-user');
    if (header !== null) return { user: validUser(header) };
    if (onlyUser !== undefined) return { user: onlyUser };
    const known = await userOfCookie(request.headers.get('cookie'), key);
    if (known !== undefined) return { user: known };
    const user = `guest-${randomBytes(12).toString('base64url')}`;
    return { user, setCookie: await userCookie(user, key) };
  };
  return Object.assign(identify, { guard: refuseOtherNames });
}

/**
 * Probes read routes without authentication by IP address. Any other host name is DNS rebinding.
 * @throws {PerdureError} `Forbidden`
 */
function refuseOtherNames(request: Request): void {
  const { host, hostname } = hostOf(request);
  if (LOOPBACK.test(host) || isIP(hostname.replaceAll(/[[\]]/g, '')) > 0) return;
  throw otherHost();
}

/** @throws {PerdureError} `Forbidden` for a request from a page of another site */
function refuseOtherSites(request: Request, allowed: readonly string[]): void {
  const { host } = hostOf(request);
  if (!LOOPBACK.test(host)) throw otherHost();
  const origin = request.headers.get('origin');
  if (origin !== null && allowed.includes(origin)) return;
  // Requests for images and scripts have no Origin header; Sec-Fetch-Site shows whether another site sent them.
  const site = request.headers.get('sec-fetch-site') ?? 'none';
  if ((origin !== null && originHost(origin) !== host.toLowerCase()) || !OWN_SITES.has(site)) {
    throw new PerdureError(
      'Forbidden',
      'this host accepts requests of its own pages and of PERDURE_ALLOWED_ORIGINS only',
    );
  }
}

function hostOf(request: Request): { host: string; hostname: string } {
  const host = request.headers.get('host') ?? new URL(request.url).host;
  return { host, hostname: host.replace(/:\d{1,5}$/, '') };
}

function otherHost(): PerdureError {
  return new PerdureError('Forbidden', 'this host serves localhost only; the request names another host');
}

function originHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

export function isUser(user: unknown): user is string {
  return typeof user === 'string' && USER.test(user);
}

/** @throws {PerdureError} `Unauthorized` for an invalid user id */
export function validUser(user: unknown): string {
  if (isUser(user)) return user;
  throw unauthorized('expected a user of 1 to 128 printable ASCII characters');
}

/** `Unauthorized` for a token that is not valid. */
export class InvalidTokenError extends PerdureError {
  constructor(message: string, cause?: unknown) {
    super('Unauthorized', message, { cause });
  }
}

export function unauthorized(message: string): PerdureError {
  return new PerdureError('Unauthorized', message);
}
