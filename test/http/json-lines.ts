/** A line of an export. */
export type Line = Record<string, unknown> & { metadata?: Record<string, unknown> };

/** The lines of an export. */
export function parsed(text: string): Line[] {
  const lines = text.trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Line);
}

/** An export of these lines. */
export function joined(lines: readonly unknown[]): string {
  return lines.map((line) => JSON.stringify(line)).join('\n');
}
