import { readFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { cases } from '../../tools/test-kit/cases.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { editUpdates } from './edit-updates.ts';
import { parseState } from './parse-state.ts';
import { renderState, stateFile, type StateFile } from './state-file.ts';

const GOLDEN = path.join(import.meta.dirname, 'state-example.txt');

/** An initiative in mid-work, with every kind of entry. */
const EXAMPLE: StateFile = {
  initiative: 'ini_000000000001example0000000',
  title: 'Bookings for the tea room',
  position: {
    phase: 2,
    phase_name: 'Payments',
    plan: 1,
    plan_name: 'Card payments',
    task: 'Take a deposit when a table is booked',
    wave: 1,
    status: 'in_progress',
  },
  progress: {
    phases_total: 4,
    phases_completed: 1,
    current_phase_tasks: 8,
    current_phase_completed: 5,
    bar: '██████░░░░░░░░░░ 40%',
  },
  decisions: [
    {
      date: '2026-02-03',
      kind: 'technology',
      context: 'Where tables are kept',
      decision: 'Postgres: one row per seat',
      reason: 'Two guests must never get the same seat',
      alternatives_considered: ['A spreadsheet: has no locks'],
      reversible: false,
    },
    { date: '2026-02-04', context: 'Deposit', decision: '5 €', reason: 'The owner asked for it' },
  ],
  blockers: [
    {
      id: 'block-001',
      status: 'active',
      description: 'No contract with the card provider yet',
      identified_at: '2026-02-04T10:00:00Z',
      affects: ['Phase 3: Opening'],
      blocked_tasks: [{ tsk_000000000002example0000000: 'Charge real cards' }],
      workaround: null,
      resolution: null,
    },
    {
      id: 'block-002',
      status: 'bypassed',
      description: 'The logo is not drawn',
      identified_at: '2026-02-03T09:00:00Z',
      affects: [],
      workaround: 'The name in plain letters',
      workaround_tasks: [{ tsk_000000000003example0000000: 'Put the logo in' }],
      resolution: null,
    },
  ],
  sessions: [
    {
      id: 'session-001',
      agent: 'worker',
      started: '2026-02-03T09:00:00Z',
      ended: '2026-02-03T12:30:00Z',
      status: 'ended',
      context_usage: '62%',
      completed: ['Phase 1, Plan 1: Tables'],
      issues: ['More than half of the context was used'],
      handoff_reason: 'Context limit',
    },
    { id: 'session-002', agent: 'worker', started: '2026-02-04T09:00:00Z', status: 'active', completed: [] },
  ],
  next_action: 'Finish the deposit.\nThen check Phase 2.\n',
  resume_context: {
    files_modified_this_session: ['src/deposit.ts'],
    key_implementations: ['A seat is locked until it is paid'],
    open_questions: [],
  },
};

const text = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'binary' }).map((odd) => odd.toWellFormed()),
  fc
    .array(
      fc.constantFrom(
        'a: b',
        '# c',
        '- d',
        '"e"',
        "'f'",
        ' ',
        '  g ',
        '\n',
        '\t',
        '🫖',
        'שלום',
        '|',
        '>',
        '%',
        '\r',
        '\u2028',
      ),
    )
    .map((pieces) => pieces.join('')),
  fc.constantFrom(
    'no',
    'yes',
    'null',
    '~',
    '1e3',
    '0x1f',
    '012',
    '.inf',
    '2026-01-01',
    'true',
    '',
    '---',
    '...',
    '&a',
    '*a',
    '!t',
  ),
);
const texts = fc.array(text, { maxLength: 3 });
const day = fc.date({ min: new Date('2000-01-01'), max: new Date('2100-01-01'), noInvalidDate: true });
const randomState = fc
  .record({
    initiative: fc.constant('ini_x'),
    title: text,
    position: fc.record({
      ...{ phase: fc.nat(99), phase_name: text, plan: fc.nat(99), plan_name: text, task: text, wave: fc.nat(9) },
      status: fc.constantFrom('open' as const, 'escalated' as const),
    }),
    progress: fc.constant(EXAMPLE.progress),
    decisions: fc.array(
      fc.record(
        {
          ...{ context: text, decision: text, reason: text, alternatives_considered: texts, reversible: fc.boolean() },
          date: day.map((at) => at.toISOString().slice(0, 10)),
        },
        { requiredKeys: ['date', 'context', 'decision', 'reason'] },
      ),
      { maxLength: 3 },
    ),
    blockers: fc.uniqueArray(
      fc.record({
        id: fc.constantFrom('block-001', 'block-002'),
        status: fc.constantFrom('active' as const, 'bypassed' as const),
        ...{ description: text, affects: texts, workaround: fc.option(text), resolution: fc.constant(null) },
        identified_at: day.map((at) => `${at.toISOString().slice(0, 19)}Z`),
        blocked_tasks: fc.array(
          text.map((name) => ({ tsk_1: name })),
          { maxLength: 2 },
        ),
      }),
      { maxLength: 2, selector: ({ id }) => id },
    ),
    sessions: fc.array(
      fc.record(
        {
          ...{ id: fc.constant('session-001'), agent: text, started: fc.constant('2026-01-01T00:00:00Z') },
          ...{ status: fc.constant('active' as const), working_on: text, completed: texts, issues: texts, notes: text },
        },
        { requiredKeys: ['id', 'agent', 'started', 'status', 'completed'] },
      ),
      { maxLength: 2 },
    ),
    next_action: text,
    resume_context: fc.record({
      files_modified_this_session: texts,
      key_implementations: texts,
      open_questions: texts,
    }),
    // In the file's order; fast-check makes objects without a prototype, too.
  })
  .map((state) => stateFile.parse(JSON.parse(JSON.stringify(state))));

