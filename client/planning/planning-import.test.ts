import { gzipSync } from 'node:zlib';
import { packTar, type TarEntry } from 'modern-tar';
import { expect, it } from 'vitest';
import { InvalidInputError } from '../../wire/input.ts';
import { filesOfArchive } from './files-of-archive.ts';
import { readPlanning } from './planning-import.ts';
import { Faults, type RawFile } from './text-files.ts';

const STATE = `# STATE.md
initiative: init-tea
title: A tea room
# Current Position
position:
  phase: 1
  phase_name: "Rooms"
  plan: 1
  task: "Paint the walls"
  wave: 1
  status: in_progress
progress:
  phases_total: 4
  bar: "████░░░░░░░░░░░░ 25%"
decisions:
  - date: 2025-03-01
    context: "Walls"
    decision: "lime paint"
    reason: "It breathes"
blockers:
  - id: block-001
    description: "The carpenter is ill"
    blocked_since: 2025-03-02
    affects: ["Phase 2"]
sessions:
  - id: session-001
    started: 2025-03-01T08:00:00Z
    ended: 2025-03-01T12:00:00Z
    completed: ["Clear the room"]
  - id: session-002
    started: 2025-03-02T08:00:00Z
    status: active
    working_on: "Paint"
next_action: |
  Paint.
resume_context:
  files_modified_this_session:
    - notes/walls.md
  open_questions: []
`;
const PLAN = '# Walls\n\nLime first.\n\n- [x] Clear the room\n- [ ] Paint the walls\n';

const RESOLVED =
  '# Rain\n\n- Id: block-009\n- Status: resolved\n- Identified at: 2025-03-04T09:00:00Z\n- Resolution: sun\n';

const raw = (files: Record<string, string>): RawFile[] =>
  Object.entries(files).map(([path, text]) => ({ path, bytes: Buffer.from(text) }));
const folder = (more: Record<string, string> = {}) => raw({ 'STATE.md': STATE, '1-1-PLAN.md': PLAN, ...more });

function faultsOf(files: RawFile[]): string[] {
  try {
    readPlanning(files);
  } catch (error) {
    if (error instanceof InvalidInputError) return error.errors.map(({ field, expected }) => `${field}: ${expected}`);
    throw error;
  }
  return [];
}

it('I2 a folder that was written by hand is read', () => {
  const { input, report } = readPlanning(folder({ 'ROADMAP.md': 'later' }));
  expect(report).toEqual({
    ...{ title: 'A tea room', phases: 1, plans: 1, tasks: 2, completed: 1, decisions: 1, blockers: 1, sessions: 2 },
    not_read: ['ROADMAP.md'],
  });
  expect(input).toMatchObject({
    title: 'A tea room',
    next_action: 'Paint.\n',
    resume_context: { files_modified_this_session: ['notes/walls.md'], key_implementations: [], open_questions: [] },
    phases: [
      {
        name: 'Rooms',
        plans: [
          {
            name: 'Walls',
            body: 'Lime first.\n\n- [x] Clear the room\n- [ ] Paint the walls',
            tasks: [{ name: 'Clear the room', wave: 1 }, { name: 'Paint the walls' }],
          },
        ],
      },
    ],
    decisions: [{ date: '2025-03-01', decision: 'lime paint' }],
    blockers: [{ id: 'block-001', status: 'active', identified_at: '2025-03-02T00:00:00.000Z' }],
    sessions: [
      { id: 'session-001', status: 'ended', agent: 'unknown' },
      { id: 'session-002', status: 'ended', handoff_reason: 'The initiative was imported' },
    ],
  });
});

it('I2 names that were written by hand are taken as they are, and the position finds its task whatever its white space', () => {
  const plan = '# "Walls"\n\n- [ ] Paint the walls\n- [ ] "Clear the room" (wave 2)\n- [ ] "Sweep"\n';
  const state = STATE.replace('task: "Paint the walls"', 'task: "Paint  the\\n walls"');
  const { input } = readPlanning(folder({ 'STATE.md': state, '1-1-PLAN.md': plan }));
  const tasks = [{ name: 'Paint the walls' }, { name: '"Clear the room"', wave: 2 }, { name: '"Sweep"' }];
  expect(input).toMatchObject({ phases: [{ plans: [{ name: '"Walls"', tasks }] }] });
});

