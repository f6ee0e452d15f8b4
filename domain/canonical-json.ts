/**
 * Canonical JSON: keys sorted by UTF-16 code units (RFC 8785), no spaces, undefined members omitted. Equal values give equal
 * bytes, and so equal digests.
 * @throws {TypeError} for values that JSON cannot represent (cycles, bigint)
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => (isPlainObject(member) ? sorted(member) : member)) ?? 'null';
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sorted(object: Record<string, unknown>): Record<string, unknown> {
  // With a prototype, a member named __proto__ would be lost. Keys that look like array indexes come first in every object,
  // whatever the order of insertion: that order is fixed, too, so equal values still give equal bytes.
  const result = Object.create(null) as Record<string, unknown>;
  for (const key of Object.keys(object).toSorted()) result[key] = object[key];
  return result;
}
