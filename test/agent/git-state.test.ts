// What a prompt says of the git repository of its workspace.
import { execFileSync } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { assemblePrompt } from '../../agent/prompt/assemble-prompt.ts';

let boundary: string;
let workspaceRoot: string;

beforeEach(() => {
  boundary = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'perdure-git-state-')));
  workspaceRoot = path.join(boundary, 'team', 'site');
  mkdirSync(workspaceRoot, { recursive: true });
  const made = boundary;
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
});

async function stateOf(): Promise<string | undefined> {
  const agent = { prompt: 'Build sites.', tools: [] };
  const { system } = await assemblePrompt({ agent, workspaceRoot, boundary, date: '2026-03-01', model: 'openai/test' });
  return /- Git: (.*)/.exec(system)?.[1];
}

function write(file: string, text: string): void {
  writeFileSync(path.join(boundary, file), text);
}

function git(...args: string[]): void {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'init.defaultBranch=trunk'];
  execFileSync('git', [...identity, ...args], { cwd: workspaceRoot, stdio: 'ignore' });
}

/** Makes a repository and commits all that is there, and these files, with their names as text. */
function repository(files: readonly string[] = []): void {
  git('init');
  for (const file of files) {
    mkdirSync(path.dirname(path.join(workspaceRoot, file)), { recursive: true });
    write(`team/site/${file}`, file);
  }
  git('add', '.');
  git('commit', '--allow-empty', '-m', 'a');
}

it('P1 contains the branch, and clean or dirty', async () => {
  git('init');
  expect(await stateOf()).toBe('branch trunk, no commit yet');
  write('team/site/a.txt', 'a');
  git('add', '.');
  git('commit', '-m', 'a');
  expect(await stateOf()).toBe('branch trunk, clean');
  write('team/site/a.txt', 'b');
  expect(await stateOf()).toBe('branch trunk, dirty');
  git('commit', '-am', 'b');
  expect(await stateOf()).toBe('branch trunk, clean');
  write('team/site/new.txt', 'new');
  expect(await stateOf()).toBe('branch trunk, dirty');
  git('checkout', '--detach');
  expect(await stateOf()).toBe('no branch, dirty');
});

it('P1 finds packed branches', async () => {
  repository();
  git('pack-refs', '--all');
  expect(await stateOf()).toBe('branch trunk, clean');
});

it('P1 follows the `.git` of a worktree', async () => {
  repository(['a.txt']);
  git('worktree', 'add', '-b', 'other', '../tree');
  git('commit', '--allow-empty', '-m', 'b');
  workspaceRoot = path.join(boundary, 'team', 'tree');
  expect(await stateOf()).toBe('branch other, clean');
  write('team/tree/a.txt', 'b');
  expect(await stateOf()).toBe('branch other, dirty');
  git('commit', '-am', 'b');
  git('pack-refs', '--all');
  expect(await stateOf()).toBe('branch other, clean');
});

it('Q3 follows no `.git` to the folders of another user', async () => {
  git('init', '-b', 'secret');
  git('commit', '--allow-empty', '-m', 'a');
  git('worktree', 'add', '--detach', '../../user/tree');
  workspaceRoot = path.join(boundary, 'user', 'tree');
  expect(await stateOf()).toBe('unreadable');
  symlinkSync('../../team/site/.git', path.join(boundary, 'user', 'link'));
  write('user/tree/.git', 'gitdir: ../link\n');
  expect(await stateOf()).toBe('unreadable');
  mkdirSync(path.join(boundary, 'user', 'dir'));
  write('user/tree/.git', 'gitdir: ../dir\n');
  write('user/dir/HEAD', 'ref: refs/heads/secret\n');
  write('user/dir/commondir', '../../team/site/.git\n');
  expect(await stateOf()).toBe('unreadable');
  write('user/tree/.git', 'something else');
  expect(await stateOf()).toBe('unreadable');
});

it('Q3 runs no program that the repository’s configuration names', async () => {
  write('team/site/.gitattributes', '* filter=evil');
  repository(['a.txt']);
  const proof = path.join(boundary, 'proof');
  git('config', 'core.fsmonitor', `touch ${proof}`);
  git('config', 'filter.evil.clean', `touch ${proof}; cat`);
  write('team/site/a.txt', 'b');
  expect(await stateOf()).toBe('branch trunk, dirty');
  expect(() => realpathSync(proof)).toThrow('ENOENT');
});

it('P1 does not wait for a git that hangs, nor take its silence for a clean repository', async () => {
  repository();
  const bin = path.join(boundary, 'bin');
  mkdirSync(bin);
  const text = "#!/bin/sh\ntrap '' TERM\nfor n in 1 2 3 4 5 6 7 8 9; do sleep 1; done\n";
  writeFileSync(path.join(bin, 'git'), text, { mode: 0o755 });
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await stateOf()).toBe('branch trunk, state unknown');
});

it('P1 says so if a repository cannot be read', async () => {
  mkdirSync(path.join(workspaceRoot, '.git'));
  expect(await stateOf()).toBe('unreadable');
  write('team/site/.git/HEAD', 'ref: refs/heads/../../../../secret');
  expect(await stateOf()).toBe('unreadable');
});

