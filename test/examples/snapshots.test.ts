// Rewinds bring the files of the site-builder back, through workflow, worker and tools.
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Snapshots } from '../../agent/snapshots.ts';
import { KEPT, workspaceCopies } from '../../examples/site-builder/snapshots.ts';
import { eraseSession } from '../../store/erasure.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { aroundCalls } from '../faults/sql-calls.ts';

/** The hook of the test at hand. */
let hook: Snapshots;
let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    // "page text": writes the text to the page, a file. Anything else is answered.
    script(request) {
      const [file, content] = lastUserText(request).split(' ');
      const last = request.messages.at(-1);
      if (content === undefined || last?.role === 'tool') return [say('done')];
      return [callTool('call_1', 'write_file', { path: file, content })];
    },
    hooks: {
      snapshots: {
        take: (...place) => hook.take(...place),
        restore: (...place) => hook.restore(...place),
      },
    },
  });
});
beforeEach(() => {
  hook = workspaceCopies;
});

const rootOf = (session: TestSession) => path.join(userFolder(runtime.workspaces, session.user), session.id);
const snapshotsOf = (session: TestSession) =>
  path.join(userFolder(runtime.workspaces, session.user), '.snapshots', session.id);

/** The files of a session's workspace, with their texts. */
async function files(session: TestSession): Promise<Record<string, string>> {
  const root = rootOf(session);
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

const rewind = (session: TestSession, message_id: string) => session.command(updates.rewind, { message_id });
const unrewind = (session: TestSession) => session.command(updates.unrewind);

describe('with snapshots', () => {
  it('X2 a rewind over several messages restores the files from before its message; un-rewinds bring each state back', async () => {
    const session = await built('index.html one', 'index.html two', 'css/site.css blue', 'hello there friend');
    const all = { 'index.html': 'two', 'css/site.css': 'blue', hello: 'there' };
    expect(await files(session)).toEqual(all);
    for (let round = 0; round < 2; round += 1) {
      await rewind(session, 'm3');
      expect(await files(session)).toEqual({ 'index.html': 'two' });
      await rewind(session, 'm1');
      expect(await files(session)).toEqual({});
      await unrewind(session);
      expect(await files(session)).toEqual({ 'index.html': 'two' });
      await unrewind(session);
      expect(await files(session)).toEqual(all);
    }
    await rewind(session, 'm2');
    await session.ended(await session.send('index.html three'));
    expect(await files(session)).toEqual({ 'index.html': 'three' });
  });

  it('X2 only a turn that begins with files to restore asks for them', async () => {
    const session = await built('index.html one', 'index.html two');
    const asked: unknown[] = [];
    using _hook = aroundCalls(runtime.db, {
      before: ({ name, args }) => {
        if (name === 'begin_restore' && args[0] === session.id) asked.push(name);
      },
    });
    await session.ended(await session.send('index.html three', 'm3'));
    expect(asked).toEqual([]);
    await session.ended(await session.edit('m3', 'hello there'));
    expect(asked).not.toEqual([]);
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
    expect(await files(session)).toEqual({ 'index.html': 'one', a: 'x' });
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
    expect(await readdir(snapshotsOf(session))).toEqual([rows[0]!.id]);
    const { session_id: copy } = await session.command(updates.branch, { from_message_id: 'm1' });
    const copied = 'SELECT FROM chat_messages WHERE session_id = $1 AND metadata ? $2';
    expect((await runtime.db.query(copied, [copy, 'snapshot_id'])).rows).toEqual([]);
    const home = userFolder('', session.user);
    await eraseSession(runtime.db, { sessionId: session.id, userId: session.user, home, wholeUser: false });
    await eventually(() => expect(existsSync(snapshotsOf(session))).toBe(false));
  });

  it('X2 a turn goes on if no snapshot can be taken, and a rewind to it leaves the files as they are', async () => {
    hook = { ...workspaceCopies, take: () => Promise.reject(new Error('no space left')) };
    const session = await built('index.html one', 'index.html two');
    await rewind(session, 'm2');
    expect(await files(session)).toEqual({ 'index.html': 'two' });
    expect(runtime.logs.some(({ msg }) => msg.startsWith('no snapshot was taken'))).toBe(true);
  });

  it('X2 if the files cannot be restored, the next turn says so, and the one after it goes on', async () => {
    const session = await built('index.html one', 'index.html two');
    hook = { ...workspaceCopies, restore: () => Promise.reject(new Error('broken')) };
    await rewind(session, 'm2');
    const refused = await session.ended(await session.send('index.html three'));
    expect(refused).toMatchObject({ state: 'error', error_code: 'WorkspaceNotUsable' });
    expect(await files(session)).toEqual({ 'index.html': 'two' });
    hook = workspaceCopies;
    expect(await session.ended(await session.send('other four'))).toMatchObject({ state: 'finished' });
    expect(await files(session)).toEqual({ 'index.html': 'two', other: 'four' });
  });

  it('X2 a slow hook does not hold the rewind; the next turn waits for it', async () => {
    const session = await built('index.html one', 'index.html two');
    const gate = new Gate();
    hook = {
      ...workspaceCopies,
      async restore(...place) {
        await gate.pass();
        await workspaceCopies.restore(...place);
      },
    };
    await rewind(session, 'm2');
    expect(await files(session)).toEqual({ 'index.html': 'two' });
    const run = await session.send('other three');
    await eventually(async () => expect((await session.run(run)).state).toBe('running'));
    gate.open();
    await session.ended(run);
    expect(await files(session)).toEqual({ 'index.html': 'one', other: 'three' });
  });

  it('X2 a rewind that is undone while its snapshot is taken leaves the files as they are', async () => {
    const session = await built('index.html one', 'index.html two');
    const [gate, restored] = [new Gate(), vi.fn(workspaceCopies.restore)];
    hook = {
      async take(...place) {
        await gate.pass();
        return workspaceCopies.take(...place);
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
      ...workspaceCopies,
      async restore(...place) {
        others.push(running.size);
        running.add(place[1]);
        await gate.pass();
        await workspaceCopies.restore(...place);
        running.delete(place[1]);
      },
    };
    await rewind(session, 'm2');
    const run = await session.edit('m1', 'other three');
    await eventually(async () => expect((await session.run(run)).state).toBe('running'));
    gate.open();
    await session.ended(run);
    expect(await files(session)).toEqual({ other: 'three' });
    expect(others, 'restores in progress when one began').toEqual([0, 0]);
  });
});

describe('copies of a workspace', () => {
  const signal = new AbortController().signal;

  /** A workspace with two files, and a folder for its snapshots. */
  async function place() {
    const home = await mkdtemp(path.join(tmpdir(), 'perdure-snapshots-'));
    afterFile(() => rm(home, { recursive: true, force: true }));
    const workspaceRoot = path.join(home, 'workspace');
    await mkdir(path.join(workspaceRoot, 'css'), { recursive: true });
    await writeFile(path.join(workspaceRoot, 'index.html'), 'one');
    await writeFile(path.join(workspaceRoot, 'css/site.css'), 'blue');
    await symlink('index.html', path.join(workspaceRoot, 'link'));
    return { sessionId: 's', userId: 'ada', projectId: null, workspaceRoot, folder: path.join(home, 'snapshots') };
  }

  it('X2 a restore that is cut off leaves the files as they are, and a later one restores them', async () => {
    const at = await place();
    const id = await workspaceCopies.take(at, signal);
    const page = path.join(at.workspaceRoot, 'index.html');
    await writeFile(page, 'two');
    // Aborted at the second entry that is copied.
    let checks = 0;
    const cutOff = {
      throwIfAborted() {
        checks += 1;
        if (checks > 1) throw new Error('time is up');
      },
    } as AbortSignal;
    await expect(workspaceCopies.restore(at, id!, cutOff)).rejects.toThrow('time is up');
    expect(await readFile(page, 'utf8')).toBe('two');
    expect((await readdir(at.workspaceRoot)).toSorted()).toEqual(['css', 'index.html', 'link']);
    expect(await readdir(at.folder)).toEqual([id]);
    await workspaceCopies.restore(at, id!, signal);
    expect(await readFile(path.join(at.workspaceRoot, 'link'), 'utf8')).toBe('one');
    expect(await readdir(at.folder)).toEqual([id]);
  });

  it('X2 the newest ones are kept; the files stay as they are if one that is gone is to be restored', async () => {
    const at = await place();
    const ids: string[] = [];
    for (let n = 0; n < KEPT + 2; n += 1) {
      const id = (await workspaceCopies.take(at, signal))!;
      await utimes(path.join(at.folder, id), n, n);
      ids.push(id);
    }
    expect((await readdir(at.folder)).toSorted()).toEqual(ids.slice(2).toSorted());
    await expect(workspaceCopies.restore(at, ids[0]!, signal)).rejects.toThrow('ENOENT');
    expect((await readdir(at.workspaceRoot)).toSorted()).toEqual(['css', 'index.html', 'link']);
  });
});
