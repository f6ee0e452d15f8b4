// The negative controls replace functions of the database, which change over time: these tests check that they still break
// something, and of most that the promises find it.
import { expect, it } from 'vitest';
import { renderState, stateOf } from '../../client/state-file/state-file.ts';
import {
  Event,
  type EventActions,
  PostgresSessionService,
  type Session as StoredSession,
} from '../../client/state/index.ts';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { readInitiativeMark, resetStale } from '../../store/initiative-workflows.ts';
import { readMessages } from '../../store/messages.ts';
import { Readings } from '../../tools/chaos/api.ts';
import type { Appended } from '../../tools/chaos/appending.ts';
import { breakOf } from '../../tools/chaos/breaks.ts';
import type { StateRead } from '../../tools/chaos/crew.ts';
import { Driver } from '../../tools/chaos/driver.ts';
import { readInitiatives, readRows, type TaskRow } from '../../tools/chaos/evidence.ts';
import { checkFloors } from '../../tools/chaos/floors.ts';
import { Ledger } from '../../tools/chaos/ledger.ts';
import type { Break } from '../../tools/chaos/options.ts';
import { checkFiles } from '../../tools/chaos/promises/attachments.ts';
import { checkBranches } from '../../tools/chaos/promises/branches.ts';
import { checkChildren } from '../../tools/chaos/promises/children.ts';
import { checkCompactions } from '../../tools/chaos/promises/compactions.ts';
import { checkHidden } from '../../tools/chaos/promises/hidden.ts';
import { checkStateFiles, checkTasks } from '../../tools/chaos/promises/initiatives.ts';
import { checkPermissions } from '../../tools/chaos/promises/permissions.ts';
import { checkRegenerates } from '../../tools/chaos/promises/regenerates.ts';
import { checkRewinds } from '../../tools/chaos/promises/rewinds.ts';
import { checkState } from '../../tools/chaos/promises/state.ts';
import { checkSums } from '../../tools/chaos/promises/sums.ts';
import { recordStates } from '../../tools/chaos/recorded-states.ts';
import { tablesWith } from '../../tools/test-kit/canary.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost } from '../../tools/test-kit/host.ts';
import { Random } from '../../tools/test-kit/random.ts';
import { AFTER, answer, asks, decided, STEP, TOOL } from '../rows/asking.ts';
import { compact, pruneByHand } from '../rows/compacting.ts';
import { answered, conversation } from '../rows/conversation.ts';
import { Initiative } from '../rows/initiative.ts';
import { call, freshRows, type Part, Session, textPart, toolPart } from '../rows/session.ts';

const ZOMBIE: Fence = [1, 1, 1];
const NEXT: Fence = [1, 1, 2];

it('Q1 without the fence a zombie writes', async () => {
  const db = await freshRows();
  await breakOf('fence').prepare?.(db);
  const session = await Session.saying(db, 'hello');
  await session.claim(1, ZOMBIE);
  await session.claim(1, NEXT);
  expect(await session.append(1, ZOMBIE, [textPart(0, 'late')])).toBe('live');
  expect(await session.appendShared(1, ZOMBIE, [textPart(1, 'late')])).toBe('live');
  expect(await session.settleStep(1, ZOMBIE, { end: true })).toMatchObject({ state: 'finished' });
});

it('Q1 without idempotency records a command is carried out twice, and so is a tool call', async () => {
  const db = await freshRows();
  await breakOf('receipt').prepare?.(db);
  const session = await Session.at('verifying', db);
  const command = newId('cmd');
  expect(await session.raise('publish', command)).toMatchObject({ ok: true });
  expect(await session.raise('publish', command)).toMatchObject({ ok: false });
  const run = await session.runWithCalls(['call_1'], [1, 1, 1]);
  expect(await session.beginTool(run, [1, 2, 1], 'call_1')).toMatchObject({ kind: 'begun' });
  expect(await session.beginTool(run, [1, 2, 2], 'call_1')).toMatchObject({ kind: 'begun' });
});