describe('git', () => {
  let processes = 0;
  const started = () => void processes++;
  beforeEach(() => {
    subscribe('child_process', started);
    onTestFinished(() => void unsubscribe('child_process', started));
  });
  /** As if all files were old. */
  const later = () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 60_000 });
    onTestFinished(() => void vi.useRealTimers());
  };
  /** How often git was asked by a turn. */
  const asked = async () => {
    processes = 0;
    await stateOf();
    return processes;
  };
  /** Waits until the clock of the file system, which may stand still for some milliseconds, has moved on. */
  const tick = () => {
    const probe = path.join(boundary, 'probe');
    const now = () => (writeFileSync(probe, ''), lstatSync(probe, { bigint: true }).ctimeNs);
    const from = now();
    while (now() === from);
  };
  it('P1 no process starts without a repository', async () => {
    expect(await asked()).toBe(0);
    repository(['a.txt']);
    expect(await asked()).toBe(1);
  });

  it('P1 it is asked again only if something in the repository has changed, whatever that is', async () => {
    repository(['a.txt', 'src/b.txt', 'c.txt']);
    later();
    const at = (file: string) => path.join(workspaceRoot, file);
    const changes: readonly [what: string, state: string, change: () => void][] = [
      ['a longer file', 'dirty', () => write('team/site/a.txt', 'longer than before')],
      ['the former text', 'clean', () => write('team/site/a.txt', 'a.txt')],
      ['a new file', 'dirty', () => write('team/site/src/new.txt', 'new')],
      ['it is ignored', 'clean', () => write('team/site/.gitignore', 'new.txt\n.gitignore')],
      ['and not any more', 'dirty', () => write('team/site/.gitignore', '')],
      ['that is committed', 'clean', () => (git('add', '.'), git('commit', '-m', 'b'))],
      ['a new file at the top', 'dirty', () => write('team/site/top.txt', 'new')],
      ['it is away', 'clean', () => rmSync(at('top.txt'))],
      ['a folder', 'clean', () => mkdirSync(at('src/empty/deep'), { recursive: true })],
      ['a file deep in it', 'dirty', () => write('team/site/src/empty/deep/d.txt', 'd')],
      ['and away', 'clean', () => rmSync(at('src/empty/deep/d.txt'))],
      ['a file in it', 'dirty', () => write('team/site/src/empty/e.txt', 'e')],
      ['it is staged', 'dirty', () => git('add', '.')],
      ['and deleted', 'dirty', () => rmSync(at('src/empty'), { recursive: true })],
      ['and not staged any more', 'clean', () => git('add', '.')],
      ['another mode', 'dirty', () => chmodSync(at('a.txt'), 0o755)],
      ['and the former', 'clean', () => chmodSync(at('a.txt'), 0o644)],
      ['the commit before it', 'dirty', () => git('reset', '--soft', 'HEAD~1')],
      ['and the newest', 'clean', () => git('reset', '--soft', 'ORIG_HEAD')],
      ['a missing file', 'dirty', () => rmSync(at('src/b.txt'))],
      ['that is there again', 'clean', () => git('checkout', '.')],
      ['a renamed file', 'dirty', () => renameSync(at('c.txt'), at('d.txt'))],
      ['it is back', 'clean', () => renameSync(at('d.txt'), at('c.txt'))],
      ['a link instead', 'dirty', () => (rmSync(at('c.txt')), symlinkSync('a.txt', at('c.txt')))],
      ['all of the commit', 'clean', () => git('reset', '--hard')],
      ['another index', 'dirty', () => git('rm', '--cached', 'a.txt')],
    ];
    for (const [what, state, change] of changes) {
      tick();
      change();
      expect(await stateOf(), what).toBe(`branch trunk, ${state}`);
      expect(await asked(), `${what}: asked once`).toBe(0);
      expect(await stateOf(), what).toBe(`branch trunk, ${state}`);
    }
  });

  it('P1 it is asked each time while files are so new that a change might not be seen', async () => {
    const now = Date.now();
    vi.useFakeTimers({ toFake: ['Date'], now });
    onTestFinished(() => void vi.useRealTimers());
    repository(['a.txt']);
    expect([await asked(), await asked()]).toEqual([1, 1]);
    later();
    expect([await asked(), await asked()]).toEqual([1, 0]);
    write('team/site/a.txt', 'dirty');
    vi.setSystemTime(now);
    expect([await asked(), await asked()]).toEqual([1, 1]);
  });

  it('P1 of a large repository one change is enough, and that it is clean is asked each time', async () => {
    repository(Array.from({ length: 600 }, (_, n) => `${n % 7}/${n}.txt`));
    later();
    expect([await asked(), await asked()]).toEqual([1, 1]);
    write('team/site/3/3.txt', 'changed');
    expect([await asked(), await asked()]).toEqual([1, 0]);
    expect(await stateOf()).toBe('branch trunk, dirty');
    git('checkout', '.');
    expect(await stateOf()).toBe('branch trunk, clean');
    git('rm', '3/3.txt');
    expect([await asked(), await asked()]).toEqual([1, 0]);
  });
});
