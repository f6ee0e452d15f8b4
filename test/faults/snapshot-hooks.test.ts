// Hooks for snapshots that hang, whatever their signal says, or return something else than an id.
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import type { RestorePlace, Snapshots } from '../../agent/snapshots.ts';
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

it('X2 a hook that hangs when a turn begins costs its time: the turn goes on without a snapshot, and a warning names the session', async () => {
  const session = await saying('one');
  hook = { ...onePage, take: hang };
  expect(await session.ended(await session.send('two', 'm2'))).toMatchObject({ state: 'finished' });
  expect(await page(session)).toBe('two');
  expect(await snapshotOf(session, 'm2')).toBeNull();
  expect(logged(session, 'warn', 'no snapshot was taken')).toMatchObject([
    { err: { message: expect.stringContaining('the hook snapshots.take has not ended within ') as string } },
  ]);
  hook = onePage;
  await session.command(updates.rewind, { message_id: 'm2' });
  await session.ended(await session.send('three', 'm3'));
  expect(await snapshotOf(session, 'm3')).toBe('two');
});

it.each([
  ['nothing', undefined],
  ['an empty text', ''],
  ['a long text', 'x'.repeat(129)],
  ['a number', 7],
  ['an object', {}],
])(
  'X2 a turn goes on without a snapshot if the hook returns %s, and a rewind leaves the files as they are',
  async (_, garbage) => {
    const session = await saying('one', 'two');
    hook = { ...onePage, take: () => Promise.resolve(garbage as string) };
    expect(await session.ended(await session.send('three', 'm3'))).toMatchObject({ state: 'finished' });
    expect(await snapshotOf(session, 'm3')).toBeNull();
    const message = expect.stringContaining('the hook snapshots.take returned something else') as string;
    expect(logged(session, 'warn', 'no snapshot was taken')).toMatchObject([{ err: { message } }]);
    await session.command(updates.rewind, { message_id: 'm2' });
    await eventually(() =>
      expect(logged(session, 'error', 'the files of a rewind')).toMatchObject([{ err: { message } }]),
    );
    expect(await page(session)).toBe('three');
  },
);

it('X2 a hook that hangs when it restores: the rewind is done, the next turn ends with an error that says so, the one after it goes on', async () => {
  const session = await saying('one', 'two');
  const hung: { place: RestorePlace; signal: AbortSignal }[] = [];
  hook = {
    ...onePage,
    restore(place, _, signal) {
      hung.push({ place, signal });
      return hang();
    },
  };
  expect(await session.command(updates.rewind, { message_id: 'm2' })).toMatchObject({ message: 'm2', hidden: 1 });
  const refused = await session.ended(await session.send('three'));
  expect(refused).toMatchObject({ state: 'error', error_code: 'WorkspaceNotUsable' });
  expect(refused.error_message).toContain('The files of an earlier state could not be restored');
  expect(hung.map(({ signal }) => signal.aborted)).toEqual([true, true]);
  expect(await page(session)).toBe('two');
  const message = expect.stringContaining('the hook snapshots.restore has not ended within ') as string;
  const failed = { err: { message } };
  expect(logged(session, 'error', 'the files of a rewind could not be restored')).toMatchObject([failed, failed]);
  hook = onePage;
  expect(await session.ended(await session.send('four'))).toMatchObject({ state: 'finished' });
  expect(await page(session)).toBe('four');
});
