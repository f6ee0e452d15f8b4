import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listTopFolder, MAX_FILE_BYTES, readTextFile, writeTextFile } from '../../examples/site-builder/workspace.ts';

let folder: string;
let root: string;
let outside: string;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'perdure-workspace-')));
  root = path.join(folder, 'workspace');
  outside = path.join(folder, 'workspace-of-another');
  mkdirSync(root);
  mkdirSync(outside);
  writeFileSync(path.join(outside, 'secret.txt'), 'secret');
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('files of the workspace', () => {
  it('H6 are written with their folders, read, and replaced', async () => {
    expect(await writeTextFile(root, 'css/deep/site.css', 'é')).toBe(2);
    expect(await readTextFile(root, 'css/deep/site.css')).toBe('é');
    await writeTextFile(root, 'css/deep/site.css', 'x');
    expect(await readTextFile(root, './css/deep/site.css')).toBe('x');
    expect(await listTopFolder(root)).toEqual(['css/']);
  });

  it.each([
    ['', /1 to 512 characters/],
    ['x'.repeat(513), /1 to 512 characters/],
    ['a\0b', /U\+0000/],
    ['/etc/passwd', /is absolute/],
    ['C:\\windows', /is absolute/],
    ['../workspace-of-another/secret.txt', /contains "\.\."/],
    ['a/../../secret.txt', /contains "\.\."/],
    ['a\\..\\..\\x', /contains "\.\."/],
    ['.git/config', /\.git is not accessible/],
    ['sub/.GIT/hooks/pre-commit', /\.git is not accessible/],
    ['folder/', /names a folder/],
    ['.', /names a folder/],
  ])('H6 the path %j is refused', async (file, message) => {
    await expect(writeTextFile(root, file, 'x')).rejects.toThrow(message);
    await expect(readTextFile(root, file)).rejects.toThrow(message);
  });

  it('H6 links are not followed: neither a folder in the path, nor the file, nor a dangling one', async () => {
    symlinkSync(outside, path.join(root, 'folder'));
    symlinkSync(path.join(outside, 'secret.txt'), path.join(root, 'file'));
    symlinkSync(path.join(outside, 'not-yet'), path.join(root, 'dangling'));
    symlinkSync('a-file-of-ours', path.join(root, 'inner'));
    const refused = [
      ['folder/secret.txt', 'the path contains a link'],
      ['folder/new/x.txt', 'the path contains a link'],
      ['file', 'file: the path contains a link'],
      ['inner', 'inner: the path contains a link'],
      ['dangling', 'dangling: the path contains a link'],
      ['dangling/x', 'dangling/x: the path contains a link'],
    ] as const;
    for (const [file, message] of refused) {
      await expect(writeTextFile(root, file, 'x')).rejects.toThrow(message);
      await expect(readTextFile(root, file)).rejects.toThrow(message);
    }
    expect(readdirSync(outside)).toEqual(['secret.txt']);
    expect(readFileSync(path.join(outside, 'secret.txt'), 'utf8')).toBe('secret');
  });

  it('H6 a workspace below a link works', async () => {
    const link = path.join(path.dirname(root), 'link');
    symlinkSync(root, link);
    await writeTextFile(link, 'a/b.txt', 'x');
    expect(await readTextFile(link, 'a/b.txt')).toBe('x');
  });

  it('H6 sizes are limited, and anything but a file is refused', async () => {
    await expect(writeTextFile(root, 'big', 'x'.repeat(MAX_FILE_BYTES + 1))).rejects.toThrow(/at most 262144/);
    writeFileSync(path.join(root, 'big'), 'x'.repeat(MAX_FILE_BYTES + 1));
    mkdirSync(path.join(root, 'folder'));
    execFileSync('sh', ['-c', 'mkfifo "$1"', 'sh', path.join(root, 'pipe')]);
    await expect(readTextFile(root, 'big')).rejects.toThrow(/at most 262144/);
    await expect(readTextFile(root, 'folder')).rejects.toThrow('folder is not a file');
    await expect(readTextFile(root, 'pipe')).rejects.toThrow('pipe is not a file');
    await expect(writeTextFile(root, 'folder', 'x')).rejects.toThrow('folder: it is a folder');
    await expect(writeTextFile(root, 'big/x', 'x')).rejects.toThrow('big/x: a part of the path is a file');
  });

  it('Q3 errors never contain the workspace’s path', async () => {
    for (const file of ['missing.txt', 'missing/deep.txt', 'x'.repeat(300)]) {
      const error = await readTextFile(root, file).catch((thrown: unknown) => thrown as Error);
      expect(error).toMatchObject({ code: 'WorkspaceError', message: expect.not.stringContaining(root) });
    }
  });
});
