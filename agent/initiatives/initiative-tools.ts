import { z } from 'zod';

/** What an agent does in an initiative. */
export const INITIATIVE_ROLES = ['architect', 'worker', 'verifier', 'orchestrator'] as const;
export type InitiativeRole = (typeof INITIATIVE_ROLES)[number];

const text = z.string().min(1);
const texts = z.array(text);
const task_id = text.describe('The id of a task, from task_next or initiative_read');
const note = text.optional().describe('What was done, and where it differs from the plan');
const blocker = text.describe('Such as block-001');

/** The tools by name: what they are for, and their input. */
const TOOLS = {
  initiative_read: {
    description:
      'Reads the initiative that this session works on: the position, the plan, summaries of earlier plans, decisions, active blockers, and what the last work sessions left behind. Read it before anything else.',
    input: z.object({}),
  },
  initiative_create: {
    description:
      'Creates an initiative: phases of plans of tasks, with its first decisions. Returns its id, with which sessions join it.',
    input: z.object({
      title: text,
      phases: z.array(
        z.object({
          name: text,
          plans: z.array(
            z.object({
              name: text,
              body: z.string().optional(),
              tasks: z.array(z.object({ name: text, wave: z.int().min(1).optional() })),
            }),
          ),
        }),
      ),
      decisions: z.array(z.object({ context: text, decision: text, reason: text })).optional(),
      next_action: z.string().optional(),
    }),
  },
  task_next: {
    description:
      'Gives you a task: the one that you hold and have not started, or the next one of the position that nobody holds; null: there is none now. `work_session.notes` says if you go on after one that has crashed.',
    input: z.object({}),
  },
  task_start: { description: 'Starts a task. Call it before you work on it.', input: z.object({ task_id }) },
  task_progress: {
    description:
      'Reports progress of a task that you hold. Without a report for long, the task is given to another agent.',
    input: z.object({ task_id, note }),
  },
  task_complete: {
    description: 'Completes a task that you hold: the position moves on.',
    input: z.object({ task_id, note }),
  },
  decision_add: {
    description: 'Records a decision, so that nobody decides it again.',
    input: z.object({
      context: text.describe('Where it was needed'),
      decision: text,
      reason: text,
      kind: z.enum(['technology', 'architecture', 'trade-off', 'preference', 'constraint']).optional(),
      alternatives_considered: texts.optional(),
      reversible: z.boolean().optional(),
    }),
  },
  blocker_add: {
    description: 'Records what prevents work. The tasks that it blocks are taken from those who hold them.',
    input: z.object({
      description: text,
      affects: texts.describe('What it affects, such as "Phase 3"'),
      blocked_tasks: texts.optional().describe('Ids of tasks'),
    }),
  },
  blocker_bypass: {
    description: 'Goes on without the blocker by a workaround: its tasks are unblocked.',
    input: z.object({
      blocker,
      workaround: text,
      workaround_tasks: texts.optional().describe('Names of tasks to do later'),
    }),
  },
  blocker_resolve: {
    description: 'Says that a blocker is gone, and how: its tasks are unblocked.',
    input: z.object({ blocker, resolution: text }),
  },
  state_update: {
    description: 'Changes the position, the next action, or what the next work session has to know.',
    input: z.object({
      position: z.object({ phase: z.int(), plan: z.int(), task: text.describe('Its name') }).optional(),
      next_action: z.string().optional(),
      resume_context: z
        .object({
          files_modified_this_session: texts.optional().describe('Paths relative to the workspace'),
          key_implementations: texts.optional().describe('Files, symbols or phrases that are in the workspace'),
          open_questions: texts.optional(),
        })
        .optional(),
    }),
  },
  review: {
    description: 'Accepts what was found missing in the workspace, after you have checked it.',
    input: z.object({
      note: text.describe('Why the work can go on'),
      seen: z
        .array(z.object({ kind: z.enum(['file', 'implementation']), entry: text, problem: text }))
        .optional()
        .describe('The entries of review that you have checked. Unless given, all are accepted'),
    }),
  },
  session_end: {
    description: 'Ends your work session, with what the next one has to know: your uncompleted tasks are given back.',
    input: z.object({
      notes: text.optional(),
      issues: texts.optional(),
      handoff_reason: text.optional().describe('Why another agent has to go on'),
    }),
  },
} as const satisfies Record<string, { description: string; input: z.ZodObject }>;

export type InitiativeTool = keyof typeof TOOLS;

/** The tools of each role. */
const GRANTED: Readonly<Record<InitiativeRole, readonly InitiativeTool[]>> = {
  architect: ['initiative_read', 'initiative_create', 'decision_add', 'blocker_add', 'state_update', 'session_end'],
  worker: [
    ...(['initiative_read', 'task_next', 'task_start', 'task_progress', 'task_complete', 'decision_add'] as const),
    ...(['blocker_add', 'blocker_bypass', 'state_update', 'session_end'] as const),
  ],
  verifier: [
    'initiative_read',
    'decision_add',
    'blocker_add',
    'blocker_resolve',
    'state_update',
    'review',
    'session_end',
  ],
  orchestrator: [
    ...([
      'initiative_read',
      'blocker_add',
      'blocker_bypass',
      'blocker_resolve',
      'state_update',
      'session_end',
    ] as const),
  ],
};

/** Carries out the tools for one tool call. */
export type InitiativeCalls = {
  readonly [Name in InitiativeTool]: (
    input: z.output<(typeof TOOLS)[Name]['input']>,
    role?: InitiativeRole,
  ) => Promise<unknown>;
};

/** Whether agents of a role, a worker's unless given, work on tasks. */
export function takesTasks(role: InitiativeRole = 'worker'): boolean {
  return GRANTED[role].includes('task_next');
}

/** A `ToolDefinition` (agent/definition/define.ts, which imports this file). */
interface MadeTool {
  name: string;
  description: string;
  input: z.ZodObject;
  repeatable: true;
  execute(input: unknown, ctx: object): Promise<unknown>;
}

/** The tools that are made here. */
const made = new WeakSet<object>();
/** By the context of a tool call. */
const callsOf = new WeakMap<object, InitiativeCalls>();

/** Lets the tools of a call reach the initiative of its session. */
export function giveInitiative(ctx: object, calls: InitiativeCalls): void {
  callsOf.set(ctx, calls);
}

/** The id of the initiative that a session has joined, from its metadata; null: none. */
export function joinedInitiative(metadata: Readonly<Record<string, unknown>>): string | null {
  const { initiative_id: id } = metadata;
  return typeof id === 'string' && id !== '' ? id : null;
}

/** The tools of an agent with a role: its own, and those of the role. */
export function withInitiativeTools<Own extends object>(
  tools: readonly Own[],
  role: InitiativeRole,
): (Own | MadeTool)[] {
  return [...tools.filter((tool) => !made.has(tool)), ...GRANTED[role].map((name) => initiativeTool(name, role))];
}

function initiativeTool(name: InitiativeTool, role: InitiativeRole): MadeTool {
  const { description, input } = TOOLS[name];
  const tool: MadeTool = {
    name,
    description,
    input,
    // Commands have receipts by the id of the tool call.
    repeatable: true,
    execute: async (given, ctx) => {
      const calls = callsOf.get(ctx);
      if (calls === undefined) throw new Error('a session in memory has no initiative');
      return calls[name](given as never, role);
    },
  };
  made.add(tool);
  return tool;
}
