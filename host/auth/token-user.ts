import { createRemoteJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyOptions } from 'jose';
import type { Attributes } from '../../domain/attributes.ts';
import { PerdureError } from '../../domain/errors.ts';
import type { Identify } from '../context.ts';
import { InvalidTokenError, unauthorized, validUser } from './loopback-user.ts';

export interface TokenSettings {
  /** Shared secret of tokens signed with HMAC, at least 32 bytes. Set either this or `jwksUrl`. */
  secret?: string | undefined;
  /** URL of the issuer's public keys. URLs in tokens are never fetched. */
  jwksUrl?: string | undefined;
  issuer?: string | undefined;
  audience?: string | undefined;
  /** Accept tokens without the claim `exp`, which never expire. */
  allowNoExp?: boolean | undefined;
  /** What of a verified token's claims is passed on to prompts and tools, such as the tenant. It is stored. */
  attributes?: ((claims: JWTPayload) => Attributes) | undefined;
}

/** RFC 7518, 3.2: a key is at least as long as the hash. */
const HMAC = [
  { algorithm: 'HS256', bytes: 32 },
  { algorithm: 'HS384', bytes: 48 },
  { algorithm: 'HS512', bytes: 64 },
];
/** No HMAC algorithms: a public key must never be used as a shared secret. */
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
/** Maximum clock difference between issuer and host. */
const CLOCK_TOLERANCE_S = 5;
const JWKS_TIMEOUT_MS = 2_000;
/** Minimum interval between fetches of the key set caused by tokens with unknown keys. */
const JWKS_COOLDOWN_MS = 10_000;
/** RFC 6750, 2.1. Two such headers arrive joined by a comma, and are refused. */
const BEARER = /^Bearer +([\w.~+/-]+=*)$/i;

/**
 * Identifies callers by `Authorization: Bearer` JSON web tokens; the claim `sub` is the user, `perdure_admin: true` makes an
 * administrator, and `perdure_reads_all: true` a reader of all users' sessions. The claim `exp` is required unless `allowNoExp`.
 * @throws {TypeError} with both or neither of secret and jwksUrl, or a secret that is too short
 */
export function tokenUser(settings: TokenSettings): Identify {
  const { issuer, audience, allowNoExp = false, attributes } = settings;
  const expected: JWTVerifyOptions = {
    requiredClaims: allowNoExp ? ['sub'] : ['sub', 'exp'],
    clockTolerance: CLOCK_TOLERANCE_S,
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
  };
  const verify = verifier(settings, expected);
  return async (request) => {
    const token = BEARER.exec(request.headers.get('authorization') ?? '')?.[1];
    if (token === undefined) throw unauthorized('expected one header "Authorization: Bearer <token>"');
    const claims = await verify(token).catch((error: unknown) => {
      throw isInvalid(error) ? new InvalidTokenError(reasonOf(error), error) : keysUnavailable(error);
    });
    const { sub, exp, perdure_admin: admin, perdure_reads_all: readsAll } = claims;
    return {
      user: userOf(sub),
      ...(admin === true && { admin }),
      ...(readsAll === true && { readsAll }),
      ...(attributes && { attributes: attributes(claims) }),
      ...(exp !== undefined && { expiresAt: exp * 1_000 }),
    };
  };
}

/** Why a token was refused; names a missing `exp`, and never quotes the token. */
function reasonOf(error: unknown): string {
  const isWithoutExp =
    error instanceof errors.JWTClaimValidationFailed && error.claim === 'exp' && error.reason === 'missing';
  return isWithoutExp ? 'the token has no expiry: expected a claim "exp"' : 'the token is not valid';
}

/** @throws {InvalidTokenError} if the subject is not a valid user id */
function userOf(subject: string | undefined): string {
  try {
    return validUser(subject);
  } catch (error) {
    throw new InvalidTokenError(`the token's subject: ${(error as Error).message}`, error);
  }
}

type Verify = (token: string) => Promise<JWTPayload>;

function verifier({ secret, jwksUrl }: TokenSettings, expected: JWTVerifyOptions): Verify {
  if (secret !== undefined && jwksUrl === undefined) return secretVerifier(secret, expected);
  if (jwksUrl !== undefined && secret === undefined) return keySetVerifier(new URL(jwksUrl), expected);
  throw new TypeError('expected either secret or jwksUrl, not both');
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

/** True if the token is invalid; false if the issuer's keys could not be fetched. */
function isInvalid(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return false;
  // A timeout, or a response that is not a key set; jose reports other bad responses with its base class.
  const unavailable = [errors.JWKSTimeout.code, errors.JWKSInvalid.code, errors.JOSEError.code];
  return !unavailable.includes(error.code);
}

function keysUnavailable(cause: unknown): PerdureError {
  const message = 'the keys that verify tokens cannot be fetched; try again in a moment';
  return new PerdureError('Unavailable', message, { cause });
}
