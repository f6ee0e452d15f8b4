import { newId } from '../../domain/ids.ts';
import { MAX_TASKS } from '../../wire/initiative-requests.ts';
import type { PlanningReport } from '../../wire/initiative-views.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { fileFaults } from '../state-file/file-faults.ts';
import { parseStateAs, fieldPath, type ParsedState } from '../state-file/parse-state.ts';
import { decisionKey, decisionOfFile, type ImportedDecision } from './decision-of-file.ts';
import { type ImportedBlocker, type ImportedSession, type ImportedState, importedState } from './imported-state.ts';
import { planOf, type PlanFile, summaryText } from './plan-file.ts';
import { resolvedBlockerOf, type ResolvedBlocker } from './resolved-blocker.ts';
import { Faults, inline, isRead, type RawFile, type TextFile, textsOf } from './text-files.ts';

const STATE = 'STATE.md';
const MOST_LINES = 1_000;

/** What an import stores, as the SQL function import_initiative takes it; and what was read. */
export interface PlanningImport {
  input: object;
  report: PlanningReport;
}

/** A task with its id in this installation. */
type Task = PlanFile['tasks'][number] & { task_id: string };
type Plan = Omit<PlanFile, 'tasks'> & { tasks: Task[]; summary: string | undefined };

/**
 * Reads the files of `.planning/`.
 * @throws {InvalidInputError} naming every line that could not be read
 */
export function readPlanning(files: readonly RawFile[], faults = new Faults()): PlanningImport {
  const texts = textsOf(files, faults);
  const plans = plansOf(texts, faults);
  const state = stateOf(texts.get(STATE), faults);
  // What follows compares files with each other.
  faults.refuse();
  if (state === undefined) throw new Error('a missing STATE.md is a fault');
  const phases = phasesOf(plans, state, faults);
  const tasks = new TaskNames(plans);
  const position = positionOf(plans, state, faults);
  const blockers = blockersOf(texts, state, tasks, faults);
  const sessions = sessionsOf(state, faults);
  const { title, next_action, resume_context } = state.file;
  const decisions = decisionsOf(texts, state.file.decisions, faults);
  for (const { field, expected } of fileFaults(resume_context.files_modified_this_session)) {
    faults.add(STATE, state.lineOf(fieldPath(field)), `${field}: ${expected}`);
  }
  faults.refuse();
  const all = plans.flatMap((plan) => plan.tasks);
  const input = {
    ...{ title, next_action, resume_context, phases, position: position?.task_id, blockers, sessions },
    decisions: decisions.map((each) => ({ ...each, decision_id: newId('dec') })),
    completed: all.filter(({ isCompleted }) => isCompleted).map(({ task_id }) => task_id),
    summaries: plans.flatMap(({ phase, plan, summary }) => (summary === undefined ? [] : [{ phase, plan, summary }])),
  };
  const report = {
    ...{ title, phases: phases.length, plans: plans.length, tasks: all.length, completed: input.completed.length },
    ...{ decisions: decisions.length, blockers: blockers.length, sessions: sessions.length },
    not_read: files.map(({ path }) => path).filter((path) => !isRead(path)),
  };
  return { input, report };
}

function stateOf(file: TextFile | undefined, faults: Faults): ParsedState<ImportedState> | undefined {
  if (file === undefined) {
    faults.add(STATE, undefined, 'this file in the folder .planning/');
    return undefined;
  }
  try {
    return parseStateAs(importedState, file.text, MOST_LINES);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    for (const { field, expected } of error.errors) faults.add(STATE, Number(field.replace('line ', '')), expected);
    return undefined;
  }
}

const PLAN = /^(?<phase>\d+)-(?<plan>\d+)-(?<kind>PLAN|SUMMARY)\.md$/;

