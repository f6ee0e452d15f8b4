// Rewinds bring the files of the site-builder back, through workflow, worker and tools.
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Snapshots } from '../../agent/snapshots.ts';
import { workspaceSnapshots } from '../../examples/site-builder/snapshots.ts';
import { eraseSession } from '../../store/erasure.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { aroundCalls } from '../faults/sql-calls.ts';

const copies = workspaceSnapshots('copy', 1024 ** 2);

/** The hook of the test at hand; undefined: the worker has none. */
let hook: Snapshots | undefined;
let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    // "page text": writes the text to the page, a file, "new text": to index.html in a new project. Anything else is answered.
    script(request) {
      const [file, content] = lastUserText(request).split(' ');
      const asked = request.messages.findLastIndex(({ role }) => role === 'user');
      const outputs = request.messages.slice(asked).filter(({ role }) => role === 'tool').length;
      const isNew = file === 'new';
      if (content === undefined || outputs > Number(isNew)) return [say('done')];
      if (isNew && outputs === 0) return [callTool('call_0', 'build_and_deploy', { confirm_new_project: true })];
      return [callTool('call_1', 'write_file', { path: isNew ? 'index.html' : file, content })];
    },
    hooks: {
      get snapshots() {
        return hook!;
      },
    },
  });
});
beforeEach(() => {
  hook = copies;
});

const rootOf = (session: TestSession, folder = session.id) =>
  path.join(userFolder(runtime.workspaces, session.user), folder);
const snapshotsOf = (session: TestSession) =>
  path.join(userFolder(runtime.workspaces, session.user), '.snapshots', session.id);

/** The files of a session's workspace, with their texts. */
async function files(session: TestSession, folder?: string): Promise<Record<string, string>> {
  const root = rootOf(session, folder);
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const found = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  const texts = await Promise.all(found.map(async (file) => [path.relative(root, file), await readFile(file, 'utf8')]));
  return Object.fromEntries(texts) as Record<string, string>;
}

async function built(...texts: string[]): Promise<TestSession> {
  const session = await TestSession.open(runtime);
  for (const [n, text] of texts.entries()) await session.ended(await session.send(text, `m${n + 1}`));
  return session;
}

const warningsOf = ({ id }: TestSession) =>
  runtime.logs.filter(({ session, msg }) => session === id && msg.startsWith('no snapshot was taken'));

/** A slow restore goes on after the rewind. */
const expectFiles = (session: TestSession, expected: Record<string, string>, folder?: string) =>
  eventually(async () => expect(await files(session, folder)).toEqual(expected));

/** Restores from now on wait until the gate is opened. */
function heldRestore(): Gate {
  const gate = new Gate();
  hook = {
    ...copies,
    async restore(...place) {
      await gate.pass();
      await copies.restore(...place);
    },
  };
  return gate;
}

/** How often a worker asks from now on whether it may restore a session's files. */
function countRestores({ id }: TestSession): { times: number } & Disposable {
  const around = aroundCalls(runtime.db, {
    before: ({ name, args }) => {
      if (name === 'begin_restore' && args[0] === id) asked.times += 1;
    },
  });
  const asked = { times: 0, [Symbol.dispose]: () => around[Symbol.dispose]() };
  return asked;
}

const rewind = (session: TestSession, message_id: string) => session.command(updates.rewind, { message_id });
const unrewind = (session: TestSession) => session.command(updates.unrewind);

