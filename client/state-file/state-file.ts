import { Document, type Node, Pair, Scalar, type ScalarTag, type Tags, YAMLMap, YAMLSeq } from 'yaml';
import { z } from 'zod';
import { DECISION_KINDS, POSITION_STATUSES, statusesOf } from '../../domain/initiatives/machines.ts';
import { progressBar } from '../../domain/initiatives/progress.ts';
import type { InitiativeView } from '../../wire/initiative-views.ts';

const text = z.string('a text');
const texts = z.array(text, 'a list of texts');
const date = z.iso.date('a date such as 2026-01-31');
const whole = z.union([z.int(), z.string().regex(/^\d{1,9}$/, 'a whole number')], 'a whole number').transform(Number);
const taskNames = z.array(z.record(z.string(), text), 'a list of tasks, each as id: name');

const fileDecision = z.strictObject({
  date: date.optional(),
  kind: z.enum(DECISION_KINDS).optional(),
  context: text,
  decision: text,
  reason: text,
  alternatives_considered: texts.optional(),
  reversible: z
    .union([z.boolean(), z.enum(['true', 'false'])], 'true or false')
    .transform((value) => String(value) === 'true')
    .optional(),
});

const fileBlocker = z.strictObject({
  id: text,
  status: z.enum(statusesOf('blocker')),
  description: text,
  identified_at: text,
  affects: texts,
  blocked_tasks: taskNames.optional(),
  workaround: text.nullable(),
  workaround_tasks: taskNames.optional(),
  resolution: text.nullable(),
});

const fileSession = z.strictObject({
  id: text,
  agent: text,
  session_id: text.optional(),
  started: text,
  ended: text.optional(),
  status: z.enum(statusesOf('work_session')),
  working_on: text.optional(),
  context_usage: z
    .string()
    .regex(/^\d{1,3}%$/, 'a percentage such as "62%"')
    .optional(),
  completed: texts,
  issues: texts.optional(),
  handoff_reason: text.optional(),
  notes: text.optional(),
});

/** What STATE.md holds, in its order. */
export const stateFile = z.strictObject({
  initiative: text,
  title: text,
  position: z.strictObject({
    phase: whole,
    phase_name: text,
    plan: whole,
    plan_name: text,
    task: text,
    wave: whole,
    status: z.enum(POSITION_STATUSES),
  }),
  progress: z.strictObject({
    phases_total: whole,
    phases_completed: whole,
    current_phase_tasks: whole,
    current_phase_completed: whole,
    bar: text,
  }),
  decisions: z.array(fileDecision, 'a list of decisions'),
  blockers: z.array(fileBlocker, 'a list of blockers'),
  sessions: z.array(fileSession, 'a list of work sessions'),
  next_action: text,
  resume_context: z.strictObject({
    files_modified_this_session: texts,
    key_implementations: texts,
    open_questions: texts,
  }),
});
export type StateFile = z.output<typeof stateFile>;

/** The comments before the keys, which read as headings. */
const HEADINGS: Readonly<Record<string, string>> = {
  initiative: 'STATE.md',
  position: 'Current Position',
  progress: 'Progress Tracking',
  decisions: 'Decisions Made',
  blockers: 'Active Blockers',
  sessions: 'Session History',
  next_action: 'Next Action',
  resume_context: 'Context for Resume',
};

/** What STATE.md shows of an initiative: of its blockers those that are not resolved. */
export function stateOf({ initiative, state, decisions, blockers, sessions }: InitiativeView): StateFile {
  const { task_id: _, ...position } = state.position;
  return {
    initiative: initiative.initiative_id,
    title: initiative.title,
    position,
    progress: { ...state.progress, bar: progressBar(state.progress) },
    decisions: decisions.map(({ date: day, kind, context, decision, reason, alternatives_considered, reversible }) => ({
      date: day,
      ...(kind !== null && { kind }),
      ...{ context, decision, reason },
      ...(alternatives_considered.length > 0 && { alternatives_considered }),
      ...(reversible !== null && { reversible }),
    })),
    blockers: blockers.filter(({ status }) => status !== 'resolved').map((each) => blockerOf(each)),
    sessions: sessions.map((each) => sessionOf(each)),
    next_action: initiative.next_action,
    resume_context: initiative.resume_context,
  };
}

