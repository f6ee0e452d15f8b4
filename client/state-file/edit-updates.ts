import { isDeepStrictEqual } from 'node:util';
import { newId } from '../../domain/ids.ts';
import type { InitiativeUpdate } from '../../store/initiatives.ts';
import { bypassBody, decisionBody, initiativeStateBody, resolveBody } from '../../wire/initiative-requests.ts';
import { type FieldError, InvalidInputError, parseInput } from '../../wire/input.ts';
import { lineField, type ParsedState, type Path, fieldPath } from './parse-state.ts';
import type { StateFile } from './state-file.ts';

/** An update that an edit of STATE.md asks for, and the line that does. */
export interface EditUpdate extends InitiativeUpdate {
  line: number;
}

type Blocker = StateFile['blockers'][number];

/** The fields of each update have the limits that its own route has. */
const BODIES = {
  add_decision: decisionBody,
  bypass_blocker: bypassBody,
  resolve_blocker: resolveBody,
  update_state: initiativeStateBody,
} as const;

/** An update without its ids. */
interface Change {
  command: keyof typeof BODIES;
  body: Readonly<Record<string, unknown>>;
}

/**
 * The updates that turn one STATE.md into an edited one.
 * @throws {InvalidInputError} naming each changed line that cannot be an update
 */
export function editUpdates(base: StateFile, { file, lineOf }: ParsedState): EditUpdate[] {
  const updates: EditUpdate[] = [];
  const faults: FieldError[] = [];
  const refuse = (path: Path, expected: string) => faults.push({ field: lineField(lineOf(path)), expected });
  /** @param place where the fields of the body are @param ids what the update has besides */
  const update = (at: Path, place: Path, { command, body }: Change, ids: object = {}) => {
    for (const { field, expected } of faultsOf({ command, body }))
      refuse([...place, ...fieldPath(field)], `${fieldAt(place, field)}: ${expected}`);
    updates.push({ line: lineOf(at), command, args: { ...ids, ...body } });
  };

  for (const name of ['initiative', 'title'] as const) {
    if (file[name] !== base[name]) refuse([name], `${name}: no change`);
  }
  for (const name of Object.keys(base.progress) as (keyof StateFile['progress'])[]) {
    if (file.progress[name] !== base.progress[name])
      refuse(['progress', name], `progress.${name}: no change: it is counted`);
  }
  changedSessions(base, file, refuse);
  for (const [n, decision] of newDecisions(base, file, refuse)) {
    const place = ['decisions', n];
    update(place, place, { command: 'add_decision', body: decision }, { decision_id: newId('dec') });
  }
  for (const [n, blocker] of file.blockers.entries()) {
    const before = base.blockers.find(({ id }) => id === blocker.id);
    const change = before === undefined ? undefined : blockerChange(before, blocker);
    if (before === undefined) refuse(['blockers', n], 'no new blocker: add it by its own route');
    else if (typeof change === 'string')
      refuse(['blockers', n, change], `blockers[${n}].${change}: ${blockerHint(change)}`);
    else if (change !== undefined) update(['blockers', n, 'status'], ['blockers', n], change, { id: blocker.id });
  }
  for (const { id } of base.blockers) {
    const times = file.blockers.filter((each) => each.id === id).length;
    if (times !== 1) refuse(['blockers'], `${id} once: a blocker is resolved by its status`);
  }
  stateUpdates(base, file, (name, body) => update([name], [], { command: 'update_state', body }));
  if (faults.length > 0) throw new InvalidInputError(faults);
  return updates.toSorted((one, two) => one.line - two.line);
}

type Refuse = (path: Path, expected: string) => void;

/** What is wrong with an update's fields. */
function faultsOf({ command, body }: Change): readonly FieldError[] {
  try {
    parseInput<unknown>(BODIES[command], body);
    return [];
  } catch (error) {
    if (error instanceof InvalidInputError) return error.errors;
    throw error;
  }
}

function fieldAt([list, n]: Path, field: string): string {
  return list === undefined ? field : `${list}[${n}].${field}`;
}

/** Whether entries of a list have the same values. Lists that are left out are empty. */
function isSame(one: object | undefined, other: object | undefined): boolean {
  return isDeepStrictEqual(one && withoutEmpty(one), other && withoutEmpty(other));
}

function withoutEmpty(entry: object): object {
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => !Array.isArray(value) || value.length > 0));
}

function changedSessions(base: StateFile, file: StateFile, refuse: Refuse): void {
  const length = Math.max(base.sessions.length, file.sessions.length);
  for (let n = 0; n < length; n += 1) {
    if (isSame(base.sessions[n], file.sessions[n])) continue;
    refuse(['sessions', n], `sessions[${n}]: no change: work sessions are recorded`);
    return;
  }
}

/** The decisions that were added. Those that were there must be, in their order. */
function newDecisions(base: StateFile, file: StateFile, refuse: Refuse): [number, StateFile['decisions'][number]][] {
  let known = 0;
  const added = [...file.decisions.entries()].filter(([, decision]) => {
    if (known >= base.decisions.length || !isSame(base.decisions[known], decision)) return true;
    known += 1;
    return false;
  });
  if (known === base.decisions.length) return added;
  refuse(['decisions', added[0]?.[0] ?? ''], `decisions[${known}]: no change: a decision is replaced by a new one`);
  return [];
}

const DAY = '2026-01-31'.length;

/** What a changed blocker asks for; the name of a member that may not change so; undefined: nothing changed. */
function blockerChange(before: Blocker, after: Blocker): Change | keyof Blocker | undefined {
  for (const name of ['description', 'affects', 'blocked_tasks', 'workaround_tasks'] as const) {
    if (!isDeepStrictEqual(before[name] ?? [], after[name] ?? [])) return name;
  }
  // `blocked_since` may be a day.
  if (![before.identified_at, before.identified_at.slice(0, DAY)].includes(after.identified_at)) return 'identified_at';
  const { status, workaround, resolution } = after;
  if (status === 'resolved') {
    if (resolution === null) return 'resolution';
    return workaround === before.workaround ? { command: 'resolve_blocker', body: { resolution } } : 'workaround';
  }
  if (resolution !== before.resolution) return 'resolution';
  if (status === before.status && workaround === before.workaround) return undefined;
  if (status !== 'bypassed') return 'status';
  return workaround === null ? 'workaround' : { command: 'bypass_blocker', body: { workaround } };
}

function blockerHint(name: keyof Blocker): string {
  if (name === 'status') return 'bypassed with a workaround, or resolved with a resolution';
  if (name === 'workaround') return 'a text with the status bypassed, else no change';
  if (name === 'resolution') return 'a text with the status resolved, else none';
  return 'no change';
}

function stateUpdates(
  base: StateFile,
  file: StateFile,
  update: (name: keyof StateFile, body: Change['body']) => void,
): void {
  if (!isDeepStrictEqual(base.position, file.position)) update('position', { position: movedTo(base, file) });
  for (const name of ['next_action', 'resume_context'] as const) {
    if (!isDeepStrictEqual(base[name], file[name])) update(name, { [name]: file[name] });
  }
}

/** The position that a file names, without what it still says of the old one. */
function movedTo(base: StateFile, file: StateFile): Partial<StateFile['position']> {
  const { phase, plan, task, ...rest } = file.position;
  const old: Record<string, unknown> = base.position;
  return {
    phase,
    plan,
    task,
    ...Object.fromEntries(Object.entries(rest).filter(([key, value]) => value !== old[key])),
  };
}