it('Q1 without the rules of state a change is applied twice, its event is not whole, and `temp:` values stay', async () => {
  const db = await freshRows();
  await breakOf('state').prepare?.(db);
  const session = await Session.at('chatting', db);
  const run = await session.runWithCalls(['call_1'], [1, 1, 1]);
  await session.beginTool(run, [1, 2, 1], 'call_1');
  const state = [
    { scope: 'session', key: 'kept', increment: 1 },
    { scope: 'session', key: 'last', value: 'call_1' },
    { scope: 'temp', key: 'draft', value: 'mayfly' },
  ];
  await session.finishTool(run, [1, 2, 1], 'call_1', { effects: { state } });
  await session.settleRun(run, 'error', [1, 2, 1]);
  const { rows } = await db.query(`SELECT data -> 'set' AS set FROM session_events WHERE kind = 'state'`);
  expect(rows).toEqual([{ set: { kept: 2 } }]);
  expect(await tablesWith(db, 'mayfly')).toEqual(['chat_runs']);
});

/** Two programs set what they have read, and delete what is not there. Returns the promises that do not hold. */
async function stateBrokenBy(name: Break | undefined): Promise<string[]> {
  const db = await freshRows();
  await breakOf(name).prepare?.(db);
  const service = new PostgresSessionService({ database: db });
  const { id } = await service.createSession({ appName: 'perdure', userId: 'ada', state: { 'user:tally': 1 } });
  const read = async () => (await service.getSession({ appName: 'perdure', userId: 'ada', sessionId: id }))!;
  const appended: Appended[] = [];
  const append = async (session: StoredSession, actions: Partial<EventActions>) => {
    const stateIncrements = { appended: 1, 'user:appended': 1, 'app:appended': 1 };
    const event = new Event({ id: `e-${appended.length}`, actions: { stateDelta: {}, ...actions, stateIncrements } });
    const isStored = await service.appendEvent({ session, event }).then(
      () => true,
      () => false,
    );
    appended.push({ id: event.id, session: id, stored: isStored, tries: 1 });
  };
  const [one, two] = [await read(), await read()];
  for (const session of [one, two]) await append(session, { stateDelta: { 'user:tally': 2 } });
  await append(await read(), { stateDeletions: ['user:odd'] });
  expect(appended.map(({ stored }) => stored)).toEqual([true, name !== undefined, true]);
  const { rows } = await readRows(db);
  const { signal: late } = new AbortController();
  const random = new Random(1);
  const driver = new Driver({ seed: 1, number: 1, user: 'ada', hosts: [], random, readings: new Readings(), late });
  driver.appending.appended.push(...appended);
  const ledger = new Ledger();
  await checkState(ledger, { ...rows, toolRuns: [], drivers: [driver], sessionOf: () => id, world: { db } });
  return [...new Set(ledger.violations.map(({ promise }) => promise))].toSorted();
}

it.each<[Break | undefined, string[]]>([
  [undefined, []],
  ['state', ['no update of state is lost to a stale writer', 'only keys that are there are logged as deleted']],
])('Q1 what is found of the break "%s" in events of programs', async (name, promises) => {
  expect(await stateBrokenBy(name)).toEqual(promises);
});

