// The site-builder's snapshots in git: what git must not do, what it stores, and what it deletes.
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { SnapshotPlace } from '../../agent/snapshots.ts';
import { workspaceSnapshots } from '../../examples/site-builder/snapshots.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { folderInside } from '../../workspaces/open.ts';
import { type Files, nameOf, never, PAGE, placeWith, read, STATES, write } from './workspace-files.ts';

const run = promisify(execFile);
const { take, restore } = workspaceSnapshots('git', 1024 ** 2);
/** Files of the repository's objects. */
const objectsOf = async (folder: string) =>
  (await readdir(path.join(folder, 'git/objects'), { recursive: true })).filter((name) => /[0-9a-f]{38}/.test(name));
const many = (text: string): Files =>
  Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`m/${n}`, `${text} ${n}`]));

it('Q3 nothing in a workspace, a repository or the environment makes git run a command', async () => {
  const at = await placeWith({ ...PAGE, ...many('one') });
  const { home, workspaceRoot: root } = at;
  const evil = path.join(home, 'evil');
  await writeFile(evil, `#!/bin/sh\necho "$0" >> ${home}/has-run\n`, { mode: 0o755 });
  const config = `[core]
	fsmonitor = ${evil}
	hooksPath = ${home}/hooks
	pager = ${evil}
	sshCommand = ${evil}
	attributesFile = ${home}/attributes
	worktree = ${root}
[filter "evil"]
	clean = ${evil}
	smudge = ${evil}
	process = ${evil}
	required = true
[diff "evil"]
	textconv = ${evil}
[gc]
	recentObjectsHook = ${evil}
[alias]
	gc = !${evil}
	mktree = !${evil}
`;
  const attributes = '* filter=evil diff=evil text=auto ident\n';
  const hooks = ['pre-auto-gc', 'post-index-change', 'reference-transaction', 'post-checkout', 'fsmonitor-watchman'];
  for (const hook of hooks) {
    for (const folder of ['hooks', 'template/hooks', 'workspace/.git/hooks']) {
      await mkdir(path.join(home, folder), { recursive: true });
      await cp(evil, path.join(home, folder, hook));
    }
  }
  await run('git', ['init', '-q', path.join(root, 'nested')]);
  await write(home, { '.gitconfig': config, 'xdg/git/config': config, attributes, 'template/config': config });
  await write(root, {
    '.gitattributes': attributes,
    'm/.gitattributes': attributes,
    '.gitmodules': `[submodule "nested"]\n\tpath = nested\n\turl = ./nested\n\tupdate = !${evil}\n`,
    '.git/config': config,
    '.git/HEAD': 'ref: refs/heads/main\n',
    '.git/objects': null,
    '.git/refs': null,
    'nested/.git/config': config,
  });
  const before = await read(root);
  const variables = {
    HOME: home,
    XDG_CONFIG_HOME: path.join(home, 'xdg'),
    GIT_DIR: path.join(root, '.git'),
    GIT_WORK_TREE: root,
    GIT_CONFIG_GLOBAL: path.join(home, '.gitconfig'),
    GIT_CONFIG_SYSTEM: path.join(home, '.gitconfig'),
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'core.hooksPath',
    GIT_CONFIG_VALUE_0: path.join(home, 'hooks'),
    GIT_TEMPLATE_DIR: path.join(home, 'template'),
    GIT_EXTERNAL_DIFF: evil,
    GIT_PAGER: evil,
    GIT_OBJECT_DIRECTORY: path.join(home, 'objects'),
    GIT_INDEX_FILE: path.join(home, 'index'),
    GIT_TRACE: path.join(home, 'traced'),
  };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const id = (await take(at, never))!;
  // As if somebody got there.
  await cp(path.join(home, 'hooks'), path.join(at.folder, 'git/hooks'), { recursive: true });
  await writeFile(path.join(at.folder, 'git/config'), `${config}[gc]\n\tauto = 1\n`);
  await write(root, many('two'));
  await take(at, never);
  await writeFile(path.join(at.folder, 'git/config'), config);
  await restore(at, id, never);
  expect(await read(root)).toEqual(before);
  expect(['has-run', 'traced', 'objects', 'index'].filter((name) => existsSync(path.join(home, name)))).toEqual([]);
  // As a work tree it would have.
  await run('git', ['hash-object', 'index.html'], { cwd: root }).catch(() => {});
  expect(existsSync(path.join(home, 'has-run'))).toBe(true);
});

