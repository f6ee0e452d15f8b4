import { z } from 'zod';
import { decisionBody } from '../../wire/initiative-requests.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { fieldPath } from '../state-file/parse-state.ts';
import { entryRows, type KnownRows } from './entry-rows.ts';
import type { ImportedState } from './imported-state.ts';
import { type Faults, inline, type TextFile } from './text-files.ts';

export type ImportedDecision = ImportedState['decisions'][number];

const KNOWN: KnownRows = new Map([
  ['Date', 'text'],
  ['Kind', 'text'],
  ['Context', 'text'],
  ['Reason', 'text'],
  ['Alternatives considered', 'list'],
  ['Reversible', 'text'],
]);
const schema = decisionBody.extend({
  reversible: z
    .enum(['yes', 'no'], 'yes or no')
    .transform((word) => word === 'yes')
    .optional(),
});
const DAY = /(?<day>\d{4}-\d{2}-\d{2})-[^/]*$/;

/**
 * Reads the file of a decision as the export writes it. Its name says the date if no row does.
 * @param inState the decisions in STATE.md, by `decisionKey`
 * @returns undefined: STATE.md has it, or a line could not be read
 */
export function decisionOfFile(
  file: TextFile,
  inState: ReadonlySet<string>,
  faults: Faults,
): ImportedDecision | undefined {
  const { title, one, all, lineOf } = entryRows(file, KNOWN, 'the decision', faults);
  const [context, reason] = [one('Context') ?? '', one('Reason') ?? ''];
  if (inState.has(decisionKey({ context, decision: title, reason }))) return undefined;
  const given = {
    ...{ context, decision: title, reason, kind: one('Kind'), reversible: one('Reversible') ?? undefined },
    date: one('Date') ?? DAY.exec(file.path)?.groups?.['day'],
    alternatives_considered: all('Alternatives considered'),
  };
  try {
    return parseInput(schema, given);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    for (const { field, expected } of error.errors) {
      const row = rowOf(String(fieldPath(field)[0]));
      faults.add(file.path, lineOf(row), `${row}: ${expected}`);
    }
    return undefined;
  }
}

/** What tells decisions apart: their texts on one line, as their files have them. */
export function decisionKey({ context, decision, reason }: ImportedDecision): string {
  return JSON.stringify([context, decision, reason].map((text) => inline(text)));
}

/** alternatives_considered → Alternatives considered */
function rowOf(field: string): string {
  const words = field.replaceAll('_', ' ');
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}
