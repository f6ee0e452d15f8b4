import type { Faults, TextFile } from './text-files.ts';

/** What the file of a decision or a blocker says, as the export writes it. */
export interface EntryRows {
  /** The first line, without its "# ". That it is a heading is checked. */
  title: string;
  /** The first value of a row; null: it has none. */
  one: (name: string) => string | null;
  /** All values of a row. */
  all: (name: string) => string[];
  /** The line of a row, or the first one. */
  lineOf: (name: string) => number;
}

/** The names of rows, and what each has. */
export type KnownRows = ReadonlyMap<string, 'text' | 'list'>;

/**
 * Reads `# Title`, and below it `- Name: value`, or `- Name:` with a list below that.
 * @param known the names of rows, each of which may be there once
 * @param what the heading is
 */
export function entryRows({ path, lines }: TextFile, known: KnownRows, what: string, faults: Faults): EntryRows {
  const rows = new Map<string, { line: number; values: string[] }>();
  let list: string[] | undefined;
  if (!/^# +\S/.test(lines[0] ?? '')) faults.add(path, 1, `a heading with ${what}`);
  for (const [n, line] of lines.entries()) {
    if (n === 0 || line.trim() === '') continue;
    const { name, value } = /^- (?<name>[A-Z][a-z ]+):(?: (?<value>.*\S))?\s*$/.exec(line)?.groups ?? {};
    const item = /^ {2}- (?<item>.*\S)\s*$/.exec(line)?.groups?.['item'];
    const kind = name === undefined || rows.has(name) ? undefined : known.get(name);
    if (name !== undefined && kind !== undefined && (kind === 'list' || value !== undefined)) {
      const values = value === undefined ? [] : [value];
      list = kind === 'list' ? values : undefined;
      rows.set(name, { line: n + 1, values });
    } else if (item !== undefined && list !== undefined) list.push(item);
    else faults.add(path, n + 1, `"- Name: value" with one of the names ${[...known.keys()].join(', ')}, each once`);
  }
  return {
    title: (lines[0] ?? '').replace(/^# +/, '').trim(),
    one: (name) => rows.get(name)?.values[0] ?? null,
    all: (name) => rows.get(name)?.values ?? [],
    lineOf: (name) => rows.get(name)?.line ?? 1,
  };
}