it('Q3 a file or folder that is replaced by a link, or a file that has grown, is not read', async () => {
  const { workspaceRoot: root, home } = await placeWith({ file: '→ ../secret', 'folder/secret': 'mine' });
  await write(home, { secret: 'theirs' });
  await run('mkfifo', [path.join(root, 'pipe')]);
  const copied = path.join(home, 'copied');
  await using folder = await folderInside(root, 'folder');
  await rename(path.join(root, 'folder'), path.join(root, 'moved'));
  await symlink('..', path.join(root, 'folder'));
  await folder.copy('secret', copied, 4);
  expect(await readFile(copied, 'utf8')).toBe('mine');
  await using top = await folderInside(root, '.');
  await expect(folder.copy('secret', `${copied}2`, 3)).rejects.toMatchObject({ code: 'EFBIG' });
  await expect(top.copy('file', `${copied}2`, 9)).rejects.toMatchObject({ code: 'ELOOP' });
  await expect(top.copy('pipe', `${copied}2`, 9)).rejects.toMatchObject({ code: 'EINVAL' });
  await expect(folderInside(root, 'folder')).rejects.toMatchObject({ code: 'ELOOP' });
  expect(existsSync(`${copied}2`)).toBe(false);
});

/** Takes snapshots until the stamps of the files are old enough to be trusted. */
const untilSettled = (at: SnapshotPlace) =>
  eventually(async () => {
    const id = (await take(at, never))!;
    const stamps = JSON.parse(await readFile(path.join(at.folder, 'stamps.json'), 'utf8')) as unknown[];
    expect(stamps).toHaveLength(Object.keys(PAGE).length);
    return id;
  });

it('X2 only contents that have changed are stored, and every change is seen', async () => {
  const at = await placeWith(PAGE);
  const page = path.join(at.workspaceRoot, 'index.html');
  await utimes(page, 1, 1);
  const one = await untilSettled(at);
  const objects = await objectsOf(at.folder);
  await writeFile(page, 'two');
  await utimes(page, 1, 1);
  const two = (await take(at, never))!;
  // The content, and the folder.
  expect(await objectsOf(at.folder)).toHaveLength(objects.length + 2);
  await writeFile(page, 'six');
  const six = (await take(at, never))!;
  for (const [id, text] of Object.entries({ [one]: 'one', [two]: 'two', [six]: 'six' })) {
    await restore(at, id, never);
    expect(await readFile(page, 'utf8')).toBe(text);
  }
});

it('X2 a file that has not changed is not read', async () => {
  const at = await placeWith(PAGE);
  await untilSettled(at);
  const file = path.join(at.folder, 'stamps.json');
  const stamps = JSON.parse(await readFile(file, 'utf8')) as [string, string][];
  const [, other] = stamps.find(([stamp]) => stamp.endsWith('site.css'))!;
  await writeFile(file, JSON.stringify(stamps.map(([stamp]) => [stamp, other])));
  await restore(at, (await take(at, never))!, never);
  expect(await readFile(path.join(at.workspaceRoot, 'index.html'), 'utf8')).toBe('blue');
});

async function empty(object: string) {
  await chmod(object, 0o600);
  await writeFile(object, '');
}

it.each([
  ['is gone', (object: string) => rm(object)],
  ['is empty, as a crash of the machine leaves it', empty],
])('X2 if what git has of a file that has not changed %s, the next snapshot stores it again', async (_, lose) => {
  const at = await placeWith(PAGE);
  await untilSettled(at);
  const { stdout } = await run('git', ['hash-object', path.join(at.workspaceRoot, 'index.html')]);
  await lose(path.join(at.folder, 'git/objects', stdout.slice(0, 2), stdout.trim().slice(2)));
  const before = await read(at.workspaceRoot);
  const id = (await take(at, never))!;
  await writeFile(path.join(at.workspaceRoot, 'index.html'), 'two');
  await restore(at, id, never);
  expect(await read(at.workspaceRoot)).toEqual(before);
});

it('X2 if a restore finds a tree that a crash of the machine has left empty, the next snapshot stores it again', async () => {
  const at = await placeWith(PAGE);
  const id = (await take(at, never))!;
  const tree = (await readFile(path.join(at.folder, STATES.git, nameOf(id)), 'utf8')).trim();
  await empty(path.join(at.folder, 'git/objects', tree.slice(0, 2), tree.slice(2)));
  await expect(restore(at, id, never)).rejects.toThrow(`${tree} is lost`);
  await take(at, never);
  const before = await read(at.workspaceRoot);
  await writeFile(path.join(at.workspaceRoot, 'index.html'), 'two');
  await restore(at, id, never);
  expect(await read(at.workspaceRoot)).toEqual(before);
});