/** The updates of an edit of the example, without lines and ids. */
function edited(change: (rendered: string) => string): { command: string; args: unknown }[] {
  return editUpdates(EXAMPLE, parseState(change(renderState(EXAMPLE)))).map(({ command, args }) => {
    const { decision_id: _, ...rest } = args;
    return { command, args: rest };
  });
}

function faultsOf(change: (rendered: string) => string): readonly { field: string; expected: string }[] {
  try {
    edited(change);
  } catch (error) {
    if (error instanceof InvalidInputError) return error.errors;
    throw error;
  }
  return [];
}

/** The line of the example that holds a text; from 1. */
const lineOf = (part: string) =>
  `line ${
    renderState(EXAMPLE)
      .split('\n')
      .findIndex((line) => line.includes(part)) + 1
  }`;

describe('STATE.md', () => {
  it('I2 an example has the eight headings and the structure of the format', async () => {
    const rendered = renderState(EXAMPLE);
    await expect(rendered).toMatchFileSnapshot(GOLDEN);
    expect([...rendered.matchAll(/^# (.*)$/gm)].map(([, heading]) => heading)).toEqual([
      'STATE.md',
      'Current Position',
      'Progress Tracking',
      'Decisions Made',
      'Active Blockers',
      'Session History',
      'Next Action',
      'Context for Resume',
    ]);
    expect(parse(await readFile(GOLDEN, 'utf8'))).toEqual(EXAMPLE);
  });

  it('I2 render → parse → render is the identity, whatever the texts are', () => {
    fc.assert(
      fc.property(randomState, (state) => {
        const rendered = renderState(state);
        const { file } = parseState(rendered);
        expect(file).toEqual(state);
        expect(renderState(file)).toBe(rendered);
        expect(editUpdates(state, { file, lineOf: () => 1 })).toEqual([]);
        // As readers with the older rules of YAML see it: dates aside, every text is a text.
        expect(parse(rendered, { version: '1.1' })).toMatchObject({
          title: state.title,
          next_action: state.next_action,
        });
      }),
      cases(300),
    );
  });

  it('I2 comments, quoting and the spelling of identified_at do not matter', () => {
    expect(
      edited((rendered) =>
        rendered
          .replace('title: "Bookings for the tea room"', "title: 'Bookings for the tea room' # ours")
          .replace('decision: "5 €"', 'decision: 5 €')
          .replace('identified_at: 2026-02-04T10:00:00Z', 'blocked_since: 2026-02-04'),
      ),
    ).toEqual([]);
  });

  it('I2 lists that the file leaves out may be there, empty', () => {
    expect(
      edited((rendered) =>
        rendered
          .replace('decision: "5 €"', 'decision: "5 €"\n    alternatives_considered: []')
          .replace('affects: []', 'affects: []\n    blocked_tasks: []')
          .replace(/status: active\n {4}completed: \[\]/, 'status: active\n    completed: []\n    issues: []'),
      ),
    ).toEqual([]);
  });

  it('I2 an edit becomes updates, in the order of its lines', () => {
    const updates = edited((rendered) =>
      rendered
        .replace('Take a deposit when a table is booked', 'Print a receipt')
        .replace('# Active Blockers', '  - context: Paper\n    decision: 1e3\n    reason: no\n\n# Active Blockers')
        .replace('status: active', 'status: resolved')
        .replace('resolution: null', 'resolution: signed')
        .replace('The name in plain letters', 'A photograph')
        .replace('Finish the deposit.', 'Rest.')
        .replace('open_questions: []', 'open_questions: [why?]'),
    );
    expect(updates).toEqual([
      {
        command: 'update_state',
        args: { position: { phase: 2, plan: 1, task: 'Print a receipt' } },
      },
      { command: 'add_decision', args: { context: 'Paper', decision: '1e3', reason: 'no' } },
      { command: 'resolve_blocker', args: { id: 'block-001', resolution: 'signed' } },
      { command: 'bypass_blocker', args: { id: 'block-002', workaround: 'A photograph' } },
      { command: 'update_state', args: { next_action: 'Rest.\nThen check Phase 2.\n' } },
      { command: 'update_state', args: { resume_context: { ...EXAMPLE.resume_context, open_questions: ['why?'] } } },
    ]);
  });

  it.each([
    ['a generated line', 'phases_total: 4', 'phases_total: 5', 'progress.phases_total'],
    ['the bar', '░ 40%', '░ 41%', 'progress.bar'],
    ['the title', 'Bookings for', 'No bookings for', 'title'],
    ['a decision', 'one row per seat', 'one row per table', 'decisions[0]'],
    ['a work session', 'agent: "worker"', 'agent: "me"', 'sessions[0]'],
    ['a blocker’s text', 'No contract with', 'A contract with', 'blockers[0].description'],
    ['the time of a blocker', 'at: 2026-02-04T10:00:00Z', 'at: 2026', 'blockers[0].identified_at'],
    ['the time of a blocker', 'at: 2026-02-04T10:00:00Z', 'at: ""', 'blockers[0].identified_at'],
    ['a workaround without its status', 'workaround: null', 'workaround: a way', 'blockers[0].status'],
    ['a number that is none', 'phase: 2', 'phase: two', 'position.phase'],
    ['a key that there is not', 'wave: 1', 'wave: 1\n  mood: good', 'position.mood'],
    ['a status that there is not', 'status: in_progress', 'status: lost', 'position.status'],
  ])('I2 an edit of %s is refused with its line', (_what, from, to, field) => {
    const [fault, ...rest] = faultsOf((rendered) => rendered.replace(from, to));
    expect(rest).toEqual([]);
    expect(fault?.expected).toContain(field);
    const line = Number(lineOf(from).slice(5));
    // An entry of a list is named by its first line; the status of a blocker by its own.
    const near = { 'decisions[0]': 3, 'sessions[0]': 1, 'blockers[0].status': 7, 'position.mood': -1 }[field] ?? 0;
    expect(fault?.field).toBe(`line ${line - near}`);
  });

  it.each([
    ['Phase 1, Plan 1: Tables', 'Phase 2', 'sessions[0]'],
    ['has no locks', 'has locks', 'decisions[0]'],
    ['Phase 3: Opening', 'Phase 4', 'blockers[0].affects'],
  ])('I2 an edit of a list is refused: %s', (from, to, field) => {
    const faults = faultsOf((rendered) => rendered.replace(from, to));
    expect(faults).toMatchObject([{ expected: expect.stringContaining(field) as string }]);
  });

  const long = (most: number) => 'x'.repeat(most + 1);
  const decision = (words: string) => `  - context: Paper\n    decision: ${words}\n    reason: no\n\n# Active Blockers`;
  it.each([
    ['a decision', '# Active Blockers', decision(long(10_000)), 'decisions[2].decision: at most 10000 characters'],
    ['an empty decision', '# Active Blockers', decision('""'), 'decisions[2].decision: a text'],
    ['a workaround', 'The name in plain letters', long(10_000), 'blockers[1].workaround: at most 10000 characters'],
    ['the next action', 'Finish the deposit.', long(10_000), 'next_action: at most 10000 characters'],
    [
      'a list',
      'open_questions: []',
      `open_questions: [${'a, '.repeat(1_000)}a]`,
      'resume_context.open_questions: at most 1000',
    ],
    ['a number', 'phase: 2', 'phase: 0', 'position.phase: a whole number of at least 1'],
    ['the task', 'Take a deposit when a table is booked', long(500), 'position.task: at most 500 characters'],
  ])('I2 the limits of the routes hold for an edit of %s', (_what, from, to, expected) => {
    const faults = faultsOf((rendered) => rendered.replace(from, to));
    expect(faults).toEqual([
      { field: expect.stringMatching(/^line \d+$/), expected: expect.stringContaining(expected) },
    ]);
  });

  it('I2 no YAML, other YAML, and anchors are refused with the line', () => {
    expect(faultsOf((rendered) => rendered.replace('plan: 1', 'plan: [1'))[0]?.field).toMatch(/^line \d+$/);
    expect(faultsOf(() => '- a list\n')[0]).toMatchObject({ field: 'line 1' });
    expect(faultsOf(() => '')[0]).toMatchObject({ field: 'line 1' });
    expect(faultsOf((rendered) => rendered.replace('plan: 1', 'plan: &a 1'))[0]).toMatchObject({
      field: lineOf('plan: 1'),
    });
    expect(faultsOf(() => '['.repeat(200_000))[0]?.field).toMatch(/^line \d+$/);
    expect(
      faultsOf((rendered) => rendered.replace(/ {2}- id: block-001[^]*?(?= {2}- id: block-002)/, ''))[0],
    ).toMatchObject({
      field: lineOf('blockers:'),
      expected: expect.stringContaining('block-001') as string,
    });
  });
});
