import { z } from 'zod';
import { text } from '../../wire/initiative-requests.ts';
import { entryRows, type KnownRows } from './entry-rows.ts';
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

const KNOWN: KnownRows = new Map([
  ['Id', 'text'],
  ['Status', 'text'],
  ['Identified at', 'text'],
  ['Affects', 'list'],
  ['Blocked tasks', 'list'],
  ['Workaround', 'text'],
  ['Tasks of the workaround', 'list'],
  ['Resolution', 'text'],
  ['Resolved at', 'text'],
]);
const resolved = z.literal('resolved', 'resolved, or the same blocker in STATE.md');

/**
 * Reads the file of a blocker as the export writes it. STATE.md has those that are not resolved.
 * @param inState the ids of the blockers in STATE.md
 * @returns undefined: STATE.md has it, or a line could not be read
 */
export function resolvedBlockerOf(
  file: TextFile,
  inState: ReadonlySet<string>,
  faults: Faults,
): ResolvedBlocker | undefined {
  const { title, one, all, lineOf } = entryRows(file, KNOWN, 'the description of the blocker', faults);
  const id = one('Id');
  if (id !== null && inState.has(id)) return undefined;
  /** The value of a row, or '' and a fault. */
  const required = (name: string, schema: z.ZodType<string>): string => {
    const { data = '', error } = schema.safeParse(one(name) ?? '');
    if (error) faults.add(file.path, lineOf(name), `${name}: ${error.issues[0]?.message}`);
    return data;
  };
  const resolvedAt = one('Resolved at');
  return {
    status: required('Status', resolved),
    id: required('Id', blockerId),
    description: title,
    identified_at: required('Identified at', planningTime),
    affects: all('Affects'),
    workaround: one('Workaround'),
    resolution: required('Resolution', text),
    resolved_at: resolvedAt === null ? null : required('Resolved at', planningTime),
    blocked_tasks: [],
    workaround_tasks: [],
  };
}