it('X2 a state that a crash of the machine has left empty does not keep others from being collected', async () => {
  const at = await placeWith(many('one'));
  await take(at, never);
  const lost = path.join(at.folder, STATES.git, randomUUID());
  await writeFile(lost, '');
  await write(at.workspaceRoot, many('two'));
  expect(await take(at, never)).toMatch('git-');
  await eventually(() => expect(existsSync(lost)).toBe(false));
});

/** Lets a command of git hang, and ignore SIGTERM, until the test has ended. @returns its process, once it runs */
async function hanging(command: string, home: string): Promise<() => Promise<number>> {
  const [bin, pidFile] = [path.join(home, 'bin'), path.join(home, 'pid')];
  const { stdout } = await run('sh', ['-c', 'command -v git']);
  const script = `[ "$1" = ${command} ] || exec ${stdout.trim()} "$@"\ntrap '' TERM\necho $$ > ${pidFile}\nexec sleep 1000\n`;
  await mkdir(bin);
  await writeFile(path.join(bin, 'git'), `#!/bin/sh\n${script}`, { mode: 0o755 });
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  const pid = () =>
    eventually(async () => {
      const text = await readFile(pidFile, 'utf8');
      expect(text).toMatch(/\n$/);
      return Number(text);
    });
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await pid()
      .then((hung) => process.kill(hung, 'SIGKILL'))
      .catch(() => {});
  });
  return pid;
}

it('Q3 a git that hangs is killed when the time of the snapshot is up', async () => {
  const at = await placeWith(PAGE);
  const pid = await hanging('mktree', at.home);
  const time = new AbortController();
  const taken = take(at, time.signal);
  const hung = await pid();
  time.abort();
  await expect(taken).rejects.toThrow('aborted');
  await eventually(() => expect(() => process.kill(hung, 0)).toThrow('ESRCH'));
  expect(await readdir(path.join(at.folder, 'unfinished'))).toEqual([]);
});

it('X2 a collection that takes longer than a snapshot does not hold it', async () => {
  const at = await placeWith(PAGE);
  const before = await read(at.workspaceRoot);
  const pid = await hanging('gc', at.home);
  const id = (await take(at, never))!;
  expect(await pid()).toBeGreaterThan(0);
  await writeFile(path.join(at.workspaceRoot, 'index.html'), 'two');
  await restore(at, id, never);
  expect(await read(at.workspaceRoot)).toEqual(before);
});

/** Until git has ended what it goes on with after a snapshot. */
const untilCollected = (folder: string) =>
  eventually(() => expect(existsSync(path.join(folder, 'git/gc.pid'))).toBe(false));

it('X2 what no kept snapshot has is collected', async () => {
  const at = await placeWith(many('none'));
  const objects = path.join(at.folder, 'git/objects');
  const dropped = (await take(at, never))!;
  await rm(path.join(at.folder, STATES.git, nameOf(dropped)));
  const { stdout } = await run('git', ['hash-object', path.join(at.workspaceRoot, 'm/7')]);
  const git = (...args: string[]) => run('git', ['--git-dir', path.join(at.folder, 'git'), ...args]);
  const isThere = () =>
    git('cat-file', '-e', stdout.trim()).then(
      () => true,
      () => false,
    );
  expect(await isThere()).toBe(true);
  const ids: string[] = [];
  // Git looks how much there is, by one of its folders, and collects packs when there are several.
  for (let n = 0; n < 20 && (await isThere()); n += 1) {
    await untilCollected(at.folder);
    for (const name of await readdir(objects, { recursive: true })) await utimes(path.join(objects, name), 0, 0);
    await write(at.workspaceRoot, many(String(n)));
    ids.push((await take(at, never))!);
  }
  await untilCollected(at.folder);
  expect(await isThere()).toBe(false);
  for (const [n, id] of ids.entries()) {
    await restore(at, id, never);
    expect(await readFile(path.join(at.workspaceRoot, 'm/7'), 'utf8')).toBe(`${n} 7`);
  }
  expect((await git('fsck', '--full')).stderr).not.toContain('missing');
});