function blockerOf(blocker: InitiativeView['blockers'][number]): StateFile['blockers'][number] {
  const named = (tasks: typeof blocker.blocked_tasks) => tasks.map(({ task_id, name }) => ({ [task_id]: name }));
  const { id, status, description, identified_at, affects, workaround, resolution } = blocker;
  return {
    ...{ id, status, description, identified_at, affects },
    ...(blocker.blocked_tasks.length > 0 && { blocked_tasks: named(blocker.blocked_tasks) }),
    workaround,
    ...(blocker.workaround_tasks.length > 0 && { workaround_tasks: named(blocker.workaround_tasks) }),
    resolution,
  };
}

function sessionOf(session: InitiativeView['sessions'][number]): StateFile['sessions'][number] {
  const { id, agent, session_id, started, ended, status, working_on, completed, issues, handoff_reason, notes } =
    session;
  const usage = session.context_usage;
  return {
    ...{ id, agent },
    ...(session_id !== null && { session_id }),
    started,
    ...(ended !== null && { ended }),
    status,
    ...(working_on !== null && { working_on }),
    ...(usage !== null && { context_usage: `${Math.round(usage * 100)}%` }),
    completed,
    ...(issues.length > 0 && { issues }),
    ...(handoff_reason !== null && { handoff_reason }),
    ...(notes !== null && { notes }),
  };
}

/** Ids, dates, statuses and numbers, which no reader of YAML mistakes. */
const PLAIN_KEYS = new Set([
  'initiative',
  'id',
  'session_id',
  'status',
  'date',
  'kind',
  'identified_at',
  'started',
  'ended',
]);
/** Control characters and separators, and white space at the beginning or at the end of a line, which a block may not keep. */
const NOT_IN_BLOCK = /[^\n\P{C}]|\p{Zl}|\p{Zp}|^\s|[ \t]\n|[ \t]$/u;

/** Renders STATE.md: YAML with a comment before each section. Every other text is quoted, or a block if it has several lines. */
export function renderState(file: StateFile): string {
  const doc = new Document(null, { customTags: (tags) => tags.map((tag) => (isTextTag(tag) ? quicker(tag) : tag)) });
  const contents = mapOf(file);
  for (const { key } of contents.items) {
    const heading = HEADINGS[key.value];
    if (heading === undefined) continue;
    key.commentBefore = ` ${heading}`;
    key.spaceBefore = key.value !== 'initiative';
  }
  // Without directives, of which there are none, the nodes are not searched for tags. Quoted as in JSON, a text is not looked at
  // character by character.
  return Object.assign(doc, { contents }).toString({ directives: false, lineWidth: 0, doubleQuotedAsJSON: true });
}

function isTextTag(tag: Tags[number]): tag is ScalarTag {
  return typeof tag === 'object' && tag.tag === 'tag:yaml.org,2002:str';
}

/** The library's tag of texts, which copies the context of each: not for quoted texts, and once for each key. */
function quicker(tag: ScalarTag): ScalarTag {
  const keys = new Map<unknown, string>();
  return {
    ...tag,
    stringify: (item, context, ...callbacks) => {
      if (item.type === Scalar.QUOTE_DOUBLE) return JSON.stringify(item.value);
      const known = context.implicitKey === true ? keys.get(item.value) : undefined;
      if (known !== undefined) return known;
      const written = tag.stringify?.(item, context, ...callbacks) ?? '';
      if (context.implicitKey === true) keys.set(item.value, written);
      return written;
    },
  };
}

function mapOf(value: object): YAMLMap<Scalar<string>, Node> {
  const map = new YAMLMap<Scalar<string>, Node>();
  for (const [name, each] of Object.entries(value)) {
    if (each !== undefined) map.items.push(new Pair(new Scalar(name), nodeOf(each, name)));
  }
  return map;
}

function nodeOf(value: unknown, key?: string): Node {
  if (Array.isArray(value)) {
    const list = new YAMLSeq<Node>();
    for (const each of value) list.items.push(nodeOf(each));
    return list;
  }
  if (typeof value === 'object' && value !== null) return mapOf(value);
  const scalar = new Scalar(value);
  if (typeof value === 'string' && (key === undefined || !PLAIN_KEYS.has(key))) {
    const isBlock = value.includes('\n') && !NOT_IN_BLOCK.test(value);
    scalar.type = isBlock ? Scalar.BLOCK_LITERAL : Scalar.QUOTE_DOUBLE;
  }
  return scalar;
}
