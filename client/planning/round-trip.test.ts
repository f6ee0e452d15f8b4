// What is exported is imported again as it was, whatever its texts are.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import type { InitiativeView } from '../../wire/initiative-views.ts';
import { planningFiles } from './planning-files.ts';
import { readPlanning } from './planning-import.ts';
import { inline } from './text-files.ts';

const TIME = '2026-01-14T09:00:00Z';
const DAY = '2026-01-14';

const PIECES = ['a: b', '# c', '- d', '"e"', "'f'", ' ', '  ', '\n', '\t', '\r', '\u2028', '\u00A0', '\uFEFF'];
const ODD = [
  '🫖',
  'שלום',
  '|',
  '%',
  '(wave 2)',
  '(open)',
  '- [x] ',
  '[ ]',
  '\\',
  '\\n',
  'no',
  '1e3',
  'Phase 1, Plan 2: ',
];
const text = fc
  .oneof(
    fc.array(fc.constantFrom(...PIECES, ...ODD), { maxLength: 5 }).map((pieces) => pieces.join('')),
    fc.string({ unit: 'binary' }).map((odd) => odd.toWellFormed().replaceAll('\0', '')),
    fc.constantFrom('""', '"a"', '"a', 'null', '~', '---', '&a', '*a', 'a  b', ' a '),
  )
  .filter((each) => /\S/.test(each));
const texts = fc.array(text, { maxLength: 3 });
const maybe = fc.option(text);

const task = fc.record({ name: text, wave: fc.integer({ min: 1, max: 9 }), isBlocked: fc.boolean() });
const plan = fc.record({
  ...{ name: text, body: fc.oneof(text, fc.constant('')), note: text },
  tasks: fc.uniqueArray(task, { minLength: 1, maxLength: 3, selector: ({ name }) => name }),
});
const phase = fc.record({ name: text, plans: fc.array(plan, { minLength: 1, maxLength: 2 }) });
const decision = fc.record({
  ...{ decision_id: fc.constant('dec_1'), date: fc.constant(DAY), context: text, decision: text, reason: text },
  ...{ kind: fc.constantFrom(null, 'trade-off' as const), alternatives_considered: texts },
  reversible: fc.constantFrom(null, true, false),
});
const blocker = fc.record({ description: text, affects: texts, workaround: maybe, resolution: maybe });
const session = fc.record({
  ...{ agent: text, working_on: maybe, completed: texts, issues: texts, handoff_reason: maybe, notes: maybe },
  context_usage: fc.constantFrom(null, 0, 0.62, 1),
});

/** An initiative whose first tasks are completed; of the others, the first blocker names those that are blocked. */
const initiative: fc.Arbitrary<InitiativeView> = fc
  .record({
    ...{ title: text.filter(({ length }) => length <= 200), next_action: fc.oneof(text, fc.constant('')) },
    ...{ phases: fc.array(phase, { minLength: 1, maxLength: 2 }), done: fc.nat(6), key: texts, questions: texts },
    ...{ decisions: fc.array(decision, { maxLength: 3 }), blockers: fc.array(blocker, { maxLength: 3 }) },
    sessions: fc.array(session, { maxLength: 2 }),
  })
  .map((given) => {
    let count = 0;
    const phases = given.phases.map(({ name, plans }, p) => ({
      ...{ phase: p + 1, name, status: 'active' as const },
      plans: plans.map(({ name: called, body, note, tasks }, l) => {
        const numbered = tasks.map(({ name: each, wave, isBlocked }, n) => {
          count += 1;
          const open = isBlocked && given.blockers.length > 0 ? ('blocked' as const) : ('open' as const);
          const status = count <= given.done ? ('completed' as const) : open;
          return {
            ...{ task_id: `tsk_${count}`, phase: p + 1, plan: l + 1, wave, number: n + 1, name: each, status },
            ...{ assigned_to: null, assigned_at: null, last_progress_at: null, note: null, completed_at: null },
          };
        });
        const isDone = numbered.every(({ status }) => status === 'completed');
        const status = isDone ? ('completed' as const) : ('active' as const);
        return { plan: l + 1, name: called, body, summary: isDone ? note : null, status, tasks: numbered };
      }),
    }));
    const all = phases.flatMap(({ plans }) => plans.flatMap(({ tasks }) => tasks));
    const blocked = all.filter(({ status }) => status === 'blocked').map(({ task_id, name }) => ({ task_id, name }));
    const at = all.find(({ status }) => status !== 'completed') ?? all.at(-1)!;
    const now = phases[at.phase - 1]!;
    return {
      initiative: {
        ...{ initiative_id: 'ini_1', user_id: 'ada', title: given.title, status: 'active', project_id: null },
        ...{ next_action: given.next_action, workspace_root: null, review: null, version: 1 },
        resume_context: {
          files_modified_this_session: ['a b.ts'],
          ...{ key_implementations: given.key, open_questions: given.questions },
        },
        ...{ created_at: TIME, updated_at: TIME },
      },
      state: {
        position: {
          ...{ phase: at.phase, phase_name: now.name, plan: at.plan, plan_name: now.plans[at.plan - 1]!.name },
          ...{ task_id: at.task_id, task: at.name, wave: at.wave, status: at.status },
        },
        progress: { phases_total: 1, phases_completed: 0, current_phase_tasks: 1, current_phase_completed: 0 },
        updated_at: TIME,
      },
      phases,
      decisions: given.decisions,
      blockers: given.blockers.map(({ description, affects, workaround, resolution }, n) => ({
        ...{ id: `block-00${n + 1}`, description, identified_at: TIME, affects, workaround_tasks: [] },
        ...(n > 0 && resolution !== null
          ? { status: 'resolved' as const, workaround, resolution, resolved_at: TIME }
          : { status: 'active' as const, workaround: null, resolution: null, resolved_at: null }),
        blocked_tasks: n === 0 ? blocked : [],
      })),
      sessions: given.sessions.map((each, n) => ({
        ...{ id: `session-00${n + 1}`, session_id: null, status: 'ended' as const, started: TIME, ended: TIME },
        ...each,
      })),
    };
  });

