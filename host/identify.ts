import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { PerdureError } from '../domain/errors.ts';
import type { Identify } from './context.ts';
import { userCookie, userOfCookie } from './cookie.ts';

/** 1 to 128 printable ASCII characters, none at the ends a space: what a header can carry unchanged. */
const USER = /^[!-~](?:[ -~]{0,126}[!-~])?$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

/** What Sec-Fetch-Site says of our own pages, and of what nobody's page asks for. */
const OWN_SITES: ReadonlySet<string> = new Set(['same-origin', 'none']);

/** True for an address that only this machine can reach. */
export function isLoopback(address: string): boolean {
  return address === '::1' || LOOPBACK.test(address);
}

/**
 * Takes callers at their word, for a host that only this machine can reach: the header x-perdure-user, else a cookie
 * signed by us, else a new user with such a cookie. Pages of other sites are kept out: neither a name that is made to
 * resolve to this machine nor a form or script elsewhere gets through.
 */
export function loopbackUser(key: Buffer<ArrayBuffer>): Identify {
  const identify = async (request: Request) => {
    refuseOtherSites(request);
    const header = request.headers.get('x-perdure-user');
    if (header !== null) return { user: validUser(header) };
    const known = await userOfCookie(request.headers.get('cookie'), key);
    if (known !== undefined) return { user: known };
    const user = `guest-${randomBytes(12).toString('base64url')}`;
    return { user, setCookie: await userCookie(user, key) };
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
  // An image or a script comes without an origin; browsers say of it at least that another site asks for it.
  const site = request.headers.get('sec-fetch-site') ?? 'none';
  if ((origin !== null && originHost(origin) !== host.toLowerCase()) || !OWN_SITES.has(site)) {
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

/** @throws {PerdureError} `Unauthorized` for what cannot be a user's id */
export function validUser(user: unknown): string {
  if (typeof user === 'string' && USER.test(user)) return user;
  throw unauthorized('expected a user of 1 to 128 printable ASCII characters');
}

/** `Unauthorized` for a token that was brought and does not hold. */
export class InvalidToken extends PerdureError {
  constructor(message: string, cause?: unknown) {
    super('Unauthorized', message, { cause });
  }
}

export function unauthorized(message: string): PerdureError {
  return new PerdureError('Unauthorized', message);
}
