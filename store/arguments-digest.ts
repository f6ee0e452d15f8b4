import { createHash } from 'node:crypto';
import { canonicalJson } from '../domain/canonical-json.ts';

/**
 * SHA-256 of a command's arguments, which its receipt keeps: under the same key, other arguments are `KeyReused`. Equal JSON gives equal
 * digests, whatever the order of members. A member that is false or null is the same as none: a later version may add arguments,
 * which then have these values in a repeat. Short texts can be guessed from a digest: one of content may be stored beside the
 * content in Postgres, but must not reach Temporal.
 */
export function argumentsDigest(given: object): Buffer {
  const counted = Object.entries(given).filter(([, value]) => value !== false && value !== null);
  return createHash('sha256')
    .update(canonicalJson(Object.fromEntries(counted)))
    .digest();
}