describe('with snapshots', () => {
  it.each(['copy', 'git'] as const)(
    'X2 by %s, a rewind over several messages restores the files from before its message; un-rewinds bring each state back',
    async (kind) => {
      hook = workspaceSnapshots(kind, 1024 ** 2);
      const session = await built('index.html one', 'index.html two', 'css/site.css blue', 'hello there friend');
      const all = { 'index.html': 'two', 'css/site.css': 'blue', hello: 'there' };
      await expectFiles(session, all);
      for (let round = 0; round < 2; round += 1) {
        await rewind(session, 'm3');
        await expectFiles(session, { 'index.html': 'two' });
        await rewind(session, 'm1');
        await expectFiles(session, {});
        await unrewind(session);
        await expectFiles(session, { 'index.html': 'two' });
        await unrewind(session);
        await expectFiles(session, all);
      }
      await rewind(session, 'm2');
      await session.ended(await session.send('index.html three'));
      await expectFiles(session, { 'index.html': 'three' });
      expect((await readdir(snapshotsOf(session))).includes('git')).toBe(kind === 'git');
    },
  );

  it('X2 a session that has made its project goes back to before it, and to where it was', async () => {
    const session = await built('new one', 'index.html two');
    const { project_id: project } = await session.row();
    await rewind(session, 'm2');
    await expectFiles(session, { 'index.html': 'one' }, project!);
    await rewind(session, 'm1');
    await expectFiles(session, {}, project!);
    await unrewind(session);
    await unrewind(session);
    await expectFiles(session, { 'index.html': 'two' }, project!);
  });

  it('X2 a project that others work in goes back as a whole, but not to before the session has opened it', async () => {
    const other = await built('new one');
    const { project_id: project } = await other.row();
    const session = await built('hello there');
    await session.command(updates.openExisting, { project_id: project! });
    await session.ended(await session.send('index.html two', 'm2'));
    await other.ended(await other.send('about.html us', 'm2'));
    await rewind(session, 'm2');
    await expectFiles(session, { 'index.html': 'one' }, project!);
    await unrewind(session);
    const both = { 'index.html': 'two', 'about.html': 'us' };
    await expectFiles(session, both, project!);
    await rewind(session, 'm1');
    await session.ended(await session.send('hello', 'm3'));
    await expectFiles(session, both, project!);
    await expectFiles(session, { hello: 'there' });
  });

  it('X2 only a turn that begins with files to restore asks for them', async () => {
    const session = await built('index.html one', 'index.html two');
    const asked: unknown[] = [];
    using _hook = aroundCalls(runtime.db, {
      before: ({ name, args }) => {
        if (name === 'begin_restore' && args[0] === session.id) asked.push(args[1]);
      },
    });
    await session.ended(await session.send('index.html three', 'm3'));
    expect(asked).toEqual([]);
    await session.ended(await session.edit('m3', 'hello there'));
    const { rows } = await runtime.db.query('SELECT FROM tool_workspaces WHERE root = $1', asked);
    expect(rows, 'its workspace, as tools name it').toHaveLength(1);
    expect(await files(session)).toEqual({ 'index.html': 'two', hello: 'there' });
  });

  it('X2 an edit restores them before its turn begins, and a queued message has the files from when its turn began', async () => {
    const session = await built('index.html one');
    const [second, third] = [await session.accept('a x', 'm2'), await session.accept('b y', 'm3')];
    await session.wake(second.run, second.message);
    await session.wake(third.run, third.message);
    await session.ended(third.run);
    expect(await files(session)).toEqual({ 'index.html': 'one', a: 'x', b: 'y' });
    await rewind(session, 'm3');
    await expectFiles(session, { 'index.html': 'one', a: 'x' });
    await unrewind(session);
    await session.ended(await session.edit('m2', 'c z'));
    expect(await files(session)).toEqual({ 'index.html': 'one', c: 'z' });
  });

  it('X2 the hook gets the id that it set, which a branch does not have; T9 an erasure removes the copies', async () => {
    const session = await built('index.html one');
    const { rows } = await runtime.db.query<{ id: string }>(
      `SELECT metadata ->> 'snapshot_id' AS id FROM chat_messages WHERE session_id = $1 AND id = 'm1'`,
      [session.id],
    );
    const [, , name] = /^copy-(\w+)-(.+)$/.exec(rows[0]!.id)!;
    expect(await readdir(path.join(snapshotsOf(session), 'copies'))).toEqual([name]);
    const { session_id: copy } = await session.command(updates.branch, { from_message_id: 'm1' });
    const copied = 'SELECT FROM chat_messages WHERE session_id = $1 AND metadata ? $2';
    expect((await runtime.db.query(copied, [copy, 'snapshot_id'])).rows).toEqual([]);
    const home = userFolder('', session.user);
    await eraseSession(runtime.db, { sessionId: session.id, userId: session.user, home, wholeUser: false });
    await eventually(() => expect(existsSync(snapshotsOf(session))).toBe(false));
  });

  it('X2 a turn goes on if no snapshot can be taken, and a rewind to it leaves the files as they are', async () => {
    hook = { ...copies, take: () => Promise.reject(new Error('no space left')) };
    const session = await built('index.html one', 'index.html two');
    await rewind(session, 'm2');
    expect(await files(session)).toEqual({ 'index.html': 'two' });
    expect(warningsOf(session)).toHaveLength(2);
  });

  it('X2 no snapshot is taken of a workspace that is too large; a warning names the session and the setting', async () => {
    hook = workspaceSnapshots('copy', 3);
    const session = await built('index.html one', 'index.html long', 'index.html two');
    expect(await readdir(path.join(snapshotsOf(session), 'copies'))).toHaveLength(2);
    const message = 'the hook snapshots.take has failed: the workspace has more than 3 bytes (PERDURE_MAX_SNAPSHOT)';
    expect(warningsOf(session)).toMatchObject([{ err: { message } }]);
  });

  it.each(['on a worker with the hook', 'on a worker without one'])(
    'X2 a slow hook does not hold the rewind; the next turn, %s, waits for it',
    async (where) => {
      const session = await built('index.html one', 'index.html two');
      const gate = heldRestore();
      await rewind(session, 'm2');
      expect(await files(session)).toEqual({ 'index.html': 'two' });
      if (where.endsWith('without one')) hook = undefined;
      using asked = countRestores(session);
      const run = await session.send('other three');
      // It asks again only because it has been told to wait.
      await eventually(() => expect(asked.times).toBeGreaterThan(1));
      gate.open();
      await session.ended(run);
      expect(await files(session)).toEqual({ 'index.html': 'one', other: 'three' });
    },
  );

  it('X2 a rewind that is undone while its snapshot is taken leaves the files as they are', async () => {
    const session = await built('index.html one', 'index.html two');
    const [gate, restored] = [new Gate(), vi.fn(copies.restore)];
    hook = {
      async take(...place) {
        await gate.pass();
        return copies.take(...place);
      },
      restore: restored,
    };
    await rewind(session, 'm2');
    await unrewind(session);
    gate.open();
    await session.ended(await session.send('other three'));
    expect(await files(session)).toEqual({ 'index.html': 'two', other: 'three' });
    expect(restored).not.toHaveBeenCalled();
  });

  it('X2 an edit during a restore waits for it', async () => {
    const session = await built('index.html one', 'index.html two');
    const gate = new Gate();
    const [running, others] = [new Set<string>(), [] as number[]];
    hook = {
      ...copies,
      async restore(...place) {
        others.push(running.size);
        running.add(place[1]);
        await gate.pass();
        await copies.restore(...place);
        running.delete(place[1]);
      },
    };
    await rewind(session, 'm2');
    using asked = countRestores(session);
    const run = await session.edit('m1', 'other three');
    await eventually(() => expect(asked.times).toBeGreaterThan(1));
    gate.open();
    await session.ended(run);
    expect(await files(session)).toEqual({ other: 'three' });
    expect(others, 'restores in progress when one began').toEqual([0, 0]);
  });
});