it('I2 what has grown longer at work than one request may be is read', () => {
  const list = (many: number) => JSON.stringify(Array(many).fill('x'));
  const notes = `Resuming from session-001 crash\n${'x'.repeat(10_000)}`;
  const grown = `status: ended\n    issues: ${list(1_001)}\n    completed: ${list(2_000)}\n    notes: ${JSON.stringify(notes)}`;
  const blockers = Array.from(
    { length: 1_001 },
    (_, n) => `  - { id: block-${n + 100}, description: x, identified_at: 2025-03-02 }\n`,
  );
  const state = STATE.replace('status: active', grown).replace('sessions:\n', `${blockers.join('')}sessions:\n`);
  const { input, report } = readPlanning(folder({ 'STATE.md': state }));
  expect(report.blockers).toBe(1_002);
  expect((input as { sessions: object[] }).sessions[1]).toMatchObject({ notes });
});

const JWT =
  '# jose\n\n- Context: JWT library\n- Reason: types\n- Alternatives considered:\n  - none\n- Reversible: no\n';

it('I2 a decision that only has a file of its own is read', () => {
  const files = {
    'decisions/2025-03-02-jwt-library.md': JWT,
    'decisions/2025-03-01-lime-paint.md':
      '# lime paint\n\n- Date: 2025-03-01\n- Context: Walls\n- Reason: It breathes\n',
    'decisions/2025-02-01-lime-paint.md':
      '# lime paint\n\n- Date: 2025-03-03\n- Kind: trade-off\n- Context: Walls\n- Reason: It is cheap\n',
  };
  const { input, report } = readPlanning(folder(files));
  expect(report).toMatchObject({ decisions: 3, not_read: [] });
  expect((input as { decisions: object[] }).decisions).toMatchObject([
    { decision: 'lime paint' },
    { date: '2025-03-03', kind: 'trade-off', decision: 'lime paint', reason: 'It is cheap' },
    {
      ...{ date: '2025-03-02', context: 'JWT library', decision: 'jose', reason: 'types' },
      ...{ alternatives_considered: ['none'], reversible: false },
    },
  ]);
});

it('I2 Windows line ends and a byte order mark do not matter', () => {
  const files = raw({
    'STATE.md': `\uFEFF${STATE.replaceAll('\n', '\r\n')}`,
    '1-1-PLAN.md': PLAN.replaceAll('\n', '\r\n'),
  });
  expect(readPlanning(files).report.tasks).toBe(2);
});

const lineOf = (text: string) => `STATE.md line ${STATE.slice(0, STATE.indexOf(text)).split('\n').length}`;

it('I2 every line that cannot be read is named, with its file, and all at once', () => {
  const bad = STATE.replace('  wave: 1', '  wave: first')
    .replace('date: 2025-03-01', 'date: soon')
    .replace('session-002', 'two');
  const plan =
    '# Walls\n\n- Phase: Rooms\n- Tasks:\n  - [x] Clear the room (wave 1, open)\n  - Paint\n  - [ ] Paint the walls\n';
  expect(faultsOf(folder({ 'STATE.md': bad, '1-1-PLAN.md': plan }))).toEqual([
    expect.stringMatching(/^1-1-PLAN\.md line 5: a box that is checked/),
    expect.stringMatching(/^1-1-PLAN\.md line 6: a task, such as/),
    expect.stringMatching(new RegExp(`^${lineOf('  wave: 1')}: position\\.wave: a whole number`)),
    expect.stringMatching(new RegExp(`^${lineOf('- date')}: decisions\\[0\\]\\.date: a date`)),
    expect.stringMatching(new RegExp(`^${lineOf('- id: session-002')}: sessions\\[1\\]\\.id: an id`)),
  ]);
});

