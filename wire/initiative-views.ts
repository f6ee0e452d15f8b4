import { z } from 'zod';
import { DECISION_KINDS, POSITION_STATUSES, statusesOf } from '../domain/initiatives/machines.ts';

// Initiatives as the API shows them: schemas of responses, for the OpenAPI document, and of what the SQL functions return.

const time = z.iso.datetime().meta({ description: 'ISO 8601, in UTC, to the second' });
const count = z.int().min(0);
const texts = z.array(z.string());

const resumeContext = z.object({
  files_modified_this_session: texts,
  key_implementations: texts,
  open_questions: texts,
});

export const mismatch = z
  .object({ kind: z.enum(['file', 'implementation']), entry: z.string(), problem: z.string() })
  .meta({ id: 'InitiativeMismatch', description: 'An entry of resume_context that is not in the workspace.' });

const review = z
  .array(mismatch)
  .nullable()
  .meta({ description: 'What has to be reviewed before anybody goes on; null: nothing' });

const initiativeRow = z
  .object({
    initiative_id: z.string(),
    user_id: z.string(),
    title: z.string(),
    status: z.enum(statusesOf('initiative')),
    next_action: z.string(),
    resume_context: resumeContext,
    project_id: z.string().nullable(),
    workspace_root: z.string().nullable(),
    review,
    version: count.meta({ description: 'Increased by every change that STATE.md shows' }),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'Initiative', description: 'An initiative.' });

const initiativeState = z
  .object({
    position: z.object({
      phase: count,
      phase_name: z.string(),
      plan: count,
      plan_name: z.string(),
      task_id: z.string(),
      task: z.string(),
      wave: z.int(),
      status: z.enum(POSITION_STATUSES),
    }),
    progress: z.object({
      phases_total: count,
      phases_completed: count,
      current_phase_tasks: count,
      current_phase_completed: count,
    }),
    updated_at: time,
  })
  .meta({ id: 'InitiativeState', description: 'The position of an initiative, and its progress.' });

export const initiativeTask = z
  .object({
    task_id: z.string(),
    phase: count,
    plan: count,
    wave: z.int(),
    number: count,
    name: z.string(),
    status: z.enum(statusesOf('task')),
    assigned_to: z.string().nullable(),
    assigned_at: time.nullable(),
    last_progress_at: time.nullable(),
    note: z.string().nullable(),
    completed_at: time.nullable(),
  })
  .meta({
    id: 'InitiativeTask',
    description: 'A task; `assigned_to` is the work session that holds or has completed it.',
  });

const initiativePlan = z.object({
  plan: count,
  name: z.string(),
  body: z.string(),
  summary: z.string().nullable(),
  status: z.enum(statusesOf('plan')),
  tasks: z.array(initiativeTask),
});

const initiativePhase = z
  .object({
    phase: count,
    name: z.string(),
    status: z.enum(statusesOf('phase')),
    plans: z.array(initiativePlan),
  })
  .meta({ id: 'InitiativePhase', description: 'A phase with its plans and their tasks.' });

const initiativeDecision = z
  .object({
    decision_id: z.string(),
    kind: z.enum(DECISION_KINDS).nullable(),
    date: z.iso.date(),
    context: z.string(),
    decision: z.string(),
    reason: z.string(),
    alternatives_considered: texts,
    reversible: z.boolean().nullable(),
  })
  .meta({ id: 'InitiativeDecision', description: 'A decision.' });

const namedTasks = z.array(z.object({ task_id: z.string(), name: z.string() }));

const initiativeBlocker = z
  .object({
    id: z.string(),
    status: z.enum(statusesOf('blocker')),
    description: z.string(),
    identified_at: time,
    affects: texts,
    blocked_tasks: namedTasks,
    workaround: z.string().nullable(),
    workaround_tasks: namedTasks,
    resolution: z.string().nullable(),
    resolved_at: time.nullable(),
  })
  .meta({ id: 'InitiativeBlocker', description: 'A blocker.' });

const workSession = z
  .object({
    id: z.string(),
    agent: z.string(),
    session_id: z.string().nullable(),
    status: z.enum(statusesOf('work_session')),
    started: time,
    ended: time.nullable(),
    working_on: z.string().nullable(),
    context_usage: z.number().nullable().meta({ description: '0 to 1' }),
    completed: texts,
    issues: texts,
    handoff_reason: z.string().nullable(),
    notes: z.string().nullable(),
  })
  .meta({ id: 'WorkSession', description: "One agent's stretch of work on an initiative." });

export const decisionAnswer = z.object({ decision: initiativeDecision });
export const blockerAnswer = z.object({ blocker: initiativeBlocker });
export const workSessionAnswer = z.object({ session: workSession });

/** What a work session has to know before it goes on. */
export const initiativeResume = z
  .object({
    message: z.string().meta({ description: '"Resuming from Phase 2, Plan 3, Task: a name", or why nobody can' }),
    position: initiativeState.shape.position,
    plan: initiativePlan,
    summaries: z
      .array(z.object({ plan: count, name: z.string(), summary: z.string() }))
      .meta({ description: 'Of the completed plans before it, of this phase' }),
    decisions: z.array(initiativeDecision),
    blockers: z.array(initiativeBlocker).meta({ description: 'The active ones' }),
    last_sessions: z.array(workSession).meta({
      description:
        'The work sessions that ended last, with their notes, issues and handoff reasons: at most five, the last one first',
    }),
    review,
  })
  .meta({ id: 'InitiativeResume', description: 'Where an initiative goes on.' });
export type InitiativeResume = z.output<typeof initiativeResume>;

export const startedSession = workSessionAnswer.extend({ resume: initiativeResume });

/** What an import of `.planning/` has read. */
export const planningReport = z
  .object({
    title: z.string(),
    ...{ phases: count, plans: count, tasks: count, completed: count.meta({ description: 'Completed tasks' }) },
    ...{ decisions: count, blockers: count, sessions: count },
    not_read: texts.meta({ description: 'Files that an import does not read' }),
  })
  .meta({ id: 'PlanningReport', description: 'What an import of `.planning/` has read.' });
export type PlanningReport = z.output<typeof planningReport>;

/** A change of an initiative. */
export const initiativeChange = z.object({
  seq: count,
  at: time,
  kind: z.string(),
  actor: z.string(),
  data: z.record(z.string(), z.unknown()),
});
export type InitiativeChange = z.output<typeof initiativeChange>;

/** An initiative in a list. */
export const initiativeItem = z.object({ initiative: initiativeRow, state: initiativeState });

export const importedInitiative = initiativeItem.extend({ report: planningReport });
export const planningCheck = z.object({ report: planningReport });

export const initiativeView = initiativeItem
  .extend({
    phases: z.array(initiativePhase),
    decisions: z.array(initiativeDecision),
    blockers: z.array(initiativeBlocker),
    sessions: z.array(workSession),
  })
  .meta({ id: 'InitiativeView', description: 'An initiative with all that belongs to it.' });
export type InitiativeView = z.output<typeof initiativeView>;
export type Initiative = z.output<typeof initiativeItem>;
export type InitiativeTask = z.output<typeof initiativeTask>;
export type InitiativeDecision = z.output<typeof initiativeDecision>;
export type InitiativeBlocker = z.output<typeof initiativeBlocker>;
export type WorkSession = z.output<typeof workSession>;
