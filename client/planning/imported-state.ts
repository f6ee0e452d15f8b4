import { z } from 'zod';
import { POSITION_STATUSES, statusesOf } from '../../domain/initiatives/machines.ts';
import { decisionBody, MAX_TEXT, name, optionalText, text, texts, title } from '../../wire/initiative-requests.ts';

// STATE.md as an import reads it: what a hand has written may lack what the system counts or adds.

const count = z.union([z.int(), z.string().regex(/^\d{1,6}$/, 'a whole number')], 'a whole number').transform(Number);
const place = count.refine((n) => n >= 1, 'a whole number of at least 1');
const TIME = 'a time such as 2026-01-31T09:00:00Z';
/** A time, or a day, which begins in UTC. In UTC: Postgres does not take every offset, and has no year 0. */
export const planningTime = z
  .union([z.iso.datetime({ offset: true, error: TIME }), z.iso.date(TIME)], TIME)
  .transform((at) => new Date(at).toISOString())
  .refine((at) => /^(?!0000)\d{4}-/.test(at), TIME);
/** The number of such an id is in it once: `block-001` and `block-0001` would be the same blocker. */
const NUMBER = String.raw`(?:\d{3}|[1-9]\d{3,5})`;
export const blockerId = z.string().regex(new RegExp(`^block-${NUMBER}$`), 'an id such as block-001');
/** Lists may grow while work goes on. */
const listOf = <T extends z.ZodType>(item: T, expected: string) => z.array(item, expected).max(10_000, 'at most 10000');
const grownTexts = listOf(text, 'a list of texts');
/** By name, or as `id: name`. */
const taskList = listOf(
  z.union([text, z.record(z.string(), text)], 'a task, or id: task'),
  'a list of tasks',
).transform((tasks) => tasks.flatMap((each) => (typeof each === 'string' ? [{ name: each }] : named(each))));
const named = (task: Record<string, string>) => Object.entries(task).map(([id, called]) => ({ id, name: called }));
const flag = z
  .union([z.boolean(), z.enum(['true', 'false'])], 'true or false')
  .transform((value) => String(value) === 'true');

const blocker = z.strictObject({
  id: blockerId,
  status: z.enum(statusesOf('blocker')).optional(),
  description: text,
  identified_at: planningTime,
  affects: texts.optional(),
  blocked_tasks: taskList.optional(),
  workaround: text.nullish(),
  workaround_tasks: taskList.optional(),
  resolution: text.nullish(),
});
export type ImportedBlocker = z.output<typeof blocker>;

/** The system puts a line before them, about the work session that is resumed. */
const MAX_NOTES = MAX_TEXT + 100;

const session = z.strictObject({
  id: z.string().regex(new RegExp(`^session-${NUMBER}$`), 'an id such as session-001'),
  agent: name.optional(),
  session_id: text.optional(),
  started: planningTime,
  ended: planningTime.optional(),
  status: z.enum(statusesOf('work_session')).optional(),
  working_on: text.optional(),
  context_usage: z
    .string()
    .regex(/^(?:100|\d{1,2})%$/, 'a percentage such as "62%"')
    .optional(),
  completed: grownTexts.optional(),
  issues: grownTexts.optional(),
  handoff_reason: text.optional(),
  notes: z.string('a text').max(MAX_NOTES, `at most ${MAX_NOTES} characters`).optional(),
});
export type ImportedSession = z.output<typeof session>;

export const importedState = z.strictObject({
  initiative: z.string().optional(),
  title,
  position: z.strictObject({
    phase: place,
    phase_name: name.optional(),
    plan: place,
    plan_name: name.optional(),
    task: name,
    wave: place.optional(),
    status: z.enum(POSITION_STATUSES).optional(),
  }),
  // Counted from the plans.
  progress: z.unknown().optional(),
  decisions: listOf(decisionBody.extend({ reversible: flag.optional() }), 'a list of decisions').default([]),
  blockers: listOf(blocker, 'a list of blockers').default([]),
  sessions: listOf(session, 'a list of work sessions').default([]),
  next_action: optionalText.default(''),
  resume_context: z
    .strictObject({
      files_modified_this_session: texts.default([]),
      key_implementations: texts.default([]),
      open_questions: texts.default([]),
    })
    .default({ files_modified_this_session: [], key_implementations: [], open_questions: [] }),
});
export type ImportedState = z.output<typeof importedState>;
