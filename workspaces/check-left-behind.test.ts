import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkLeftBehind, implementation } from './check-left-behind.ts';

let workspaces: string;
let root: string;
beforeAll(async () => {
  workspaces = await mkdtemp(path.join(tmpdir(), 'perdure-left-'));
  root = path.join(workspaces, 'site');
  await mkdir(path.join(root, 'src', 'api'), { recursive: true });
  await mkdir(path.join(root, 'node_modules', 'jose'), { recursive: true });
  await writeFile(
    path.join(root, 'src', 'api', 'refresh.ts'),
    'export function rotateToken() {}\n// Rotation creates\n//  a new token.\n',
  );
  await writeFile(
    path.join(root, 'src', 'notes.md'),
    '# Notes\n\nRefresh tokens   are stored\nin SQLite with expiry.\n\nNode.js: streams\nare used.\n',
  );
  await mkdir(path.join(root, '.git'));
  await writeFile(path.join(root, '.git', 'config'), 'rotateToken');
  await mkdir(path.join(root, '.planning'));
  await writeFile(path.join(root, '.planning', 'STATE.md'), '- "nowhere else"\n- "src/gone.ts: a phrase"\n');
  await writeFile(path.join(root, 'node_modules', 'jose', 'index.js'), 'elsewhere');
  await writeFile(path.join(root, 'picture.bin'), Buffer.from('hidden\0phrase'));
  await writeFile(path.join(root, 'long.txt'), `${' '.repeat(1024 ** 2)}far away`);
  await writeFile(path.join(workspaces, 'outside.ts'), 'rotateToken');
  await symlink('/etc/passwd', path.join(root, 'passwd'));
  await symlink('/etc', path.join(root, 'etc'));
});
afterAll(() => rm(workspaces, { recursive: true }));

const missing = async (implementations: string[], files: string[] = []) =>
  (await checkLeftBehind(root, { files, implementations })).map(({ entry, problem }) => `${entry} · ${problem}`);

describe('I4 files', () => {
  it('I4 of a workspace exist, and nothing outside of it is looked at', async () => {
    const files = [
      'src/api/refresh.ts',
      'src/api',
      'gone.ts',
      'gone/away.ts',
      'passwd',
      'etc/passwd',
      '../x',
      '/etc/passwd',
      'src/notes.md/x',
    ];
    expect(await missing([], files)).toEqual([
      'gone.ts · it does not exist',
      'gone/away.ts · it does not exist',
      'passwd · it is a link',
      'etc/passwd · its path contains a link',
      '../x · ../x contains ".."; use a path below the workspace',
      '/etc/passwd · /etc/passwd is absolute; use a path relative to the workspace',
      'src/notes.md/x · it does not exist',
    ]);
  });

  it('I4 a workspace that does not exist has nothing', async () => {
    const none = { files: ['a'], implementations: ['b'] };
    expect(await checkLeftBehind(path.join(root, 'none'), none)).toHaveLength(2);
    expect(await checkLeftBehind(path.join(root, 'none'), { files: [], implementations: [] })).toEqual([]);
  });
});

