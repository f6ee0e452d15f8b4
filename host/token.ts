import { createRemoteJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyOptions } from 'jose';
import { PerdureError } from '../domain/errors.ts';
import type { Identify } from './context.ts';
import { InvalidToken, unauthorized, validUser } from './identify.ts';

export interface TokenSettings {
  /** Of tokens signed with HMAC; at least 32 bytes. Either this or `jwksUrl`. */
  secret?: string | undefined;
  /** Where the public keys of the issuer are found; nothing else is ever fetched, whatever a token says. */
  jwksUrl?: string | undefined;
  issuer?: string | undefined;
  audience?: string | undefined;
}

/** RFC 7518, 3.2: a key is as long as the hash at least. */
const HMAC = [
  { algorithm: 'HS256', bytes: 32 },
  { algorithm: 'HS384', bytes: 48 },
  { algorithm: 'HS512', bytes: 64 },
];
/** No HMAC among them: a public key must never be taken for a secret. */
const PUBLIC_KEY = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
/** Clocks of issuer and host may differ by so much. */
const CLOCK_TOLERANCE_S = 5;
const JWKS_TIMEOUT_MS = 2_000;
/** Tokens of unknown keys make the keys be fetched anew at most this often. */
const JWKS_COOLDOWN_MS = 10_000;
/** RFC 6750, 2.1. Two such headers come as one with a comma, and are refused. */
const BEARER = /^Bearer +([\w.~+/-]+=*)$/i;

/**
 * Takes `Authorization: Bearer` JSON web tokens; the claim `sub` is the user.
 * @throws {TypeError} with both or neither of secret and jwksUrl, or a secret that is too short
 */
export function tokenUser(settings: TokenSettings): Identify {
  const { issuer, audience } = settings;
  const expected: JWTVerifyOptions = {
    requiredClaims: ['sub'],
    clockTolerance: CLOCK_TOLERANCE_S,
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
  };
  const verify = verifier(settings, expected);
  return async (request) => {
    const token = BEARER.exec(request.headers.get('authorization') ?? '')?.[1];
    if (token === undefined) throw unauthorized('expected one header "Authorization: Bearer <token>"');
    const { sub } = await verify(token).catch((error: unknown) => {
      throw isVerdict(error) ? new InvalidToken('the token is not valid', error) : keysAway(error);
    });
    return { user: userOf(sub) };
  };
}

/** @throws {InvalidToken} for a subject that cannot be a user's id */
function userOf(subject: string | undefined): string {
  try {
    return validUser(subject);
  } catch (error) {
    throw new InvalidToken(`the token's subject: ${(error as Error).message}`, error);
  }
}

type Verify = (token: string) => Promise<JWTPayload>;

function verifier({ secret, jwksUrl }: TokenSettings, expected: JWTVerifyOptions): Verify {
  if (secret !== undefined && jwksUrl === undefined) return secretVerifier(secret, expected);
  if (jwksUrl !== undefined && secret === undefined) return keySetVerifier(new URL(jwksUrl), expected);
  throw new TypeError('expected either a secret or a jwksUrl: one of them verifies tokens');
}

function secretVerifier(secret: string, expected: JWTVerifyOptions): Verify {
  const key = new TextEncoder().encode(secret);
  const algorithms = HMAC.filter(({ bytes }) => key.length >= bytes).map(({ algorithm }) => algorithm);
  if (algorithms.length === 0) throw new TypeError('secret: expected at least 32 bytes (RFC 7518, 3.2)');
  return async (token) => (await jwtVerify(token, key, { ...expected, algorithms })).payload;
}

function keySetVerifier(url: URL, expected: JWTVerifyOptions): Verify {
  const keys = createRemoteJWKSet(url, { timeoutDuration: JWKS_TIMEOUT_MS, cooldownDuration: JWKS_COOLDOWN_MS });
  return async (token) => (await jwtVerify(token, keys, { ...expected, algorithms: PUBLIC_KEY })).payload;
}

/** True where the token is at fault, and not that its issuer's keys could not be had. */
function isVerdict(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return false;
  // An answer that is no key set, or none in time; what has no code of its own is a bad answer of the server's, too.
  const away = [errors.JWKSTimeout.code, errors.JWKSInvalid.code, errors.JOSEError.code];
  return !away.includes(error.code);
}

function keysAway(cause: unknown): PerdureError {
  return new PerdureError('Unavailable', 'the keys that verify tokens cannot be had; try again in a moment', { cause });
}
