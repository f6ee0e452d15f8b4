import { changeStrings } from '../../domain/change-strings.ts';
import { byteLength } from '../../domain/text.ts';
import type { InitiativeResume } from '../../wire/initiative-views.ts';

/** Of each text where not all fits, in UTF-16 units. */
const MAX_TEXT = 500;
/** For the names of members. */
const SPARE = 1_000;
const NOTE =
  'The whole is longer than a tool may return: long texts are cut, and left_out says how many entries are missing.';

/**
 * What an agent reads of a resume, as JSON of at most so many bytes. If it is longer, what the agent needs first gets most of the room:
 * what has to be reviewed, issues, blockers, and uncompleted tasks; then the newest decisions and summaries, and the plan's text.
 */
export function resumeWithin(resume: InitiativeResume, maxBytes: number): object {
  if (bytesOf(resume) <= maxBytes) return resume;
  const { plan, summaries, decisions, blockers, review, last_session, ...head } = cut(resume);
  const { body: _, tasks, ...named } = plan;
  const last = last_session && { ...last_session, issues: [], completed: [] };
  let left = maxBytes - bytesOf({ ...head, named, last }) - SPARE;
  const left_out: Record<string, number> = {};
  /** The items that fit into a share of what is left. */
  const within = <T>(name: string, items: readonly T[], share: number): T[] => {
    let room = left * share;
    const fitting = items.filter((item) => {
      const bytes = bytesOf(item) + 1;
      if (bytes > room) return false;
      room -= bytes;
      left -= bytes;
      return true;
    });
    if (fitting.length < items.length) left_out[name] = items.length - fitting.length;
    return fitting;
  };
  const isDone = ({ status }: (typeof tasks)[number]) => status === 'completed';
  const shown = {
    review: review && within('review', review, 1 / 4),
    issues: last_session && within('issues', last_session.issues, 1 / 4),
    blockers: within('blockers', blockers, 1 / 3),
    tasks: within('tasks', [...tasks.filter((task) => !isDone(task)), ...tasks.filter(isDone)].map(inShort), 1 / 2),
    decisions: within('decisions', decisions.toReversed(), 1 / 2).toReversed(),
    summaries: within('summaries', summaries.toReversed(), 1 / 2).toReversed(),
    completed: last_session && within('completed', last_session.completed, 1 / 2),
  };
  return {
    ...head,
    ...{ note: NOTE, left_out, review: shown.review, blockers: shown.blockers },
    last_session: last && { ...last, issues: shown.issues, completed: shown.completed },
    plan: { ...named, tasks: shown.tasks, body: headWithin(resume.plan.body, left) },
    ...{ decisions: shown.decisions, summaries: shown.summaries },
  };
}

function inShort({ task_id, wave, name, status, assigned_to }: InitiativeResume['plan']['tasks'][number]) {
  return { task_id, wave, name, status, assigned_to };
}

function bytesOf(value: unknown): number {
  return byteLength(JSON.stringify(value));
}

/** With the beginnings of its long texts. */
function cut<T>(value: T): T {
  return JSON.parse(changeStrings(JSON.stringify(value), (text) => begin(text, MAX_TEXT))) as T;
}

function begin(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, Math.max(0, most)).toWellFormed()}…`;
}

/** The beginning of a text whose JSON has at most so many bytes. */
function headWithin(text: string, maxBytes: number): string {
  let head = begin(text, maxBytes);
  while (head.length > 1 && bytesOf(head) > maxBytes) head = begin(text, Math.floor(head.length / 2));
  return head;
}
