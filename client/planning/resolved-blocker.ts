import { z } from 'zod';
import { text } from '../../wire/initiative-requests.ts';
import { blockerId, planningTime } from './imported-state.ts';
import type { Faults, TextFile } from './text-files.ts';

/** A resolved blocker as its file says; texts are on one line. */
export interface ResolvedBlocker {
  id: string;
  status: string;
  description: string;
  identified_at: string;
  affects: string[];
  workaround: string | null;
  resolution: string;
  resolved_at: string | null;
  /** They are completed, or work goes on with them. */
  blocked_tasks: [];
  workaround_tasks: [];
}

const ROWS = ['Id', 'Status', 'Identified at', 'Affects', 'Blocked tasks', 'Workaround', 'Tasks of the workaround'];
const KNOWN: ReadonlySet<string> = new Set([...ROWS, 'Resolution', 'Resolved at']);
const resolved = z.literal('resolved', 'resolved, or the same blocker in STATE.md');

/**
 * Reads the file of a blocker as the export writes it. STATE.md has those that are not resolved.
 * @param inState the ids of the blockers in STATE.md
 * @returns undefined: STATE.md has it, or a line could not be read
 */
export function resolvedBlockerOf(
  { path, lines }: TextFile,
  inState: ReadonlySet<string>,
  faults: Faults,
): ResolvedBlocker | undefined {
  const rows = rowsOf(path, lines, faults);
  const at = (name: string) => rows.get(name)?.line ?? 1;
  const one = (name: string) => rows.get(name)?.values[0] ?? null;
  const id = one('Id');
  if (id !== null && inState.has(id)) return undefined;
  /** The value of a row, or '' and a fault. */
  const required = (name: string, schema: z.ZodType<string>): string => {
    const { data = '', error } = schema.safeParse(one(name) ?? '');
    if (error) faults.add(path, at(name), `${name}: ${error.issues[0]?.message}`);
    return data;
  };
  return {
    status: required('Status', resolved),
    id: required('Id', blockerId),
    description: (lines[0] ?? '').replace(/^# +/, '').trim(),
    identified_at: required('Identified at', planningTime),
    affects: rows.get('Affects')?.values ?? [],
    workaround: one('Workaround'),
    resolution: required('Resolution', text),
    resolved_at: rows.has('Resolved at') ? required('Resolved at', planningTime) : null,
    blocked_tasks: [],
    workaround_tasks: [],
  };
}

type Rows = Map<string, { line: number; values: string[] }>;

/** `- Name: value`, or `- Name:` with a list below it. */
function rowsOf(path: string, lines: readonly string[], faults: Faults): Rows {
  const rows: Rows = new Map();
  let values: string[] = [];
  if (!/^# +\S/.test(lines[0] ?? '')) faults.add(path, 1, 'a heading with the description of the blocker');
  for (const [n, line] of lines.entries()) {
    if (n === 0 || line.trim() === '') continue;
    const { name, value } = /^- (?<name>[A-Z][a-z ]+):(?: (?<value>.*\S))?\s*$/.exec(line)?.groups ?? {};
    const item = /^ {2}- (?<item>.*\S)\s*$/.exec(line)?.groups?.['item'];
    if (name !== undefined && KNOWN.has(name)) {
      values = value === undefined ? [] : [value];
      rows.set(name, { line: n + 1, values });
    } else if (item !== undefined && rows.size > 0) values.push(item);
    else faults.add(path, n + 1, `"- Name: value" with one of the names ${[...KNOWN].join(', ')}`);
  }
  return rows;
}