it('I2 what the files say of each other must agree', () => {
  const edited = (from: string, to: string, more = {}) =>
    faultsOf(folder({ 'STATE.md': STATE.replace(from, to), ...more }));
  const cases: [string[], RegExp][] = [
    [edited('"Paint the walls"', '"Dance"'), /^STATE\.md line 9: position\.task: the name of a task of 1-1-PLAN\.md/],
    [edited('"Paint the walls"', '"Clear the room"'), /position\.task: a task that is not completed/],
    [edited('plan: 1', 'plan: 7'), /^STATE\.md line 8: position\.plan: a plan with a file 1-7-PLAN\.md/],
    [edited('wave: 1', 'wave: 2'), /position\.wave: 1, the wave of this task/],
    [edited('session-002', 'session-001'), /sessions\[1\]\.id: another one/],
    [edited('session-002', 'session-0001'), /sessions\[1\]\.id: an id such as session-001/],
    [edited('block-001', 'block-0001'), /blockers\[0\]\.id: an id such as block-001/],
    [edited('blocked_since: 2025', 'blocked_since: 0000'), /blockers\[0\]\.identified_at: a time such as/],
    [edited('plan: 1', 'plan: 1\n  plan: 1'), /^STATE\.md line 9: YAML \(Map keys must be unique\)/],
    [
      edited('affects: ["Phase 2"]', 'affects: []\n    blocked_tasks: ["Sing"]'),
      /blocked_tasks: "Sing" in one of the plans/,
    ],
    [
      edited('affects: ["Phase 2"]', 'affects: []\n    blocked_tasks: ["Clear the room"]'),
      /tasks that are not completed/,
    ],
    [edited('affects: ["Phase 2"]', 'affects: []\n    status: resolved'), /resolution: a text/],
    [edited('notes/walls.md', '../../etc/passwd'), /a path below the workspace/],
    [edited('', '', { '3-1-PLAN.md': PLAN }), /^3-1-PLAN\.md: a plan of phase 2 before it/],
    [edited('', '', { '1-3-PLAN.md': PLAN }), /^1-3-PLAN\.md: plan 2 before it/],
    [edited('', '', { '1-1-SUMMARY.md': 'done' }), /^1-1-SUMMARY\.md: a plan of completed tasks/],
    [edited('', '', { '2-1-SUMMARY.md': 'done' }), /^2-1-SUMMARY\.md: 2-1-PLAN\.md besides it/],
    [edited('', '', { '01-1-PLAN.md': PLAN }), /^01-1-PLAN\.md: no other file of phase/],
    [
      edited('', '', { '1-1-PLAN.md': `${PLAN}- [ ] Paint the walls\n` }),
      /^1-1-PLAN\.md line 7: tasks with different names/,
    ],
    [edited('', '', { '1-1-PLAN.md': '# Walls\n\nNothing.\n' }), /^1-1-PLAN\.md: at least one task/],
    [edited('', '', { '1-1-PLAN.md': '- [ ] Paint the walls\n' }), /^1-1-PLAN\.md line 1: a heading/],
    [
      edited('', '', { '1-1-PLAN.md': '# Walls\n- [ ] Paint the walls (wave 1, blocked)\n' }),
      /^1-1-PLAN\.md line 2: an active blocker/,
    ],
    [
      edited('', '', { 'blockers/x.md': '# Ill\n\n- Id: block-009\n- Status: active\nwhat?\n' }),
      /^blockers\/x\.md line 5: "- Name: value"/,
    ],
    [
      edited('', '', { 'blockers/x.md': '# Ill\n\n- Id: block-009\n- Status: active\n' }),
      /^blockers\/x\.md line 4: Status: resolved, or/,
    ],
    [
      edited('status: active', `status: active\n    issues: ${JSON.stringify(Array(10_001).fill('x'))}`),
      /sessions\[\d\]\.issues: .*at most 10,?000/,
    ],
    [
      edited('', '', { 'blockers/x.md': RESOLVED.replace('2025-03-04', '2025-13-04') }),
      /^blockers\/x\.md line 5: Identified at: a time such as/,
    ],
    [
      edited('', '', { 'blockers/x.md': RESOLVED, 'blockers/y.md': RESOLVED }),
      /^blockers\/y\.md: an id that no other file has, not "block-009"/,
    ],
    [
      edited('', '', { 'decisions/jwt.md': 'We took jose.\n' }),
      /^decisions\/jwt\.md line 1: a heading with the decision/,
    ],
    [
      edited('', '', { 'decisions/jwt.md': JWT.replace('Reversible: no', 'Reversible: perhaps') }),
      /^decisions\/jwt\.md line 7: Reversible: yes or no/,
    ],
    [
      edited('', '', { 'decisions/jwt.md': `${JWT}\nIt is small.\n` }),
      /^decisions\/jwt\.md line 9: "- Name: value" with one of/,
    ],
    [
      edited('', '', { 'decisions/jwt.md': JWT.replace('- Reason', '  - edge\n- Reason') }),
      /^decisions\/jwt\.md line 4: "- Name: value"/,
    ],
    [
      edited('', '', { 'decisions/jwt.md': `${JWT}- Reason: other\n` }),
      /^decisions\/jwt\.md line \d+: "- Name: value" .* each once/,
    ],
    [edited('', '', { 'decisions/jwt.md': `${JWT}- Mood: good\n` }), /^decisions\/jwt\.md line 8: "- Name: value"/],
    [edited('', '', { 'decisions/jwt.md': '# jose\n' }), /^decisions\/jwt\.md line 1: Context: a text/],
    [
      edited('', '', { '1-1-PLAN.md': `${PLAN}- [ ] a\0\n- [ ] a\uFFFD\n` }),
      /^1-1-PLAN\.md line 8: tasks with different names/,
    ],
    [
      edited('', '', { '1-1-PLAN.md': `${PLAN}- [ ] "\\u0000" (tsk_1)\n- [ ] "\\ud800" (tsk_2)\n` }),
      /^1-1-PLAN\.md line 8: tasks with different names/,
    ],
    [faultsOf(raw({ '1-1-PLAN.md': PLAN })), /^STATE\.md: this file/],
    [faultsOf(raw({ 'STATE.md': STATE })), /^1-1-PLAN\.md: at least one plan/],
    [faultsOf([...folder(), ...raw({ 'STATE.md': STATE })]), /^STATE\.md: one file with this path/],
    [
      faultsOf(raw({ 'STATE.md': `# ${'x'.repeat(5 * 1024 ** 2)}`, '1-1-PLAN.md': PLAN })),
      /^STATE\.md: at most 1048576 bytes/,
    ],
    [faultsOf(raw({ 'STATE.md': STATE, '1-1-PLAN.md': `${PLAN}${'x'.repeat(200_001)}` })), /at most 200000 characters/],
  ];
  for (const [faults, expected] of cases)
    expect(faults, String(expected)).toContainEqual(expect.stringMatching(expected));
});

