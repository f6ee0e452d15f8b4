import { byteLength } from '../../domain/text.ts';
import type { InitiativeResume } from '../../wire/initiative-views.ts';

/** Of a text, where not all fits, in bytes of its JSON. */
const MAX_TEXT = 600;
const MIN_TEXT = 60;
/** Of a list in an entry. */
const MAX_ITEMS = 5;
/** For the names of members, and the note. */
const SPARE = 1_000;
const NOTE =
  'The whole is longer than a tool may return: long texts and the lists in entries are cut, and left_out says how many entries are missing.';

/**
 * What an agent reads of a resume, as JSON of at most so many bytes. If it is longer, what the agent needs first gets most of the room:
 * what has to be reviewed, blockers, work sessions that have ended, and uncompleted tasks; then the newest decisions and summaries, and
 * the plan's text.
 */
export function resumeWithin(resume: InitiativeResume, maxBytes: number): object {
  if (bytesOf(resume) <= maxBytes) return resume;
  const { plan, summaries, decisions, blockers, last_sessions, review, ...rest } = resume;
  const { body, tasks, ...named } = plan;
  // Of small limits also what is always there has its share.
  const most = Math.min(MAX_TEXT, Math.max(MIN_TEXT, Math.floor(maxBytes / 50)));
  const head = cutIn({ ...rest, named }, most) as typeof rest & { named: typeof named };
  let left = maxBytes - bytesOf(head) - SPARE;
  const left_out: Record<string, number> = {};
  /** The items that fit into a share of what is left. */
  const within = <T>(name: string, items: readonly T[], share: number): T[] => {
    let room = left * share;
    const fitting = items
      .map((item) => cutIn(item, most) as T)
      .filter((item) => {
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
    blockers: within('blockers', blockers, 1 / 3),
    last_sessions: within('last_sessions', last_sessions, 1 / 4),
    tasks: within('tasks', [...tasks.filter((task) => !isDone(task)), ...tasks.filter(isDone)].map(inShort), 1 / 2),
    decisions: within('decisions', decisions.toReversed(), 1 / 2).toReversed(),
    summaries: within('summaries', summaries.toReversed(), 1 / 2).toReversed(),
  };
  const { named: place, ...start } = head;
  const { tasks: shownTasks, ...others } = shown;
  return {
    ...start,
    note: NOTE,
    left_out,
    plan: { ...place, tasks: shownTasks, body: beginning(body, left) },
    ...others,
  };
}

function inShort({ task_id, wave, name, status, assigned_to }: InitiativeResume['plan']['tasks'][number]) {
  return { task_id, wave, name, status, assigned_to };
}

function bytesOf(value: unknown): number {
  return byteLength(JSON.stringify(value));
}

/** With the beginnings of its long texts, and the first items of its lists. */
function cutIn(value: unknown, maxBytes: number): unknown {
  if (typeof value === 'string') return beginning(value, maxBytes);
  if (Array.isArray(value))
    return value.slice(0, MAX_ITEMS).map((item) => cutIn(item, Math.max(MIN_TEXT, maxBytes / 3)));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, cutIn(each, maxBytes)]));
}

/** The beginning of a text whose JSON has at most so many bytes. */
function beginning(text: string, maxBytes: number): string {
  let length = Math.max(0, maxBytes);
  const begin = () => (text.length <= length ? text : `${text.slice(0, length).toWellFormed()}…`);
  let head = begin();
  while (head.length > 1 && bytesOf(head) > maxBytes) {
    length = Math.floor(Math.min(length, head.length) / 2);
    head = begin();
  }
  return head;
}