/** The plans in their order, each with the text of its summary. */
function plansOf(texts: ReadonlyMap<string, TextFile>, faults: Faults): Plan[] {
  const plans = new Map<string, Plan>();
  let count = 0;
  for (const file of texts.values()) {
    const { phase, plan, kind } = PLAN.exec(file.path)?.groups ?? {};
    if (kind !== 'PLAN') continue;
    const read = planOf(file, { phase: Number(phase), plan: Number(plan) }, faults);
    count += read.tasks.length;
    if (count > MAX_TASKS) {
      faults.add(file.path, undefined, `at most ${MAX_TASKS} tasks in all plans`);
      break;
    }
    const key = `${Number(phase)}-${Number(plan)}`;
    if (plans.has(key)) faults.add(file.path, undefined, `no other file of phase ${phase}, plan ${plan}`);
    const tasks = read.tasks.map((task) => ({ ...task, task_id: newId('tsk') }));
    plans.set(key, { ...read, tasks, summary: undefined });
  }
  for (const file of texts.values()) {
    const { phase, plan, kind } = PLAN.exec(file.path)?.groups ?? {};
    if (kind !== 'SUMMARY') continue;
    const of = plans.get(`${Number(phase)}-${Number(plan)}`);
    if (of === undefined) faults.add(file.path, undefined, `${phase}-${plan}-PLAN.md besides it`);
    else if (of.tasks.some(({ isCompleted }) => !isCompleted))
      faults.add(file.path, undefined, 'a plan of completed tasks');
    else of.summary = summaryText(file);
  }
  if (plans.size === 0) faults.add('1-1-PLAN.md', undefined, 'at least one plan');
  return [...plans.values()].toSorted((a, b) => a.phase - b.phase || a.plan - b.plan);
}

/** The phases as a creation takes them. Phases and plans must be numbered from 1. */
function phasesOf(plans: readonly Plan[], { file }: ParsedState<ImportedState>, faults: Faults) {
  const { position } = file;
  const groups = [...Map.groupBy(plans, ({ phase }) => phase)];
  return groups.map(([phase, own], n) => {
    const first = own[0]?.path ?? '';
    if (phase !== n + 1) faults.add(first, undefined, `a plan of phase ${n + 1} before it: phases are numbered from 1`);
    const name = own.find(({ phaseName }) => phaseName !== undefined)?.phaseName;
    for (const [at, plan] of own.entries()) {
      if (plan.plan !== at + 1) faults.add(plan.path, undefined, `plan ${at + 1} before it: plans are numbered from 1`);
      if (plan.phaseName !== undefined && plan.phaseName !== name) {
        faults.add(plan.path, plan.phaseLine, `"${name}", the name of this phase in ${first}`);
      }
    }
    return {
      name: name ?? (position.phase === phase ? position.phase_name : undefined) ?? `Phase ${phase}`,
      plans: own.map(({ name: plan, body, tasks }) => ({
        ...{ name: plan, body },
        tasks: tasks.map(({ name: task, wave, task_id }) => ({ name: task, wave, task_id })),
      })),
    };
  });
}

/** The task at which it goes on; undefined: a fault. */
function positionOf(
  plans: readonly Plan[],
  { file, lineOf }: ParsedState<ImportedState>,
  faults: Faults,
): Task | undefined {
  const { phase, plan, task, wave } = file.position;
  const of = plans.find((each) => each.phase === phase && each.plan === plan);
  const called = (wanted: string) => of?.tasks.find(({ name }) => name === wanted);
  const found = called(task) ?? called(inline(task));
  const refuse = (key: string, expected: string) =>
    faults.add(STATE, lineOf(['position', key]), `position.${key}: ${expected}`);
  if (of === undefined) refuse('plan', `a plan with a file ${phase}-${plan}-PLAN.md`);
  else if (found === undefined) refuse('task', `the name of a task of ${of.path}`);
  else if (wave !== undefined && wave !== found.wave) refuse('wave', `${found.wave}, the wave of this task`);
  // Once all are completed, the position stays at one of them.
  else if (found.isCompleted && plans.some(({ tasks }) => tasks.some(({ isCompleted }) => !isCompleted)))
    refuse('task', 'a task that is not completed');
  return found;
}

/** Finds tasks that blockers name: by the id that the export gave them, else by name. */
class TaskNames {
  private readonly byId = new Map<string, Task>();
  private readonly byName = new Map<string, Task[]>();
  readonly all: readonly { path: string; task: Task }[];

  constructor(plans: readonly Plan[]) {
    this.all = plans.flatMap(({ path, tasks }) => tasks.map((task) => ({ path, task })));
    for (const { task } of this.all) {
      if (task.oldId !== undefined) this.byId.set(task.oldId, task);
      this.byName.set(task.name, [...(this.byName.get(task.name) ?? []), task]);
    }
  }

  /** A task, or what was expected. */
  find({ id, name }: { id?: string | undefined; name: string }): Task | string {
    const known = id === undefined ? undefined : this.byId.get(id);
    if (known !== undefined) return known;
    const [found, other] = this.byName.get(name) ?? [];
    if (found === undefined) return `"${name}" in one of the plans`;
    return other === undefined ? found : `"${name}" in one plan only, or with its id in the plan's file`;
  }
}