it('I2 lines that are not UTF-8 are named', () => {
  const bytes = Buffer.concat([
    Buffer.from('# a\n'),
    Buffer.from([0xff, 0xfe]),
    Buffer.from('\nb\n'),
    Buffer.from([0xc3]),
  ]);
  expect(faultsOf([...raw({ 'STATE.md': STATE }), { path: '1-1-PLAN.md', bytes }])).toEqual(
    expect.arrayContaining(['1-1-PLAN.md line 2: text in UTF-8', '1-1-PLAN.md line 4: text in UTF-8']),
  );
});

it('I2 a thousand faults are listed, and it is said how many more there are', () => {
  const plan = `# Walls\n\n- Tasks:\n${'  - no box\n'.repeat(1_500)}`;
  const faults = faultsOf(folder({ '1-1-PLAN.md': plan }));
  expect(faults).toHaveLength(1_001);
  expect(faults.at(-1)).toMatch(/no further 50\d faults/);
});

it('I2 times are stored in UTC, whatever their offset', () => {
  const at = (time: string) => readPlanning(folder({ 'STATE.md': STATE.replace('blocked_since: 2025-03-02', time) }));
  expect(at('blocked_since: 2025-03-02T09:00:00+23:30').input).toMatchObject({
    blockers: [{ identified_at: '2025-03-01T09:30:00.000Z' }],
  });
});

