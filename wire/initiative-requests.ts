import { z } from 'zod';
import type { InitiativeCommand } from '../domain/initiatives/initiative-commands.ts';
import { DECISION_KINDS, POSITION_STATUSES } from '../domain/initiatives/machines.ts';
import { cleanText } from '../domain/text.ts';
import { mismatch } from './initiative-views.ts';
import { id } from './requests.ts';

// Schemas of requests about initiatives. Texts are in characters.

const MAX_NAME = 500;
export const MAX_TEXT = 10_000;
export const MAX_BODY = 200_000;
const MAX_ITEMS = 1_000;
/** Of an initiative, also after bypasses (ini_bypass_blocker): most commands look at all of them. */
export const MAX_TASKS = 10_000;

/** Cleaned first, so that different names stay so when they are stored. Not only white space, which an export cannot show. */
const words = (most: number) =>
  z.string('a text').overwrite(cleanText).regex(/\S/, 'a text').max(most, `at most ${most} characters`);
export const name = words(MAX_NAME);
export const text = words(MAX_TEXT);
export const optionalText = z.string('a text').max(MAX_TEXT, `at most ${MAX_TEXT} characters`);
export const texts = z.array(text, 'a list of texts').max(MAX_ITEMS, `at most ${MAX_ITEMS} texts`);
const number = z.int('a whole number').min(1, 'a whole number of at least 1').max(1e6);
const DATE = 'a date such as 2026-01-31';
/** Postgres has no year 0. */
const date = z.iso.date(DATE).refine((day) => !day.startsWith('0000'), DATE);
const reference = z.string('an id').min(1, 'an id').max(64, 'an id');

/** Refuses names that occur twice: a position names its task. */
const distinct = (items: readonly { name: string }[]) => new Set(items.map((each) => each.name)).size === items.length;
const listOf = <T extends z.ZodType>(item: T) =>
  z.array(item, 'a list').min(1, 'at least one').max(MAX_ITEMS, `at most ${MAX_ITEMS}`);

export const title = words(200);

export const decisionBody = z.strictObject({
  context: text.meta({ description: 'Where it was needed' }),
  decision: text,
  reason: text,
  kind: z.enum(DECISION_KINDS).nullish(),
  date: date.nullish().meta({ description: 'Today unless given' }),
  alternatives_considered: texts.optional(),
  reversible: z.boolean('true or false').nullish(),
});

export const createInitiativeBody = z.strictObject({
  title,
  phases: listOf(
    z.strictObject({
      name,
      plans: listOf(
        z.strictObject({
          name,
          body: z.string('a text').max(MAX_BODY, `at most ${MAX_BODY} characters`).optional(),
          tasks: listOf(z.strictObject({ name, wave: number.optional() })).refine(
            distinct,
            'tasks with different names in one plan',
          ),
        }),
      ),
    }),
  ).refine(
    (phases) => phases.flatMap(({ plans }) => plans.flatMap(({ tasks }) => tasks)).length <= MAX_TASKS,
    `at most ${MAX_TASKS} tasks in all plans`,
  ),
  decisions: z.array(decisionBody, 'a list of decisions').max(MAX_ITEMS, `at most ${MAX_ITEMS}`).optional(),
  next_action: optionalText.optional(),
  project_id: id.nullish(),
  workspace_root: z.string('a folder below the workspaces').min(1).max(1_024).nullish(),
});

export const initiativeStateBody = z.strictObject({
  position: z
    .strictObject({
      phase: number,
      plan: number,
      task: name.meta({ description: 'The name of an uncompleted task of this plan' }),
      wave: number.optional(),
      status: z.enum(POSITION_STATUSES).optional(),
      phase_name: name.optional(),
      plan_name: name.optional(),
    })
    .optional(),
  next_action: optionalText.optional(),
  resume_context: z
    .strictObject({
      files_modified_this_session: texts.optional(),
      key_implementations: texts.optional(),
      open_questions: texts.optional(),
    })
    .optional()
    .meta({ description: 'Replaces the members that are given' }),
});

export const blockerBody = z.strictObject({
  description: text,
  affects: texts,
  blocked_tasks: z.array(reference, 'a list of task ids').max(MAX_ITEMS).optional(),
});
export const bypassBody = z.strictObject({
  workaround: text,
  workaround_tasks: z
    .array(name, 'a list of names')
    .max(MAX_ITEMS)
    .refine((names) => new Set(names).size === names.length, 'different names')
    .optional()
    .meta({ description: 'Tasks to add for what has to be done later' }),
});
export const resolveBody = z.strictObject({ resolution: text });

export const startSessionBody = z.strictObject({
  agent: name,
  session_id: reference.nullish().meta({ description: 'The chat session that the agent runs in' }),
  working_on: text.nullish(),
});
export const endSessionBody = z.strictObject({
  completed: texts.optional().meta({ description: 'Unless given, the tasks that it has completed' }),
  issues: texts.optional(),
  context_usage: z.number('a number from 0 to 1').min(0).max(1).nullish(),
  handoff_reason: text.nullish(),
  notes: text.nullish(),
});

export const reviewBody = z.strictObject({
  note: text.meta({ description: 'Why the mismatches are accepted' }),
  seen: z.array(mismatch, 'a list of mismatches').optional().meta({
    description: 'Those of `review` that are accepted; what was flagged since stays. Unless given: all that is flagged',
  }),
});

export const workSessionBody = z.strictObject({ work_session: reference.meta({ description: 'Such as session-001' }) });
export const taskReportBody = workSessionBody.extend({ note: text.nullish() });

/** The body of each command. */
export const INITIATIVE_BODIES = {
  updateState: initiativeStateBody,
  addDecision: decisionBody,
  addBlocker: blockerBody,
  bypassBlocker: bypassBody,
  resolveBlocker: resolveBody,
  startSession: startSessionBody,
  endSession: endSessionBody,
  assignTask: workSessionBody,
  startTask: workSessionBody,
  reportProgress: taskReportBody,
  completeTask: taskReportBody,
  review: reviewBody,
} as const satisfies Record<InitiativeCommand, z.ZodType>;

const ref = (description: string) => z.string().min(1).max(128).meta({ description });
export const initiativeRef = ref("An initiative's `ini_` id");
export const decisionRef = ref('The id of a decision');
/** What the paths of commands name. */
export const INITIATIVE_PARAMETERS = {
  blocker_id: ref('The id of a blocker, such as block-001'),
  work_session: ref('The id of a work session, such as session-001'),
  task_id: ref('The id of a task'),
};
