/**
 * JSON with one spelling: keys sorted by UTF-16 code units (as RFC 8785 has it), no spaces, undefined members left out.
 * Equal values give equal bytes, so that digests of them are equal too.
 * @throws {TypeError} for what JSON cannot carry (cycles, bigint)
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => (isPlainObject(member) ? sorted(member) : member)) ?? 'null';
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sorted(object: Record<string, unknown>): Record<string, unknown> {
  // A null prototype, or a member named __proto__ would be lost. Keys that look like array indexes come first in any
  // object, whatever the order of insertion; that order is fixed as well, so equal values still give equal bytes.
  const result = Object.create(null) as Record<string, unknown>;
  for (const key of Object.keys(object).toSorted()) result[key] = object[key];
  return result;
}
