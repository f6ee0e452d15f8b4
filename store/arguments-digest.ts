import { createHash } from 'node:crypto';
import { canonicalJson } from '../domain/canonical-json.ts';

/**
 * SHA-256 of a command's arguments, which its receipt keeps: under the same key, other arguments are `KeyReused`. Equal JSON gives equal
 * digests, whatever the order of members. Short texts can be guessed from it: a digest of content may be stored beside the content
 * in Postgres, but must not reach Temporal.
 */
export function argumentsDigest(given: unknown): Buffer {
  return createHash('sha256').update(canonicalJson(given)).digest();
}