it('I2 an initiative whose tasks are all completed stays at the task that its file names', () => {
  const { input } = readPlanning(folder({ '1-1-PLAN.md': PLAN.replace('[ ]', '[x]') }));
  const { completed, position } = input as { completed: string[]; position: string };
  expect(completed).toEqual([expect.any(String), position]);
});

it('H12 a line of spaces, many keys and many tasks do not hold up the host', () => {
  const size = 1024 ** 2 - 2_000;
  expect(faultsOf(folder({ '1-1-PLAN.md': `#${' '.repeat(size)}` }))).toContainEqual(
    expect.stringMatching(/^1-1-PLAN\.md line 1: a heading/),
  );
  const keys = Array.from({ length: Math.floor(size / 9) }, (_, n) => `k${n}:\n`).join('');
  expect(faultsOf(folder({ 'STATE.md': `${STATE}${keys}` }))).toHaveLength(1_000);
  const tasks = Array.from({ length: 6_000 }, (_, n) => `- [ ] t${n}\n`).join('');
  const faults = faultsOf(folder({ '1-1-PLAN.md': `# a\n${tasks}`, '1-2-PLAN.md': `# b\n${tasks}` }));
  expect(faults).toContainEqual('1-2-PLAN.md: at most 10000 tasks in all plans');
});

const archived = async (entries: TarEntry[]) => gzipSync(await packTar(entries));
const entry = (name: string, body: string, more: Partial<TarEntry['header']> = {}): TarEntry => ({
  header: { name, size: Buffer.byteLength(body), ...more },
  body,
});

it('H12 an archive has only files below its folder', async () => {
  const names = ['../STATE.md', '.planning/../../x.md', '/etc/passwd', '.planning/a\\..\\b'];
  const links = [
    { header: { name: '.planning/STATE.md', size: 0, type: 'symlink' as const, linkname: '/etc/passwd' } },
    { header: { name: '.planning/hard', size: 0, type: 'link' as const, linkname: '/etc/passwd' } },
    { header: { name: '.planning/pipe', size: 0, type: 'fifo' as const } },
  ];
  const faults = new Faults();
  const files = await filesOfArchive(
    await archived([
      entry('.planning/1-1-PLAN.md', PLAN),
      { header: { name: '.planning/blockers/', size: 0, type: 'directory' } },
      ...names.map((name) => entry(name, 'x')),
      ...links,
    ]),
    faults,
  );
  expect(files.map(({ path }) => path)).toEqual(['1-1-PLAN.md']);
  let refused: unknown;
  try {
    faults.refuse();
  } catch (error) {
    refused = error;
  }
  expect((refused as InvalidInputError).errors.map(({ field }) => field)).toEqual([
    ...names,
    ...['STATE.md', 'hard', 'pipe'],
  ]);
});

it('H12 what is no archive, or expands to more than 16 MiB, is refused', async () => {
  const open = (bytes: Uint8Array) => filesOfArchive(bytes, new Faults());
  const expected = /a gzipped tar file of the folder/;
  await expect(open(Buffer.from('no'))).rejects.toThrow(expected);
  await expect(open(gzipSync('x'.repeat(600)))).rejects.toThrow(expected);
  const whole = await archived([entry('.planning/STATE.md', STATE.repeat(10))]);
  await expect(open(whole.subarray(0, whole.length - 20))).rejects.toThrow(expected);
  await expect(open(gzipSync(Buffer.alloc(17 * 1024 ** 2)))).rejects.toMatchObject({ code: 'TooLarge' });
  const many = Array.from({ length: 10_001 }, (_, n) => entry(`.planning/${n}`, ''));
  await expect(open(await archived(many))).rejects.toMatchObject({ code: 'TooLarge' });
});