interface Imported {
  phases: { name: string; plans: { name: string; body: string; tasks: { task_id: string; name: string }[] }[] }[];
  completed: string[];
  position: string;
  summaries: { summary: string }[];
  decisions: { decision_id?: string }[];
  blockers: { blocked_tasks: string[] }[];
}

/** What a value says, without what an import leaves out, or makes anew. */
const said = (value: object, ...made: string[]) =>
  Object.fromEntries(
    Object.entries(value).filter(
      ([key, each]) => each !== null && (each as unknown[]).length !== 0 && !made.includes(key),
    ),
  );
const at = new Date(TIME).toISOString();
const lf = (body: string) => body.replaceAll('\r\n', '\n');

it('I2 what is exported is imported as it was, whatever its texts are', () => {
  fc.assert(
    fc.property(initiative, (view) => {
      const files = planningFiles(view).map(({ path, text: each }) => ({ path, bytes: Buffer.from(each) }));
      const { input, report } = readPlanning(files);
      expect(report.not_read.filter((path) => !path.startsWith('sessions/'))).toEqual([]);
      const { initiative: row, state, phases, decisions, blockers, sessions } = view;
      const tasks = phases.flatMap(({ plans }) => plans.flatMap((each) => each.tasks));
      const read = input as Imported;
      const names = new Map(
        read.phases.flatMap(({ plans }) => plans.flatMap((each) => each.tasks.map((one) => [one.task_id, one.name]))),
      );
      expect(input).toMatchObject({
        ...{ title: row.title, next_action: row.next_action, resume_context: row.resume_context },
        phases: phases.map(({ name, plans }) => ({
          name,
          plans: plans.map(({ name: called, body, tasks: own }) => ({
            ...{ name: called, body: lf(body).trimEnd() },
            tasks: own.map(({ name: each, wave }) => ({ name: each, wave })),
          })),
        })),
        summaries: phases.flatMap(({ plans }) =>
          plans.flatMap(({ summary }) => (summary === null ? [] : [{ summary: lf(`${summary}\n`).slice(0, -1) }])),
        ),
        sessions: sessions.map((each) => said(each, 'started', 'ended')),
      });
      expect(names.get(read.position)).toBe(state.position.task);
      expect(read.completed.map((id) => names.get(id))).toEqual(
        tasks.filter(({ status }) => status === 'completed').map(({ name }) => name),
      );
      expect(read.decisions.map((each) => said(each, 'decision_id'))).toEqual(
        decisions.map((each) => said(each, 'decision_id')),
      );
      expect(read.blockers.map((each) => each.blocked_tasks.map((id) => names.get(id)))).toEqual([
        ...blockers
          .filter(({ status }) => status !== 'resolved')
          .map((each) => each.blocked_tasks.map(({ name }) => name)),
        ...blockers.filter(({ status }) => status === 'resolved').map(() => []),
      ]);
      const one = (value: string | null) => (value === null ? null : inline(value));
      const inFile = (each: (typeof blockers)[number]) => ({
        ...{ id: each.id, status: each.status, affects: each.affects.map((of) => one(of)), identified_at: at },
        ...{ description: one(each.description), workaround: one(each.workaround), resolution: one(each.resolution) },
        resolved_at: at,
      });
      expect(read.blockers).toMatchObject([
        ...blockers
          .filter(({ status }) => status !== 'resolved')
          .map(({ id, status, description, affects }) => ({ id, status, description, affects, identified_at: at })),
        ...blockers.filter(({ status }) => status === 'resolved').map((each) => inFile(each)),
      ]);
    }),
    cases(300),
  );
});