/** Compacts, edits, branches, and goes back and forth in a conversation. Returns the promises that do not hold for it. */
async function brokenBy(name: Break | undefined): Promise<string[]> {
  const db = await freshRows();
  await breakOf(name).prepare?.(db);
  const session = await conversation(db, 'one', 'two', 'three', 'four');
  const shown = async () => JSON.stringify(await readMessages(db, session.id, { limit: 50, hidden: false }));
  const usage = { input: 8, output: 2, reasoning: 1, cache_read: 2, cache_write: 0 };
  await compact(session, { usage, text: 'summary-1.' });
  await session.apply('branch', { from_message_id: 'four' });
  const { run_seq: run } = (await session.say('five')) as { run_seq: number };
  await session.claim(run, [0, run, 1]);
  await session.settleStep(run, [0, run, 1], { usage, tokens: 11 });
  await session.claim(run, [0, run, 2], 1);
  const called = toolPart('call_1', 0, 'output-available');
  await session.settleStep(run, [0, run, 2], { step: 1, usage, tokens: 11, end: true, parts: [called] });
  await pruneByHand(session);
  const { run_seq: edited } = (await session.edit('four', 'another', { id: 'better' })) as { run_seq: number };
  const asked = { message: 'better', replaced: await answered(session, edited), tries: 2, status: 200 };
  for (let n = 0; n < asked.tries; n += 1) {
    const again = (await session.regenerate(asked.message, asked)) as { accepted?: boolean; run_seq: number };
    if (again.accepted === true) await answered(session, again.run_seq);
  }
  const before = await shown();
  expect(await session.rewind('two')).toMatchObject({ ok: true });
  expect(await session.rewind('one')).toMatchObject({ ok: true });
  await session.unrewind();
  await session.unrewind();
  const trip = { session: session.id, rewinds: 2, before, after: await shown() };
  const { rows, branches } = await readRows(db);
  const reported = { input: 10, output: 3, reasoning: 1, cached: 2 };
  const ledger = new Ledger();
  checkHidden(ledger, rows);
  checkRewinds(ledger, [trip]);
  checkRegenerates(ledger, session.id, [asked], rows);
  checkCompactions(ledger, { ...rows, summaries: [{ number: 1, usage: reported, whole: true, fault: undefined }] });
  checkSums(ledger, rows);
  checkSums(ledger, branches);
  checkBranches(ledger, { ...rows, branches });
  return [...new Set(ledger.violations.map(({ promise }) => promise))].toSorted();
}

const COVERED = 'a row is hidden only by its own cause';
const RESTORED = 'an un-rewind restores the same bytes';
const COPIED = 'a branch holds what its parent holds';
const REPLACED = 'an answer is replaced once';
const COSTS = ['a run counts the tokens of its steps', 'a summary costs what its call cost'];
const SUMS = ['an answer’s usage is that of its steps', 'sums are those of the answers'];

it.each<[Break | undefined, string[]]>([
  [undefined, []],
  ['rewind', [COVERED, 'what was gone back over is hidden']],
  ['unrewind', [COVERED, RESTORED]],
  ['regenerate', [REPLACED]],
  ['compaction', [RESTORED, 'no compaction is half done']],
  ['prune', ['no prune is half done']],
  ['sums', [...COSTS, ...SUMS]],
  ['branch', ['a branch ends at its message', COPIED]],
])('Q1 what is found of the break "%s" in a conversation', async (name, promises) => {
  expect(await brokenBy(name)).toEqual(promises);
});

it.each<[string, (session: Session) => Promise<string>]>([
  [
    'after a rewind',
    async (session) => {
      await session.rewind('two');
      return (await session.say('four'))['message_id'] as string;
    },
  ],
  [
    'after a rewind to another one in the queue',
    async (session) => {
      await session.rewind('two');
      const { message_id: id } = (await session.say('four')) as { message_id: string };
      await session.rewind(id, { abort: true });
      return (await session.say('five'))['message_id'] as string;
    },
  ],
  ['as an edit', async (session) => (await session.edit('two', 'zwei'))['message_id'] as string],
  [
    'as an edit that was edited',
    async (session) => {
      await session.edit('two', 'zwei');
      return (await session.edit('two', 'deux'))['message_id'] as string;
    },
  ],
])('Q1 X1 what a message that was taken back %s still hides is found', async (_when, replace) => {
  const db = await freshRows();
  const session = await conversation(db, 'one', 'two', 'three');
  const broken = async () => {
    const ledger = new Ledger();
    checkHidden(ledger, (await readRows(db)).rows);
    return [...new Set(ledger.violations.map(({ promise }) => promise))];
  };
  await session.cancelQueued(await replace(session));
  expect(await broken()).toEqual([]);
  while ((await session.unrewind())['ok'] === true) expect(await broken()).toEqual([]);
  const last = await replace(session);
  expect(await broken()).toEqual([]);
  await db.query('UPDATE chat_runs SET replaced = NULL');
  await session.cancelQueued(last);
  expect(await broken()).toEqual([COVERED]);
});

