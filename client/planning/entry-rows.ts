import type { Faults, TextFile } from './text-files.ts';

/** What the file of a decision or a blocker says, as the export writes it. */
export interface EntryRows {
  /** The heading, or ''. */
  title: string;
  /** The first value of a row; null: it has none. */
  one: (name: string) => string | null;
  /** All values of a row. */
  all: (name: string) => string[];
  /** The line of a row, or the first one. */
  lineOf: (name: string) => number;
}

/**
 * Reads `# Title`, and below it `- Name: value`, or `- Name:` with a list below that.
 * @param known the names of rows
 * @param what the heading is
 */
export function entryRows(
  { path, lines }: TextFile,
  known: ReadonlySet<string>,
  what: string,
  faults: Faults,
): EntryRows {
  const rows = new Map<string, { line: number; values: string[] }>();
  let values: string[] = [];
  if (!/^# +\S/.test(lines[0] ?? '')) faults.add(path, 1, `a heading with ${what}`);
  for (const [n, line] of lines.entries()) {
    if (n === 0 || line.trim() === '') continue;
    const { name, value } = /^- (?<name>[A-Z][a-z ]+):(?: (?<value>.*\S))?\s*$/.exec(line)?.groups ?? {};
    const item = /^ {2}- (?<item>.*\S)\s*$/.exec(line)?.groups?.['item'];
    if (name !== undefined && known.has(name)) {
      values = value === undefined ? [] : [value];
      rows.set(name, { line: n + 1, values });
    } else if (item !== undefined && rows.size > 0) values.push(item);
    else faults.add(path, n + 1, `"- Name: value" with one of the names ${[...known].join(', ')}`);
  }
  return {
    title: (lines[0] ?? '').replace(/^# +/, '').trim(),
    one: (name) => rows.get(name)?.values[0] ?? null,
    all: (name) => rows.get(name)?.values ?? [],
    lineOf: (name) => rows.get(name)?.line ?? 1,
  };
}
