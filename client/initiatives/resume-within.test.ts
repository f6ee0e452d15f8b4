import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { byteLength } from '../../domain/text.ts';
import type { InitiativeResume } from '../../wire/initiative-views.ts';
import { resumeWithin } from './resume-within.ts';

const LIMIT = 32 * 1024;

const task = (number: number, status: 'open' | 'completed', name = `Task ${number}.`) => ({
  ...{ task_id: `tsk_${number}`, phase: 1, plan: 1, wave: 1, number, name, status, assigned_to: null },
  ...{ assigned_at: null, last_progress_at: null, note: null, completed_at: null },
});
const decision = (n: number, text: string) => ({
  ...{
    decision_id: `dec_${n}`,
    kind: null,
    date: '2026-01-14',
    context: `Decision ${n}.`,
    decision: text,
    reason: text,
  },
  ...{ alternatives_considered: [], reversible: null },
});
const blocker = (id: string, text: string) => ({
  ...{ id, status: 'active' as const, description: text, identified_at: '2026-01-14T09:00:00Z', affects: [] },
  ...{ blocked_tasks: [], workaround: null, workaround_tasks: [], resolution: null, resolved_at: null },
});
const position = {
  ...{ phase: 1, phase_name: 'Site', plan: 1, plan_name: 'Pages', task_id: 'tsk_3', task: 'Task 3.', wave: 1 },
  status: 'open' as const,
};
const session: InitiativeResume['last_sessions'][number] = {
  ...{ id: 'session-001', agent: 'worker', session_id: null, status: 'ended', started: '2026-01-14T09:00:00Z' },
  ...{ ended: '2026-01-14T09:30:00Z', working_on: null, context_usage: null, completed: [], issues: [] },
  ...{ handoff_reason: null, notes: null },
};
const resume: InitiativeResume = {
  message: 'Resuming from Phase 1, Plan 1, Task: Task 3.',
  position,
  plan: {
    ...{ plan: 1, name: 'Pages', body: 'How it is done.', summary: null, status: 'active' },
    tasks: [task(1, 'completed'), task(2, 'completed'), task(3, 'open'), task(4, 'open')],
  },
  summaries: [{ plan: 0, name: 'Before', summary: '- done' }],
  decisions: [decision(1, 'green')],
  blockers: [blocker('block-001', 'no tea')],
  last_sessions: [],
  review: [{ kind: 'file', entry: 'gone.ts', problem: 'it does not exist' }],
};

/** What is read, and its length. */
function read(given: InitiativeResume, maxBytes = LIMIT) {
  const shown = resumeWithin(given, maxBytes) as InitiativeResume & { left_out?: Record<string, number> };
  return { shown, bytes: byteLength(JSON.stringify(shown)) };
}