it('Q1 a campaign in which nobody goes back or branches fails, and so does one that has checked nothing of it', () => {
  const failed = (made: Record<string, number>, checked: readonly string[]) => {
    const ledger = new Ledger();
    for (const promise of checked) ledger.check(promise, '', true, () => '');
    checkFloors(ledger, made, 1);
    return ledger.violations.map(({ where }) => where);
  };
  const made = { rewind: 2, unrewind: 1, edit: 1, regenerate: 1, branch: 1 };
  const checked = [COVERED, 'what was gone back over is hidden', RESTORED, REPLACED, COPIED];
  expect(failed(made, checked)).toEqual([]);
  expect(failed({}, [])).toEqual([...Object.keys(made), ...checked]);
  for (const kind of Object.keys(made)) expect(failed({ ...made, [kind]: 0 }, checked)).toEqual([kind]);
  for (const promise of checked)
    expect(
      failed(
        made,
        checked.filter((one) => one !== promise),
      ),
    ).toEqual([promise]);
});

/** Lets a call ask and another one be denied, rejects a third; each runs if it begins. */
async function permissionsBrokenBy(name: Break | undefined): Promise<string[]> {
  const db = await freshRows();
  await breakOf(name).prepare?.(db);
  const toolRuns: { session: string; call: string; tool: string; at: number }[] = [];
  for (const [tool, rule, decision] of [
    ['ask', asks('call_1'), 'once'],
    ['ask', asks('call_1'), 'reject'],
    ['never', decided('deny'), undefined],
  ] as const) {
    const session = await Session.at('chatting', db);
    const { run_seq: run } = (await session.say('go')) as { run_seq: number };
    await session.claim(run, STEP);
    const { data, ...part } = toolPart('call_1', 0);
    const id = `call_${session.id}`;
    const named: Part = { ...part, data: { ...data, type: `tool-${tool}`, toolCallId: id }, tool_call_id: id };
    await session.settleStep(run, STEP, { parts: [named], toolCalls: [{ tool_call_id: id, name: tool }] });
    const begin = async (fence: Fence) => {
      const begun = await session.beginTool(run, fence, id, rule);
      if (begun['kind'] !== 'begun') return;
      toolRuns.push({ session: session.id, call: id, tool, at: Date.now() });
      const [stored] = await session.parts(run);
      await session.finishTool(run, fence, id, { data: { ...(stored!['data'] as object), state: 'output-available' } });
    };
    await begin(TOOL);
    if (decision !== undefined) await answer(session, decision, id);
    await begin(AFTER);
  }
  const { rows } = await readRows(db);
  const ledger = new Ledger();
  checkPermissions(ledger, { ...rows, toolRuns });
  return [...new Set(ledger.violations.map(({ promise }) => promise))].toSorted();
}

it.each<[Break | undefined, string[]]>([
  [undefined, []],
  ['denial', ['no denied call ever ran']],
  ['approval', ['no asked call ran without its answer']],
])('Q1 what is found of the break "%s" in calls that ask or are denied', async (name, promises) => {
  expect(await permissionsBrokenBy(name)).toEqual(promises);
});

it.each<[Break | undefined, string[]]>([
  [undefined, []],
  ['child', ['every child is over', 'no child outlives its parent’s abort']],
])('Q1 what is found of the break "%s" in a session with a child', async (name, promises) => {
  const db = await freshRows();
  await breakOf(name).prepare?.(db);
  const parent = await Session.at('chatting', db);
  const run = await parent.runWithCalls(['call_1'], STEP);
  await parent.beginTool(run, TOOL, 'call_1');
  const task = {
    ...{ agent: 'helper', background: true, child_id: newId('ses'), message_id: newId('msg'), answer_id: newId('msg') },
    parts: [{ id: newId('prt'), type: 'text', data: { type: 'text', text: 'look' } }],
    ...{ inherits_model: true, model: 'test/model', workspace_root: '/w', max_children: 16, token_limit: 1_000 },
  };
  await call(db, 'spawn_task', [parent.id, run, TOOL, 'call_1', JSON.stringify(task)]);
  await parent.finishTool(run, TOOL, 'call_1');
  await parent.claim(run, AFTER, 1);
  await parent.settleStep(run, AFTER, { step: 1, end: true });
  expect(await parent.abort()).toMatchObject({ ok: true, aborted: false });
  const { rows, children } = await readRows(db);
  const { rows: tasks } = await db.query<TaskRow>('SELECT * FROM tasks');
  expect(tasks).toHaveLength(1);
  const ledger = new Ledger();
  checkChildren(ledger, { ...rows, children, tasks });
  expect([...new Set(ledger.violations.map(({ promise }) => promise))].toSorted()).toEqual(promises);
});

