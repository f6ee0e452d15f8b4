// The site-builder's snapshots of a workspace, as copies and in git.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { chmod, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { KEPT, type SnapshotKind, workspaceSnapshots } from '../../examples/site-builder/snapshots.ts';
import { MAX_ENTRIES } from '../../examples/site-builder/workspace-folders.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { dropPrivileges, nameOf, never, PAGE, placeWith, read, STATES, write } from './workspace-files.ts';

const run = promisify(execFile);

describe.each<SnapshotKind>(['copy', 'git'])('snapshots by %s', (kind) => {
  const { take, restore } = workspaceSnapshots(kind, 2 * 1024 ** 2);
  const statesOf = (folder: string) => readdir(path.join(folder, STATES[kind]));

  it('X2 a restore makes the workspace exactly what it was, whatever is in it', async () => {
    const at = await placeWith({
      ...PAGE,
      empty: null,
      'deep/er/and/empty': null,
      'empty.txt': '',
      binary: Buffer.from([0, 1, 255, 13, 10, 13]),
      'large.txt': 'line\r\n'.repeat(50_000),
      'to-nowhere': '→ /nowhere/at all',
      'to-folder': '→ css',
      '.gitignore': '*\n',
      '.gitattributes': '* text=auto eol=crlf ident export-ignore working-tree-encoding=UTF-16 filter=evil\n',
      'dollar.txt': '$Id$\n',
      '.git/HEAD': 'ref: refs/heads/main\n',
      '.git/objects': null,
      'nested/.git': 'gitdir: ../.git\n',
      'nested/a': 'a',
      'new\nline': 'x',
      ' "quoted" \\ \t ': 'x',
      '-rf': 'x',
      'ünïcode ✓': 'x',
    });
    const root = at.workspaceRoot;
    await chmod(path.join(root, 'index.html'), 0o600);
    await chmod(path.join(root, 'binary'), 0o755);
    await chmod(path.join(root, 'css'), 0o700);
    const before = await read(root);
    const id = await take(at, never);
    for (const name of ['css', 'empty', 'binary', '.git', 'link', 'new\nline']) {
      await rm(path.join(root, name), { recursive: true });
    }
    await write(root, { css: 'a file', binary: null, 'added/later': 'x', link: 'a file', '.git/config': 'x' });
    await writeFile(path.join(root, 'index.html'), 'two');
    await chmod(path.join(root, 'empty.txt'), 0o777);
    const after = await read(root);
    const changed = await take(at, never);
    for (const [of, expected] of [
      [id, before],
      [changed, after],
      [id, before],
    ] as const) {
      await restore(at, of!, never);
      expect(await read(root)).toEqual(expected);
    }
    expect(await readdir(path.join(at.folder, 'unfinished'))).toEqual([]);
  });

  it('X2 what is cut off leaves the files as they are, and a later one restores them', async () => {
    const files = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`f${n % 7}/${n}`, `one ${n}`]));
    const at = await placeWith(files);
    const id = (await take(at, never))!;
    const before = await read(at.workspaceRoot);
    await write(at.workspaceRoot, { ...files, 'f1/1': 'two', more: 'more' });
    const after = await read(at.workspaceRoot);
    /** Aborted after so many turns of the event loop; whether it was cut off. */
    const isCutOff = async (ticks: number, work: (cut: AbortSignal) => Promise<unknown>) => {
      const controller = new AbortController();
      const working = work(controller.signal).then(
        () => false,
        () => true,
      );
      for (let tick = 0; tick < ticks; tick += 1) await nextTick();
      controller.abort();
      return working;
    };
    for (const ticks of [0, 3, 30, 100]) {
      const states = await statesOf(at.folder);
      const isTakeCut = await isCutOff(ticks, (cut) => take(at, cut));
      expect(isTakeCut || ticks > 0).toBe(true);
      if (isTakeCut) expect(await statesOf(at.folder)).toEqual(states);
      const isCut = await isCutOff(ticks, (cut) => restore(at, id, cut));
      expect(isCut || ticks > 0).toBe(true);
      expect(await read(at.workspaceRoot), `${ticks}`).toEqual(isCut ? after : before);
      expect(await readdir(path.join(at.folder, 'unfinished'))).toEqual([]);
      await restore(at, id, never);
      expect(await read(at.workspaceRoot)).toEqual(before);
      await write(at.workspaceRoot, { ...files, 'f1/1': 'two', more: 'more' });
    }
  });

  it('X2 a restore whose time is up at its last moment leaves the files as they are', async () => {
    const at = await placeWith(PAGE);
    const id = (await take(at, never))!;
    await writeFile(path.join(at.workspaceRoot, 'index.html'), 'two');
    const before = await read(at.workspaceRoot);
    let [checks, last] = [0, Infinity];
    const { signal } = new AbortController();
    signal.throwIfAborted = () => {
      checks += 1;
      if (checks === last) throw new Error('time is up');
    };
    await restore(at, id, signal);
    [checks, last] = [0, checks];
    await writeFile(path.join(at.workspaceRoot, 'index.html'), 'two');
    await expect(restore(at, id, signal)).rejects.toThrow('time is up');
    expect(await read(at.workspaceRoot)).toEqual(before);
  });

  it('X2 a restore succeeds while another session makes the folder, and files in it, whenever there is none', async () => {
    const at = await placeWith(PAGE);
    const id = (await take(at, never))!;
    const over = new AbortController();
    const others = (async () => {
      for (; !over.signal.aborted; await nextTick()) {
        mkdirSync(at.workspaceRoot, { recursive: true });
        writeFileSync(path.join(at.workspaceRoot, 'theirs'), '');
      }
    })();
    for (let n = 0; n < 20; n += 1) {
      await restore(at, id, never);
      expect(await read(at.workspaceRoot)).toMatchObject({ link: '→ index.html' });
    }
    over.abort();
    await others;
  });

  it('Q3 set-uid and set-gid are not restored: the file may have another owner then', async () => {
    const at = await placeWith(PAGE);
    const page = path.join(at.workspaceRoot, 'index.html');
    await chmod(page, 0o6755);
    await restore(at, (await take(at, never))!, never);
    expect(((await stat(page)).mode & 0o7777).toString(8)).toBe('755');
  });

  it('Q3 a restore replaces nothing outside, if a folder around the workspace is replaced by a link meanwhile', async () => {
    const { home, ...at } = await placeWith({ 'site/index.html': 'one' });
    const outer = at.workspaceRoot;
    const place = { ...at, workspaceRoot: path.join(outer, 'site') };
    const id = (await take(place, never))!;
    await write(home, { 'theirs/site/index.html': 'theirs' });
    const { signal } = new AbortController();
    let [checks, last] = [0, Infinity];
    signal.throwIfAborted = () => {
      checks += 1;
      if (checks !== last) return;
      renameSync(outer, `${outer}-moved`);
      symlinkSync(path.join(home, 'theirs'), outer);
    };
    await restore(place, id, signal);
    [checks, last] = [0, checks];
    await expect(restore(place, id, signal)).rejects.toThrow('replaced by a link');
    expect(await readFile(path.join(home, 'theirs/site/index.html'), 'utf8')).toBe('theirs');
    expect(await readFile(path.join(`${outer}-moved`, 'site/index.html'), 'utf8')).toBe('one');
  });

  it('X2 the newest ones are kept; the files stay as they are if one that is gone is to be restored', async () => {
    const at = await placeWith(PAGE);
    const before = await read(at.workspaceRoot);
    const other = kind === 'git' ? 'copy' : 'git';
    const oldest = path.join(
      at.folder,
      STATES[other],
      nameOf((await workspaceSnapshots(other, 1024).take(at, never))!),
    );
    await utimes(oldest, 0, 0);
    const ids: string[] = [];
    for (let n = 0; n < KEPT + 2; n += 1) {
      const id = (await take(at, never))!;
      ids.push(id);
      await utimes(path.join(at.folder, STATES[kind], nameOf(id)), n, n);
    }
    expect((await statesOf(at.folder)).toSorted()).toEqual(ids.slice(2).map(nameOf).toSorted());
    expect(existsSync(oldest), 'one of the other kind').toBe(false);
    await expect(restore(at, ids[0]!, never)).rejects.toThrow('ENOENT');
    for (const id of [
      '',
      'x',
      '../../etc',
      `${kind}-00000000-../../../../${at.workspaceRoot}`,
      ids[2]!.toUpperCase(),
    ]) {
      await expect(restore(at, id, never), id).rejects.toThrow('there is no such snapshot');
    }
    expect(await read(at.workspaceRoot)).toEqual(before);
  });

  it('X2 read-only folders are restored, and deleted when they are no longer kept', async () => {
    dropPrivileges();
    const at = await placeWith({ 'sealed/deep/file': 'one', 'other.txt': 'one' });
    for (const name of ['sealed/deep', 'sealed']) await chmod(path.join(at.workspaceRoot, name), 0o555);
    const before = await read(at.workspaceRoot);
    for (let n = 0; n < KEPT; n += 1) await take(at, never);
    const id = (await take(at, never))!;
    expect(await statesOf(at.folder)).toHaveLength(KEPT);
    await writeFile(path.join(at.workspaceRoot, 'other.txt'), 'two');
    await restore(at, id, never);
    expect(await read(at.workspaceRoot)).toEqual(before);
    expect(await readdir(path.join(at.folder, 'unfinished'))).toEqual([]);
  });

  it('X2 what cannot be deleted keeps no snapshot from being taken or restored', async () => {
    const at = await placeWith(PAGE);
    const id = (await take(at, never))!;
    const before = await read(at.workspaceRoot);
    // Longer than a path may be.
    const script = 'for n in $(seq 30); do mkdir $1 && cd -P $1 || exit 1; done';
    await run('bash', ['-c', script, 'bash', 'x'.repeat(200)], { cwd: at.workspaceRoot });
    await restore(at, id, never);
    expect(await read(at.workspaceRoot)).toEqual(before);
    const left = path.join(at.folder, 'unfinished');
    expect(await readdir(left)).toHaveLength(1);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 70_000 });
    onTestFinished(() => void vi.useRealTimers());
    expect(await take(at, never)).toMatch(kind);
    await run('rm', ['-r', left]);
  });

  it('X2 what a lost worker has left unfinished is deleted', async () => {
    const at = await placeWith(PAGE);
    await write(at.folder, { 'unfinished/left/index.html': 'one' });
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 10_000 });
    onTestFinished(() => void vi.useRealTimers());
    await take(at, never);
    expect(await readdir(path.join(at.folder, 'unfinished'))).toEqual(['left']);
    vi.setSystemTime(Date.now() + 60_000);
    await take(at, never);
    expect(await readdir(path.join(at.folder, 'unfinished'))).toEqual([]);
  });

  it.each<[string, (root: string) => Promise<unknown>, string]>([
    ['bytes', (root) => writeFile(path.join(root, 'large'), Buffer.alloc(2 * 1024 ** 2)), 'more than 2097152 bytes'],
    [
      'files',
      (root) => write(root, Object.fromEntries(Array.from({ length: MAX_ENTRIES }, (_, n) => [`${n}`, '']))),
      `more than ${MAX_ENTRIES} files`,
    ],
    [
      'names',
      (root) => writeFile(Buffer.concat([Buffer.from(`${root}/x`), Buffer.from([255])]), ''),
      'the name of x\uFFFD is not UTF-8',
    ],
    ['pipes', (root) => run('mkfifo', [path.join(root, 'pipe')]), 'pipe is no file, folder or link'],
  ])('X2 a workspace with too many, or bad, %s has no snapshot', async (_, fill, message) => {
    const at = await placeWith(PAGE);
    await fill(at.workspaceRoot);
    await expect(take(at, never)).rejects.toThrow(message);
    expect(existsSync(at.folder)).toBe(false);
  });

  it('X2 a snapshot of another folder is not restored; a project that the session has made was empty before', async () => {
    const at = await placeWith(PAGE);
    const id = (await take(at, never))!;
    const project = { ...at, workspaceRoot: path.join(at.home, 'project') };
    await write(project.workspaceRoot, { 'page.html': 'theirs' });
    const before = await read(project.workspaceRoot);
    await restore(project, id, never);
    expect(await read(project.workspaceRoot)).toEqual(before);
    await restore({ ...project, madeProject: true }, id, never);
    expect(await read(project.workspaceRoot)).toEqual({});
  });

  it('X2 after the setting has changed, those of before are restored, also where the folder of workspaces has moved', async () => {
    const at = await placeWith(PAGE);
    const before = await read(at.workspaceRoot);
    const id = (await take(at, never))!;
    await rename(at.home, `${at.home}-moved`);
    afterFile(() => rm(`${at.home}-moved`, { recursive: true, force: true }));
    const [workspaceRoot, folder] = [at.workspaceRoot, at.folder].map((each) =>
      each.replace(at.home, `${at.home}-moved`),
    );
    await writeFile(path.join(workspaceRoot!, 'index.html'), 'two');
    const others = workspaceSnapshots(kind === 'git' ? 'copy' : 'git', 1024);
    await others.restore({ ...at, workspaceRoot: workspaceRoot!, folder: folder! }, id, never);
    expect(await read(workspaceRoot!)).toEqual(before);
  });
});