describe('resumeWithin', () => {
  it('I7 returns what fits as it is', () => {
    expect(read(resume).shown).toBe(resume);
  });

  it.each([['a'], ['é'], ['\n'], ['x😀']])(
    'I7 a text of the plan and decisions of any length leave room for all else: %j',
    (char) => {
      const long = char.repeat(10_000);
      const decisions = Array.from({ length: 300 }, (_, n) => decision(n, long));
      const plan = { ...resume.plan, body: char.repeat(200_000) };
      const { shown, bytes } = read({ ...resume, decisions, plan });
      expect(bytes).toBeLessThanOrEqual(LIMIT);
      expect(bytes).toBeGreaterThan(LIMIT / 2);
      // Half of a character would be.
      expect(JSON.stringify(shown)).not.toMatch(/\\ud[89a-f]/);
      const { review, blockers } = shown;
      expect({ review, blockers }).toEqual({ review: resume.review, blockers: resume.blockers });
      expect(shown.plan.tasks.map(({ name, status }) => [name, status])).toEqual([
        ['Task 3.', 'open'],
        ['Task 4.', 'open'],
        ['Task 1.', 'completed'],
        ['Task 2.', 'completed'],
      ]);
      expect(shown.decisions.at(-1)?.context).toBe('Decision 299.');
      expect(shown.left_out).toEqual({ decisions: 300 - shown.decisions.length });
    },
  );

  it('I7 shows some of everything, and how much is missing, if there is too much of everything', () => {
    const many = <T>(make: (n: number) => T) => Array.from({ length: 1_000 }, (_, n) => make(n));
    const long = 'x'.repeat(10_000);
    const { shown, bytes } = read({
      ...resume,
      plan: { ...resume.plan, body: long, tasks: many((n) => task(n, n < 900 ? 'completed' : 'open', `${n} ${long}`)) },
      summaries: many((n) => ({ plan: n, name: long, summary: long })),
      decisions: many((n) => decision(n, long)),
      blockers: many((number) => ({
        ...blocker(`block-${number}`, long),
        affects: many((n) => `${n} texts`),
        blocked_tasks: many((n) => ({ task_id: `tsk_${n}`, name: 'a task' })),
      })),
      review: many((n) => ({ kind: 'file', entry: `${n}`, problem: long })),
      last_sessions: Array.from({ length: 5 }, () => {
        return {
          ...session,
          issues: many((n) => `${n} ${'x'.repeat(500)}`),
          completed: many(() => 'a task'),
          notes: long,
        };
      }),
    });
    expect(bytes).toBeLessThanOrEqual(LIMIT);
    for (const list of ['review', 'blockers', 'decisions', 'summaries'] as const) {
      expect(shown[list]!.length, list).toBeGreaterThan(0);
      expect(shown[list]!.length + shown.left_out![list]!, list).toBe(1_000);
    }
    expect(shown).toMatchObject({ note: expect.stringContaining('left_out') as string });
    const sizeOf = (value: unknown) => byteLength(JSON.stringify(value));
    for (const first of [shown.review, shown.blockers, shown.plan.tasks, shown.last_sessions])
      expect(sizeOf(first)).toBeGreaterThan(sizeOf(shown.decisions));
    expect(shown.decisions.at(-1)?.decision_id).toBe('dec_999');
    expect(shown.summaries.at(-1)?.plan).toBe(999);
    expect(shown.plan.tasks[0]).toMatchObject({ task_id: 'tsk_900', status: 'open' });
    expect(shown.blockers[0]?.id).toBe('block-0');
    expect(shown.blockers[0]?.blocked_tasks.length).toBeGreaterThan(0);
    const [last] = shown.last_sessions;
    expect(last?.issues[0]).toMatch(/^0 x+…$/);
    expect(last?.notes).toMatch(/^x+…$/);
  });

  it('I7 is never too long: a text of the plan that just fits, and thousands of short entries', () => {
    for (let length = LIMIT - 4_000; length < LIMIT; length += 50) {
      expect(read({ ...resume, plan: { ...resume.plan, body: 'a'.repeat(length) } }).bytes).toBeLessThanOrEqual(LIMIT);
    }
    const issues = Array.from({ length: 10_000 }, () => 'a');
    for (let length = LIMIT - 12_000; length < LIMIT - 4_000; length += 200) {
      const plan = { ...resume.plan, body: 'a'.repeat(length) };
      expect(read({ ...resume, plan, last_sessions: [{ ...session, issues }] }).bytes).toBeLessThanOrEqual(LIMIT);
    }
  });

  it('I7 cuts the lists of a blocker that is too long by itself', () => {
    const large = { ...blocker('block-001', 'no tea'), affects: Array.from({ length: 4_000 }, (_, n) => `Phase ${n}`) };
    const { shown } = read({ ...resume, blockers: [large, blocker('block-002', 'no water')] });
    expect(shown.blockers.map(({ id }) => id)).toEqual(['block-001', 'block-002']);
    expect(shown.blockers[0]?.affects).toEqual(['Phase 0', 'Phase 1', 'Phase 2', 'Phase 3', 'Phase 4']);
    expect(shown.left_out).toEqual({});
  });

  it.each([4_000, 8_192])('I7 fits into %d bytes, whatever is long', (limit) => {
    const long = '\u0001'.repeat(10_000);
    const { plan } = resume;
    const blocked_tasks = [{ task_id: newId('tsk'), name: 'a' }];
    const given = {
      ...{ ...resume, message: long, position: { ...position, task: long, phase_name: long, plan_name: long } },
      ...{ plan: { ...plan, name: long, body: long }, blockers: [{ ...blocker('block-001', long), blocked_tasks }] },
    };
    const { shown, bytes } = read(given, limit);
    expect(bytes).toBeLessThanOrEqual(limit);
    expect(shown.blockers[0]?.blocked_tasks).toEqual(blocked_tasks);
  });

  it('I7 gives nothing but where it goes on if a tool may return almost nothing', () => {
    expect(read(resume, 100).shown).toMatchObject({ message: resume.message, blockers: [] });
  });
});
