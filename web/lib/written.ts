/** Maximum length of a one-line value, in characters. */
const LINE = 60;

/** A value for users: a text as it is, anything else as JSON, on one line if it fits. */
export function written(value: unknown): string {
  if (typeof value === 'string') return value;
  const line = JSON.stringify(value) ?? '';
  return line.length <= LINE ? line : JSON.stringify(value, null, 2);
}
