// Hooks for snapshots that throw, hang, whatever their signal says, or return something else than an id.
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import type { Snapshots } from '../../agent/snapshots.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { userFolder } from '../../workspaces/paths.ts';

const PAGE = 'index.html';
/** The time of a hook. */
const MS = patient(300);
const hang = () => new Promise<never>(() => {});

/** A hook for sites of one page, whose snapshots are its text. */
const onePage: Snapshots = {
  take: ({ workspaceRoot }) => readFile(path.join(workspaceRoot, PAGE), 'utf8').catch(() => 'empty'),
  restore: ({ workspaceRoot }, text) => writeFile(path.join(workspaceRoot, PAGE), text),
};

let hook: Snapshots;
let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    // Writes what the user says to the page.
    script(request) {
      const content = lastUserText(request);
      if (request.messages.at(-1)?.role === 'tool') return [say('done')];
      return [callTool('call_1', 'write_file', { path: PAGE, content })];
    },
    settings: { snapshotMs: MS },
    hooks: {
      snapshots: { take: (...args) => hook.take(...args), restore: (...args) => hook.restore(...args) },
    },
  });
});
beforeEach(() => {
  hook = onePage;
});

const page = ({ id, user }: TestSession) => readFile(path.join(userFolder(runtime.workspaces, user), id, PAGE), 'utf8');

/** A session that has said this, with the ids m1, m2, …. */
async function saying(...texts: string[]): Promise<TestSession> {
  const session = await TestSession.open(runtime);
  for (const [n, text] of texts.entries()) {
    expect(await session.ended(await session.send(text, `m${n + 1}`))).toMatchObject({ state: 'finished' });
  }
  return session;
}

const snapshotOf = async ({ id }: TestSession, message: string) => {
  const sql = `SELECT metadata ->> 'snapshot_id' AS snapshot FROM chat_messages WHERE session_id = $1 AND id = $2`;
  return (await runtime.db.query<{ snapshot: string | null }>(sql, [id, message])).rows[0]!.snapshot;
};

const logged = ({ id }: TestSession, level: 'warn' | 'error', text: string) =>
  runtime.logs.filter(
    ({ session, level: at, msg }) => session === id && at === { warn: 40, error: 50 }[level] && msg.startsWith(text),
  );

const fails = () => Promise.reject(new Error('no space left'));

it('X2 if another worker still restores when the time is up, the turn ends with an error, and the next one restores what is asked for', async () => {
  const session = await saying('one', 'two');
  hook = { ...onePage, restore: fails };
  await session.command(updates.rewind, { message_id: 'm2' });
  await eventually(() => expect(logged(session, 'error', 'the files of a rewind')).toHaveLength(1));
  hook = onePage;
  const claim = (at: string) =>
    runtime.db.query(
      `UPDATE chat_sessions SET restore = restore || jsonb_build_object('claimed_at', ${at}, 'claimed_for', restore -> 'n')
        WHERE session_id = $1`,
      [session.id],
    );
  await claim('clock_timestamp()');
  expect(await session.ended(await session.send('hello', 'm3'))).toMatchObject({ error_code: 'WorkspaceNotUsable' });
  expect(await page(session)).toBe('two');
  await claim(`clock_timestamp() - interval '31 seconds'`);
  expect(await session.ended(await session.send('three', 'm4'))).toMatchObject({ state: 'finished' });
  expect(await page(session)).toBe('three');
  expect(await snapshotOf(session, 'm4')).toBe('one');
});

it.each<[string, () => Promise<unknown>, string]>([
  ['throws', fails, 'has failed: no space left'],
  ['hangs', hang, 'has not ended within '],
  ['returns nothing', () => Promise.resolve(), 'returned something else'],
  ['returns an empty text', () => Promise.resolve(''), 'returned something else'],
  ['returns a long text', () => Promise.resolve('x'.repeat(129)), 'returned something else'],
  ['returns a number', () => Promise.resolve(7), 'returned something else'],
  ['returns an object', () => Promise.resolve({}), 'returned something else'],
])(
  'X2 if the hook %s, a turn goes on without a snapshot, and a rewind leaves the files as they are until the next turn begins',
  async (_, take, why) => {
    const session = await saying('one', 'two');
    hook = { ...onePage, take: take as Snapshots['take'] };
    expect(await session.ended(await session.send('three', 'm3'))).toMatchObject({ state: 'finished' });
    expect(await snapshotOf(session, 'm3')).toBeNull();
    const message = expect.stringContaining(`the hook snapshots.take ${why}`) as string;
    expect(logged(session, 'warn', 'no snapshot was taken')).toMatchObject([{ err: { message } }]);
    await session.command(updates.rewind, { message_id: 'm2' });
    await eventually(() =>
      expect(logged(session, 'error', 'the files of a rewind')).toMatchObject([{ err: { message } }]),
    );
    expect(await page(session)).toBe('three');
    hook = onePage;
    expect(await session.ended(await session.send('four', 'm4'))).toMatchObject({ state: 'finished' });
    expect(await snapshotOf(session, 'm4')).toBe('one');
  },
);

it.each<[string, () => Promise<never>, string]>([
  ['throws', fails, 'has failed: no space left'],
  ['hangs', hang, 'has not ended within '],
])(
  'X2 if the hook %s when it restores, the rewind is done, the next turn ends with an error that says so, and the one after it goes on',
  async (how, restore, why) => {
    const session = await saying('one', 'two');
    const signals: AbortSignal[] = [];
    hook = {
      ...onePage,
      restore(_place, _id, signal) {
        signals.push(signal);
        return restore();
      },
    };
    expect(await session.command(updates.rewind, { message_id: 'm2' })).toMatchObject({ message: 'm2', hidden: 1 });
    const refused = await session.ended(await session.send('three'));
    expect(refused).toMatchObject({ state: 'error', error_code: 'WorkspaceNotUsable' });
    expect(refused.error_message).toContain('The files of an earlier state could not be restored');
    expect(signals.map(({ aborted }) => aborted)).toEqual(Array(2).fill(how === 'hangs'));
    expect(await page(session)).toBe('two');
    const message = expect.stringContaining(`the hook snapshots.restore ${why}`) as string;
    const failed = { err: { message } };
    expect(logged(session, 'error', 'the files of a rewind could not be restored')).toMatchObject([failed, failed]);
    hook = onePage;
    expect(await session.ended(await session.send('four'))).toMatchObject({ state: 'finished' });
    expect(await page(session)).toBe('four');
  },
);
