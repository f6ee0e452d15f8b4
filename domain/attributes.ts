import { byteLength, type Json } from './text.ts';

/** What a sign-in hook passes on with a message, such as a tenant: prompts and tools of the turn see it. It is stored. */
export type Attributes = Readonly<Record<string, Json>>;

const MAX_ATTRIBUTES_BYTES = 4_096;

/** A JSON web token, signed or encrypted (RFC 7515, 3.1; RFC 7516, 3.1): its header is a JSON object in base64url. */
const TOKEN = /\beyJ[\w-]+\.[\w-]*\.[\w-]*/;

/**
 * Completes the sentence "attributes: expected …"; undefined: they can be stored.
 * @param credentials texts that must not be part of them
 */
export function attributesProblem(attributes: unknown, credentials: readonly string[] = []): string | undefined {
  if (!isPlainObject(attributes)) return 'a plain object';
  const json = jsonOf(attributes);
  if (json === undefined) return 'values that JSON can express';
  if (byteLength(json) > MAX_ATTRIBUTES_BYTES) return `at most ${MAX_ATTRIBUTES_BYTES} bytes of JSON`;
  const isSecret = TOKEN.test(json) || credentials.some((credential) => json.includes(credential));
  return isSecret ? 'no token or other credential of the request, because they are stored' : undefined;
}

/** Also of another realm. An instance of a class, such as a Promise, may say nothing as JSON. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}
