import { statusesOf } from '../../domain/initiatives/machines.ts';
import { MAX_BODY, name as nameSchema } from '../../wire/initiative-requests.ts';
import { type Faults, nameOfLine, type TextFile } from './text-files.ts';

/** A task as a plan's file lists it. */
export interface PlannedTask {
  /** In the installation that has exported it. */
  oldId: string | undefined;
  name: string;
  wave: number;
  isCompleted: boolean;
  isBlocked: boolean;
  line: number;
}

/** A plan as its file says. */
export interface PlanFile {
  path: string;
  phase: number;
  plan: number;
  name: string;
  /** Undefined: the file does not name its phase. */
  phaseName: string | undefined;
  phaseLine: number;
  body: string;
  tasks: PlannedTask[];
}

const BOX = /^\s*[-*+] \[(?<box>[ xX])\] (?<rest>.*\S)\s*$/;
/** `(wave 1, completed, tsk_1)`, each of them optional. */
const DETAIL = /^(?<name>.*\S) \((?<details>[^()]+)\)$/;
/** That of the export. */
const TITLE = /^Phase \d+, Plan \d+: (?<name>.+)$/;
const STATUSES: readonly string[] = statusesOf('task');

/**
 * Reads a plan: a heading, rows of the export with the phase and the tasks, then the body. Of a file without those rows the tasks are
 * all lines with a box, and the body is all that follows the heading.
 */
export function planOf({ path, lines }: TextFile, place: { phase: number; plan: number }, faults: Faults): PlanFile {
  const heading = headingOf(lines);
  const exported = TITLE.exec(heading.text)?.groups?.['name'];
  const title = exported === undefined ? heading.text : nameOfLine(exported);
  if (title === '') faults.add(path, heading.line, 'a heading with the name of the plan, such as "# Pages"');
  const rows = rowsOf(lines, heading.line);
  const from = rows ? rows.from : heading.line;
  const to = rows ? rows.to : lines.length;
  const phaseLine = rows
    ? lines.findIndex((line, n) => n >= rows.from && n < rows.to && line.startsWith('- Phase: '))
    : -1;
  const tasks: PlannedTask[] = [];
  for (const [n, line] of lines.entries()) {
    if (n < from || n >= to) continue;
    const task = taskOf(line, n + 1);
    if (typeof task === 'object') tasks.push(task);
    else if (task !== undefined) faults.add(path, n + 1, task);
    else if (rows && n !== phaseLine && line !== '- Tasks:')
      faults.add(path, n + 1, 'a task, such as "  - [ ] Draw (wave 1)"');
  }
  const bodyFrom = rows ? to : from;
  const body = bodyOf(lines.slice(bodyFrom));
  if (tasks.length === 0) faults.add(path, undefined, 'at least one task, such as "- [ ] Draw"');
  if (body.length > MAX_BODY) faults.add(path, bodyFrom + 1, `at most ${MAX_BODY} characters of text`);
  const fault = title === '' ? undefined : nameFault(title);
  if (fault !== undefined) faults.add(path, heading.line, fault);
  repeated(path, tasks, faults);
  const phaseText = lines[phaseLine]?.slice('- Phase: '.length).trim();
  const phaseName = phaseText === undefined ? undefined : nameOfLine(phaseText);
  const phaseFault = phaseName === undefined ? undefined : nameFault(phaseName);
  if (phaseFault !== undefined) faults.add(path, phaseLine + 1, phaseFault);
  return { path, ...place, name: title, phaseName, phaseLine: phaseLine + 1, body, tasks };
}

/** What a summary says below its heading. */
export function summaryText({ lines }: TextFile): string {
  const heading = headingOf(lines);
  return bodyOf(lines.slice(heading.text === '' ? 0 : heading.line));
}

/** The first heading, if nothing but blank lines is before it; its line is 1 if there is none. */
function headingOf(lines: readonly string[]): { text: string; line: number } {
  const at = lines.findIndex((line) => line.trim() !== '');
  // The lookahead keeps a line of nothing but spaces from being tried once for each of them.
  const text = /^# +(?=\S)(?<text>.*\S)\s*$/.exec(lines[at] ?? '')?.groups?.['text'];
  return text === undefined ? { text: '', line: 1 } : { text, line: at + 1 };
}

/** The rows of the export after a heading, up to a blank line; undefined: there are none with tasks. */
function rowsOf(lines: readonly string[], heading: number): { from: number; to: number } | undefined {
  const from = lines[heading] === '' ? heading + 1 : heading;
  const end = lines.indexOf('', from);
  const to = end < 0 ? lines.length : end;
  return lines.slice(from, to).includes('- Tasks:') ? { from, to } : undefined;
}

/** Without the blank line before it and the end of its last line. */
function bodyOf(lines: readonly string[]): string {
  const text = lines.slice(lines[0] === '' ? 1 : 0).join('\n');
  return text.endsWith('\n') ? text.slice(0, -1) : text;
}

/** The task of a line, or what is wrong with it; undefined: it has no box. */
function taskOf(line: string, number: number): PlannedTask | string | undefined {
  const { box, rest } = BOX.exec(line)?.groups ?? {};
  if (box === undefined || rest === undefined) return undefined;
  const checked = box !== ' ';
  const { name: called = '', details: text = '' } = DETAIL.exec(rest)?.groups ?? {};
  const details = detailsOf(text);
  const { status = checked ? 'completed' : 'open', wave = 1, oldId } = details ?? {};
  const name = details === undefined ? rest : oldId === undefined ? called : nameOfLine(called);
  if ((status === 'completed') !== checked) return `a box that is checked if the task is completed, not "${status}"`;
  const fault = nameFault(name);
  if (fault !== undefined) return fault;
  return { oldId, name, wave, isCompleted: checked, isBlocked: status === 'blocked', line: number };
}

/** What the brackets after a task's name say; undefined: they belong to the name. */
function detailsOf(text: string): { wave?: number; status?: string; oldId?: string } | undefined {
  const found: { wave?: number; status?: string; oldId?: string } = {};
  for (const detail of text.split(', ')) {
    const wave = /^wave (?<wave>[1-9]\d{0,5})$/.exec(detail)?.groups?.['wave'];
    if (wave !== undefined) found.wave = Number(wave);
    else if (STATUSES.includes(detail)) found.status = detail;
    else if (/^tsk_\w{1,60}$/.test(detail)) found.oldId = detail;
    else return undefined;
  }
  return found;
}

function nameFault(name: string): string | undefined {
  const { error } = nameSchema.safeParse(name);
  return error?.issues[0]?.message;
}

function repeated(path: string, tasks: readonly PlannedTask[], faults: Faults): void {
  const names = new Set<string>();
  for (const { name, line } of tasks) {
    if (names.has(name)) faults.add(path, line, 'tasks with different names in one plan');
    names.add(name);
  }
}