/** Work sessions take tasks, complete them, and die. Returns the promises that do not hold. */
async function initiativeBrokenBy(name: Break | undefined): Promise<string[]> {
  const db = await freshRows();
  await recordStates(db);
  await breakOf(name).prepare?.(db);
  const work = await Initiative.of([[['one', 'two', 'three']]], db);
  const read: StateRead[] = [];
  const look = async () => {
    const view = await work.view();
    read.push({ version: view.initiative.version, text: renderState(stateOf(view)) });
  };
  const workers = [await work.session(), await work.session()];
  const given = [];
  for (const work_session of workers) given.push({ work_session, task: await work.next(work_session) });
  for (const args of given) await work.apply('start_task', args);
  await look();
  for (const args of given) await work.apply('complete_task', args);
  await work.apply('add_decision', { context: 'c', decision: 'd', reason: 'r' });
  await look();
  await work.next(await work.session());
  const staleness = { staleAssignmentMs: 1, staleProgressMs: 1 };
  await eventually(async () => {
    const { watched } = (await readInitiativeMark(db, work.id, staleness))!;
    // As the workflow does, which would wait for longer.
    if (watched !== null && watched.due_in_ms === 0) await resetStale(db, work.id, watched, staleness);
    else if (watched !== null && watched.due_in_ms < 1_000) throw new Error('not yet');
  });
  await look();
  const initiatives = await readInitiatives(db);
  const ledger = new Ledger();
  checkTasks(ledger, initiatives, { staleMs: 1, outages: [] });
  checkStateFiles(ledger, work.id, read, initiatives.recorded);
  expect(ledger.checked.size).toBeGreaterThanOrEqual(name === undefined ? 5 : 3);
  return [...new Set(ledger.violations.map(({ promise }) => promise))].toSorted();
}

it.each<[Break | undefined, string[]]>([
  [undefined, []],
  ['task', ['a task is held by one work session', 'each task of an initiative is done once or open']],
  ['supervisor', ['no task is held by the dead for longer than the setting']],
  ['state-file', ['STATE.md equals the rows']],
])('Q1 what is found of the break "%s" in an initiative', async (name, promises) => {
  expect(await initiativeBrokenBy(name)).toEqual(promises);
});

it('Q1 a file with another byte is found, and one that others can read', async () => {
  const broken = async (name?: Break) => {
    const db = await freshRows();
    await breakOf(name).prepare?.(db);
    const host = await startHost({ databaseUrl: db.options.connectionString! });
    const [ada, eve] = await Promise.all(
      ['ada', 'eve'].map(async (user, number) => {
        const { signal: late } = new AbortController();
        const random = new Random(1, user);
        const driver = new Driver({ seed: 1, number, user, hosts: [host.url], random, readings: new Readings(), late });
        const { body } = await host.as(user).post('/api/sessions', {});
        driver.session = body.session.session_id as string;
        return driver;
      }),
    );
    for (let n = 0; n < 3; n += 1) await ada!.files.upload();
    const ledger = new Ledger();
    await checkFiles(ledger, ada!, [eve!], ada!.session);
    expect([...ledger.checked.values()]).toEqual([3, 6]);
    return ledger.violations.map(({ promise }) => promise);
  };
  expect(await broken()).toEqual([]);
  const [lost, leaked] = ['no attachment is lost', 'no attachment is readable by others'];
  expect(await broken('attachment')).toEqual([lost, leaked, lost, leaked, lost, leaked]);
});