describe('I4 key implementations', () => {
  it.each([
    'src/api/refresh.ts',
    'rotateToken',
    'rotateToken()',
    'src/api/refresh.ts#rotateToken',
    'src/api/refresh.ts: rotation creates a new token'.replace('creates a', 'creates // a'),
    'refresh tokens are stored in sqlite with expiry',
    'Node.js: streams are used',
    'Rotation lives in `rotateToken` of `src/api/refresh.ts`, for reuse detection',
  ])('I4 %s is there', async (entry) => {
    expect(await missing([entry])).toEqual([]);
  });

  it.each([
    ['rotate', 'rotate'],
    ['src/api/gone.ts', 'src/api/gone.ts'],
    ['src/notes.md#rotateToken', 'rotateToken'],
    ['gone.ts#rotateToken', 'rotateToken'],
    ['gone.ts: rotateToken', 'gone.ts: rotateToken'],
    ['src/gone.ts: a phrase', 'src/gone.ts: a phrase'],
    ['nowhere else', 'nowhere else'],
    ['Token families are tracked', 'Token families are tracked'],
    ['It is `rotateToken` and `revokeFamily`', 'revokeFamily'],
    ['elsewhere', 'elsewhere'],
    ['hidden', 'hidden'],
    ['far away', 'far away'],
    ['../x', '../x'],
    ['../outside.ts#rotateToken', 'rotateToken'],
    ['.git/config#rotateToken', 'rotateToken'],
    ['passwd/x#root', 'root'],
  ])('I4 %s is not there', async (entry, lost) => {
    expect(await missing([entry])).toEqual([`${entry} · not found: ${lost}`]);
  });

  it('I4 names in backquotes count alone', () => {
    expect(implementation('The `a.ts` of `b c`').map(({ text, isPath }) => [text, isPath])).toEqual([
      ['a.ts', true],
      ['b c', false],
    ]);
  });

  it('I4 a named file is read however large the workspace is; what the search has not reached is not missing', async () => {
    const large = path.join(workspaces, 'large');
    await mkdir(path.join(large, 'assets'), { recursive: true });
    await mkdir(path.join(large, 'src'));
    await writeFile(path.join(large, 'src', 'auth.ts'), 'export function rotateToken() {}\n');
    await Promise.all(Array.from({ length: 5_001 }, (_, n) => writeFile(path.join(large, 'assets', `${n}.svg`), '')));
    const lost = ['src/auth.ts#issueToken', 'src/auth.ts#revokeFamily'];
    const implementations = [...lost, 'src/auth.ts#rotateToken', 'revokeFamily'];
    const mismatches = await checkLeftBehind(large, { files: [], implementations });
    expect(mismatches.map(({ entry }) => entry)).toEqual(lost);
  });

  it('I4 2,000 names are looked for, and the search ends when it costs too much', async () => {
    const names = (count: number) => `${'`rotateToken` '.repeat(count)}\`revokeFamily\``;
    expect(await missing([names(1_999)])).toHaveLength(1);
    expect(await missing([names(2_000)])).toEqual([]);
    const repeats = path.join(workspaces, 'repeats');
    await mkdir(repeats);
    await writeFile(path.join(repeats, 'a.txt'), 'a'.repeat(1024 ** 2));
    for (const entry of ['a', 'a.txt#a']) {
      const search = (times: number) =>
        checkLeftBehind(repeats, { files: [], implementations: Array(times).fill(entry) });
      expect(await search(2)).toHaveLength(2);
      expect(await search(30)).toEqual([]);
    }
  });

  it('I4 what is longer than a path may be is a phrase', () => {
    const long = (count: number) => `${'a/'.repeat(count)}a`;
    expect([long(255), long(256)].map((entry) => implementation(entry)[0]?.isPath)).toEqual([true, false]);
    expect(implementation(`${long(256)}#b`)[0]?.file).toBeUndefined();
  });

  it('I4 5,000 folders are walked', async () => {
    const folders = path.join(workspaces, 'folders');
    // This one, and those in it.
    const make = (from: number, to: number) =>
      Promise.all(
        Array.from({ length: to - from }, (_, n) => mkdir(path.join(folders, `${from + n}`), { recursive: true })),
      );
    const gone = () => checkLeftBehind(folders, { files: [], implementations: ['gone'] });
    await make(1, 5_000);
    expect(await gone()).toHaveLength(1);
    await make(5_000, 5_001);
    expect(await gone()).toEqual([]);
  });

  it('I4 files deep in a workspace are all searched', async () => {
    const deep = path.join(workspaces, 'deep');
    const below = path.join(deep, 'a/'.repeat(20));
    await mkdir(below, { recursive: true });
    await Promise.all(
      Array.from({ length: 2_000 }, (_, n) => writeFile(path.join(below, `${n}.ts`), `const a${n} = 1;`)),
    );
    const mismatches = await checkLeftBehind(deep, { files: [], implementations: ['gone', 'a1999'] });
    expect(mismatches.map(({ entry }) => entry)).toEqual(['gone']);
  });

  it('I4 a search of nested folders ends, too', async () => {
    const nested = path.join(workspaces, 'nested');
    const gone = () => checkLeftBehind(nested, { files: [], implementations: ['gone'] });
    await mkdir(path.join(nested, 'a/'.repeat(50)), { recursive: true });
    expect(await gone()).toHaveLength(1);
    await mkdir(path.join(nested, 'a/'.repeat(400)), { recursive: true });
    expect(await gone()).toEqual([]);
    const files = Array.from({ length: 1_000 }, () => `${'a/'.repeat(250)}b`);
    // Cut off. Each folder on the way is opened.
    expect((await checkLeftBehind(nested, { files, implementations: [] })).length).toBeLessThan(250);
  });

  it.each([
    ['a long word that is in each place', 'a'.repeat(9_000)],
    ['a long word that is nearly in each place', `${'a'.repeat(5_000)}b${'a'.repeat(3_999)}`],
    ['a long phrase that is nearly in each place', `${'a'.repeat(5_000)}-${'a'.repeat(3_999)}`],
  ])('I4 looking for %s ends, too', async (name, entry) => {
    const places = path.join(workspaces, name.replaceAll(' ', '-'));
    await mkdir(places);
    await writeFile(path.join(places, 'a.txt'), 'a'.repeat(1024 ** 2));
    const implementations = Array.from({ length: 1_000 }, (_, n) => entry.slice(n * 2));
    // Cut off. It took many minutes.
    expect(await checkLeftBehind(places, { files: [], implementations })).toEqual([]);
  });
});
