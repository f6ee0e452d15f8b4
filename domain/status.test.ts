import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import type { Question } from './runs.ts';
import { type StatusRow, statusOf, waitOf } from './status.ts';

const CALL = { session_id: 'ses_1', agent: 'a', message_id: 'm', tool_call_id: 'c', tool: 't', background: false };
const question = fc.constantFrom<Question>(
  { ...CALL, for: 'output' },
  { ...CALL, for: 'approval', pattern: '', decisions: ['once'] },
);
const RUN = { message_id: 'm', started_at: 1, retry: null, compacting: false };
const run = fc.constantFrom<NonNullable<StatusRow['run']>>(
  { ...RUN, state: 'queued', waits_for: null },
  { ...RUN, state: 'running', waits_for: null },
  { ...RUN, state: 'waiting', waits_for: 'approval' },
  { ...RUN, state: 'waiting', waits_for: 'output' },
);
const row: fc.Arbitrary<StatusRow> = fc.record({
  paused: fc.boolean(),
  stuck: fc.boolean(),
  run: fc.option(run),
  error_message: fc.constant(null),
  questions: fc.option(fc.array(question, { minLength: 1, maxLength: 3 })),
});

it('R5 what a session waits for is known exactly while its status is waiting', () => {
  const isKnown = (given: StatusRow) => (waitOf(given) !== null) === (statusOf(given).state === 'waiting');
  fc.assert(fc.property(row, isKnown), cases());
});

it('R5 a session that needs the user and a page waits for the user', () => {
  const waits = { ...RUN, state: 'waiting', waits_for: 'output' } as const;
  const waiting: StatusRow = { paused: false, stuck: false, run: waits, error_message: null, questions: null };
  expect(waitOf(waiting)).toBe('output');
  const asked: Question = { ...CALL, for: 'approval', pattern: '', decisions: ['once'] };
  expect(waitOf({ ...waiting, questions: [{ ...CALL, for: 'output' }, asked] })).toBe('approval');
});
