import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { packTar } from 'modern-tar';
import type { InitiativeView } from '../../wire/initiative-views.ts';
import { renderState, stateOf } from '../state-file/state-file.ts';
import { inline, lineOfName } from './text-files.ts';

/** A file of the export, its path below `.planning/`. */
export interface PlanningFile {
  path: string;
  text: string;
}

const compressed = promisify(gzip);
const MAX_SLUG = 50;

/** The export of an initiative as a gzipped tar file of the folder `.planning/`. The same initiative gives the same bytes. */
export async function planningArchive(view: InitiativeView): Promise<Buffer> {
  const mtime = new Date(view.initiative.updated_at);
  const entries = planningFiles(view).map(({ path, text }) => ({
    header: { name: `.planning/${path}`, mode: 0o644, mtime },
    body: text,
  }));
  return compressed(await packTar(entries.map((each) => withSize(each))));
}

function withSize<Entry extends { header: object; body: string }>({ header, body }: Entry) {
  const bytes = Buffer.from(body);
  return { header: { ...header, size: bytes.length } as Entry['header'] & { size: number }, body: bytes };
}

/** STATE.md, the plans, the summaries of completed ones, decisions, blockers and work sessions. */
export function planningFiles(view: InitiativeView): PlanningFile[] {
  const taken = new Set<string>();
  const named = (folder: string, name: string, text: string): PlanningFile => {
    let path = `${folder}/${name}.md`;
    for (let n = 2; taken.has(path); n += 1) path = `${folder}/${name}-${n}.md`;
    taken.add(path);
    return { path, text };
  };
  return [
    { path: 'STATE.md', text: renderState(stateOf(view)) },
    ...view.phases.flatMap(({ phase, name, plans }) => plans.flatMap((plan) => filesOf(phase, name, plan))),
    ...view.decisions.map((each) => named('decisions', `${each.date}-${slug(each.decision)}`, decisionText(each))),
    ...view.blockers.map((each) => named('blockers', `${each.id}-${slug(each.description)}`, blockerText(each))),
    ...view.sessions.map((each) => named('sessions', each.id, sessionText(each))),
  ];
}

type Plan = InitiativeView['phases'][number]['plans'][number];

function filesOf(phase: number, phaseName: string, { plan, name, body, summary, tasks }: Plan): PlanningFile[] {
  const text = document(`Phase ${phase}, Plan ${plan}: ${lineOfName(name)}`, [
    ['Phase', lineOfName(phaseName)],
    [
      'Tasks',
      tasks.map(
        ({ status, name: task, wave, task_id }) =>
          `[${status === 'completed' ? 'x' : ' '}] ${lineOfName(task)} (wave ${wave}, ${status}, ${task_id})`,
      ),
    ],
  ]);
  return [
    { path: `${phase}-${plan}-PLAN.md`, text: body === '' ? text : `${text}\n${body.trimEnd()}\n` },
    ...(summary === null ? [] : [{ path: `${phase}-${plan}-SUMMARY.md`, text: `# ${inline(name)}\n\n${summary}\n` }]),
  ];
}

function decisionText(decision: InitiativeView['decisions'][number]): string {
  const { date, kind, context, reason, alternatives_considered, reversible } = decision;
  return document(decision.decision, [
    ['Date', date],
    ['Kind', kind],
    ['Context', context],
    ['Reason', reason],
    ['Alternatives considered', alternatives_considered],
    ['Reversible', reversible === null ? null : reversible ? 'yes' : 'no'],
  ]);
}

function blockerText(blocker: InitiativeView['blockers'][number]): string {
  const names = (tasks: typeof blocker.blocked_tasks) => tasks.map(({ task_id, name }) => `${name} (${task_id})`);
  return document(blocker.description, [
    ['Id', blocker.id],
    ['Status', blocker.status],
    ['Identified at', blocker.identified_at],
    ['Affects', blocker.affects],
    ['Blocked tasks', names(blocker.blocked_tasks)],
    ['Workaround', blocker.workaround],
    ['Tasks of the workaround', names(blocker.workaround_tasks)],
    ['Resolution', blocker.resolution],
    ['Resolved at', blocker.resolved_at],
  ]);
}

function sessionText(session: InitiativeView['sessions'][number]): string {
  const { context_usage: usage } = session;
  return document(session.id, [
    ['Agent', session.agent],
    ['Status', session.status],
    ['Started', session.started],
    ['Ended', session.ended],
    ['Working on', session.working_on],
    ['Context usage', usage === null ? null : `${Math.round(usage * 100)}%`],
    ['Completed', session.completed],
    ['Issues', session.issues],
    ['Handoff reason', session.handoff_reason],
    ['Notes', session.notes],
  ]);
}

/** A heading, and what is known, one line each. */
function document(title: string, rows: readonly (readonly [string, string | readonly string[] | null])[]): string {
  const lines = rows.flatMap(([name, value]) => {
    if (value === null || value.length === 0) return [];
    if (typeof value === 'string') return [`- ${name}: ${inline(value)}`];
    return [`- ${name}:`, ...value.map((item) => `  - ${inline(item)}`)];
  });
  return `# ${inline(title)}\n\n${lines.join('\n')}\n`;
}

/** `OAuth credentials, please!` → `oauth-credentials-please`; a text without letters and digits of ASCII is `x`. */
function slug(text: string): string {
  const words = text.toLowerCase().match(/[a-z0-9]+/g) ?? ['x'];
  return words.join('-').slice(0, MAX_SLUG).replace(/-$/, '');
}