/** Decisions of STATE.md, and those that only a file of their own has. */
function decisionsOf(texts: ReadonlyMap<string, TextFile>, inState: readonly ImportedDecision[], faults: Faults) {
  const known = new Set(inState.map((each) => decisionKey(each)));
  const files = [...texts.values()].filter(({ path }) => path.startsWith('decisions/'));
  const added = files
    .toSorted((one, two) => (one.path < two.path ? -1 : 1))
    .map((file) => decisionOfFile(file, known, faults));
  return [...inState, ...added.filter((each) => each !== undefined)];
}

/** Blockers of STATE.md, and resolved ones of their own files; and which tasks they block. */
function blockersOf(
  texts: ReadonlyMap<string, TextFile>,
  { file, lineOf }: ParsedState<ImportedState>,
  tasks: TaskNames,
  faults: Faults,
) {
  const inState = new Set<string>();
  const blocked = new Set<Task>();
  const current = file.blockers.map((each, n) => {
    const refuse = (key: string, expected: string) =>
      faults.add(STATE, lineOf(['blockers', n, key]), `blockers[${n}].${key}: ${expected}`);
    if (inState.has(each.id)) refuse('id', 'another one: it occurs before');
    inState.add(each.id);
    const status = statusOf(each);
    if (status === 'bypassed' && !each.workaround) refuse('workaround', 'a text: it is bypassed');
    if (status === 'resolved' && !each.resolution) refuse('resolution', 'a text: it is resolved');
    const named = (key: 'blocked_tasks' | 'workaround_tasks') =>
      (each[key] ?? []).flatMap((wanted) => {
        const found = tasks.find(wanted);
        if (typeof found !== 'string') return [found];
        refuse(key, found);
        return [];
      });
    const [stopped, added] = [named('blocked_tasks'), named('workaround_tasks')];
    if (status === 'active') {
      for (const task of stopped) {
        if (task.isCompleted) refuse('blocked_tasks', `tasks that are not completed, as "${task.name}" is`);
        blocked.add(task);
      }
    }
    const { id, description, identified_at, affects = [], workaround = null, resolution = null } = each;
    const ids = (of: readonly Task[]) => new Set(of.map(({ task_id }) => task_id));
    const links = {
      blocked_tasks: [...ids(stopped)],
      workaround_tasks: [...ids(added).difference(ids(stopped))],
    };
    return { id, status, description, identified_at, affects, workaround, resolution, resolved_at: null, ...links };
  });
  for (const { path, task } of tasks.all) {
    if (task.isBlocked && !blocked.has(task)) {
      faults.add(path, task.line, 'an active blocker in STATE.md that names this blocked task');
    }
  }
  const resolved = new Map<string, ResolvedBlocker>();
  for (const each of texts.values()) {
    const one = each.path.startsWith('blockers/') ? resolvedBlockerOf(each, inState, faults) : undefined;
    // Without an id it is a fault already.
    if (one === undefined || one.id === '') continue;
    if (resolved.has(one.id)) faults.add(each.path, undefined, `an id that no other file has, not "${one.id}"`);
    resolved.set(one.id, one);
  }
  return [...current, ...resolved.values()];
}

function statusOf({ status, workaround, resolution }: ImportedBlocker): NonNullable<ImportedBlocker['status']> {
  return status ?? (resolution ? 'resolved' : workaround ? 'bypassed' : 'active');
}

function sessionsOf({ file, lineOf }: ParsedState<ImportedState>, faults: Faults) {
  const known = new Set<string>();
  return file.sessions.map((each, n) => {
    if (known.has(each.id)) {
      faults.add(STATE, lineOf(['sessions', n, 'id']), `sessions[${n}].id: another one: it occurs before`);
    }
    known.add(each.id);
    return importedSession(each);
  });
}

/** Nobody works here for those that are active elsewhere. */
function importedSession({ agent = 'unknown', status, context_usage: usage, ...rest }: ImportedSession) {
  const now = status ?? (rest.ended === undefined ? 'active' : 'ended');
  return {
    ...rest,
    agent,
    status: now === 'active' ? 'ended' : now,
    ...(now === 'active' && { handoff_reason: rest.handoff_reason ?? 'The initiative was imported' }),
    context_usage: usage === undefined ? null : Number(usage.slice(0, -1)) / 100,
  };
}
