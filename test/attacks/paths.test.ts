// Paths and links that lead out of a workspace: at open, in the file tools, in lists and previews.
import { mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { readTextFile, writeTextFile } from '../../examples/site-builder/workspace.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { sentRaw } from './raw.ts';

const SECRET = 'what lies outside';
const ODD = [
  '../secret.txt',
  'a/../../secret.txt',
  './../secret.txt',
  '/etc/passwd',
  '/proc/self/environ',
  '//etc/passwd',
  '..\\secret.txt',
  'a\\..\\..\\secret.txt',
  'C:\\secret.txt',
  '\\\\server\\share\\secret.txt',
  '.git/config',
  'x/.GIT/hooks/post-checkout',
  '',
  '.',
  '..',
  'folder/',
  `${'x'.repeat(300)}.txt`,
  `${'deep/'.repeat(200)}x.txt`,
];
/** Names that look like attacks but are valid. */
const PLAIN = ['%2e%2e%2fsecret.txt', '..%2fsecret.txt', '....', '~', '$HOME', '-rf', 'a b'];

/** Stands for a shell, which an agent may have as a tool. */
const makeLink = defineTool({
  name: 'make_link',
  description: 'Makes a link.',
  input: z.object({ target: z.string(), path: z.string() }),
  async execute({ target, path: at }, ctx) {
    await symlink(target, path.join(ctx.workspaceRoot, at));
    return at;
  },
});

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
let folder: string;
let outside: string;
beforeAll(async () => {
  runtime = await startRuntime({
    agents: [defineAgent({ ...siteBuilder, tools: [...siteBuilder.tools, makeLink] })],
    settings: { sweepIntervalMs: 3_600_000 },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
  ada = host.as('ada');
  folder = await realpath(await mkdtemp(path.join(tmpdir(), 'perdure-outside-')));
  outside = path.join(folder, 'outside');
  await mkdir(outside);
  await writeFile(path.join(outside, 'secret.txt'), SECRET);
  await writeFile(path.join(runtime.workspaces, 'secret.txt'), SECRET);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** No file outside was created, deleted or changed. */
async function expectUntouched(): Promise<void> {
  expect(await readdir(outside)).toEqual(['secret.txt']);
  expect(await readFile(path.join(outside, 'secret.txt'), 'utf8')).toBe(SECRET);
  expect(await readFile(path.join(runtime.workspaces, 'secret.txt'), 'utf8')).toBe(SECRET);
  const others = (await readdir(runtime.workspaces)).filter((name) => !/^[0-9a-f]{32}$|^secret\.txt$/.test(name));
  expect(others).toEqual([]);
}

/** Opens a session of Ada, by default in its own folder. */
async function open(workspace_root?: string) {
  const view = await host.client.openSession('ada', { workspace_root });
  const id = view.session.session_id;
  return { id, root: view.chat.workspace_root ?? path.join(userFolder(runtime.workspaces, 'ada'), id) };
}

interface Outcome {
  type: string;
  state: string;
  input: { path: string };
  errorText?: string;
}

/** Lets the model call tools in a session; returns the outcome of each call. */
async function turn(id: string, calls: ModelAction[]): Promise<{ outcomes: Outcome[]; status: { message?: string } }> {
  runtime.model.script((asked) => (asked.messages.at(-1)?.role === 'user' ? calls : [say('Done.')]));
  const { run_seq } = await host.client.submit('ada', id, { text: 'go' });
  const run = await TestSession.of(runtime, id).ended(run_seq);
  const parts = await TestSession.of(runtime, id).parts(run.answer_id);
  const outcomes = parts.filter((part) => part.type.startsWith('tool-')) as unknown[] as Outcome[];
  return { outcomes, status: await host.client.reads.status('ada', id) };
}
const write = (file: string, n: number) => callTool(`w${n}`, 'write_file', { path: file, content: 'by a tool' });
const read = (file: string, n: number) => callTool(`r${n}`, 'read_file', { path: file });

describe('a file tool', () => {
  it('Q3 gets an error that names the refused path, and nothing outside is read or written', async () => {
    const { id, root } = await open();
    await mkdir(root, { recursive: true });
    const { outcomes } = await turn(id, [...ODD.map(write), ...ODD.map(read)]);
    expect(outcomes).toHaveLength(ODD.length * 2);
    for (const { input, state, errorText } of outcomes) {
      expect({ path: input.path, state }).toEqual({ path: input.path, state: 'output-error' });
      expect(errorText).toMatch(/\bpath: /);
      expect(errorText).not.toContain(root);
    }
    expect(await readdir(root)).toEqual([]);
    await expectUntouched();
  });

  it('Q3 treats unusual names literally', async () => {
    const { id, root } = await open();
    const { outcomes } = await turn(id, PLAIN.map(write));
    expect(outcomes.map(({ state }) => state)).toEqual(PLAIN.map(() => 'output-available'));
    expect((await readdir(root)).toSorted()).toEqual(PLAIN.toSorted());
    await expectUntouched();
  });

  it('Q3 follows no link that another tool created', async () => {
    const { id } = await open();
    const links = {
      'to-file': path.join(outside, 'secret.txt'),
      'to-folder': outside,
      'to-nothing': path.join(outside, 'new.txt'),
      'to-parent': '..',
      'to-environ': '/proc/self/environ',
      'to-root': '/',
      'to-link': 'to-folder',
    };
    const made = Object.entries(links).map(([at, target], n) => callTool(`l${n}`, 'make_link', { target, path: at }));
    const paths = [
      ...Object.keys(links),
      'to-folder/secret.txt',
      'to-folder/new/deep.txt',
      'to-link/secret.txt',
      'to-parent/../secret.txt',
      'to-parent/x.txt',
      'to-root/etc/passwd',
      `to-root${outside}/secret.txt`,
    ];
    expect((await turn(id, made)).outcomes.map(({ state }) => state)).toEqual(made.map(() => 'output-available'));
    const { outcomes } = await turn(id, [...paths.map(write), ...paths.map(read)]);
    for (const { input, state, errorText } of outcomes) {
      expect([input.path, state]).toEqual([input.path, 'output-error']);
      expect(errorText).toMatch(/^path: /);
    }
    expect((await ada.get(`/api/sessions/${id}/files`)).body).toMatchObject({ items: [], preview_url: null });
    await expectUntouched();
  });

  it('Q3 cannot be led outside by a folder that is replaced by a link between check and use', async () => {
    const { root } = await open();
    await mkdir(path.join(root, 'real'), { recursive: true });
    await symlink(outside, path.join(root, 'link'));
    const over = new AbortController();
    const swapping = (async () => {
      while (!over.signal.aborted) {
        for (const name of ['real', 'link']) {
          await rename(path.join(root, name), path.join(root, 'way')).catch(() => {});
          await rename(path.join(root, 'way'), path.join(root, name)).catch(() => {});
        }
      }
    })();
    const ways = new Map<string, number>();
    const note = (how: string) => void ways.set(how, (ways.get(how) ?? 0) + 1);
    const from = performance.now();
    while (performance.now() - from < 1_500) {
      await Promise.all([
        ...Array.from({ length: 4 }, () =>
          writeTextFile(root, 'way/secret.txt', 'overwritten').then(
            () => note('written'),
            () => note('refused'),
          ),
        ),
        readTextFile(root, 'way/secret.txt').then(
          (text) => note(text),
          () => note('refused'),
        ),
      ]);
    }
    over.abort();
    await swapping;
    expect(ways.get('written'), 'some writes found a folder').toBeGreaterThan(0);
    expect(ways.get('refused'), 'and some a link').toBeGreaterThan(0);
    expect(ways.get(SECRET)).toBeUndefined();
    await expectUntouched();
  });
});

describe('workspace_root', () => {
  it('Q3 is a folder below the caller’s own, or the field is named in the refusal', async () => {
    const foreign = userFolder(runtime.workspaces, 'eve');
    const odd = [
      '.',
      '..',
      '../x',
      'a/../..',
      '/etc',
      '/proc/self',
      outside,
      runtime.workspaces,
      foreign,
      `${foreign}/x`,
    ]
      .concat([`../${path.basename(foreign)}/x`, 'nul\u0000', '.git', 'a/.GIT/x', 'x'.repeat(300), 'half\uD800', ''])
      .concat([
        userFolder(runtime.workspaces, 'ada'),
        `${userFolder(runtime.workspaces, 'ada')}-not`,
        'x'.repeat(2_000),
      ])
      .concat(['.snapshots', '.Snapshots/ses_1/git', 'a/../.snapshots/ses_1']);
    for (const workspace_root of odd) {
      const { status, body } = await ada.post('/api/sessions', { workspace_root });
      expect([workspace_root, status], workspace_root).toEqual([workspace_root, 400]);
      expect(body.errors[0].field).toBe('workspace_root');
    }
    for (const workspace_root of [...PLAIN.filter((name) => name !== '....'), 'a\\..\\..\\b', 'deep/er']) {
      const { root } = await open(workspace_root);
      expect(path.dirname(root).startsWith(userFolder(runtime.workspaces, 'ada'))).toBe(true);
    }
    await expectUntouched();
  });

  it('Q3 must not contain a link, neither at open nor created later', async () => {
    const other = await open();
    await mkdir(other.root, { recursive: true });
    await symlink(outside, path.join(other.root, 'out'));
    const name = path.basename(other.root);
    for (const workspace_root of [`${name}/out`, `${name}/out/new`, path.join(other.root, 'out', 'deep', 'er')]) {
      const { status, body } = await ada.post('/api/sessions', { workspace_root });
      expect([status, body.errors?.[0].field]).toEqual([400, 'workspace_root']);
    }
    const later = await open(`${name}/later/site`);
    await turn(later.id, [write('index.html', 0)]);
    const { preview_url } = (await ada.get(`/api/sessions/${later.id}/files`)).body;
    expect((await fetch(host.url + preview_url)).status).toBe(200);
    await rename(path.join(other.root, 'later'), path.join(other.root, 'moved'));
    await symlink(outside, path.join(other.root, 'later'));
    await mkdir(path.join(folder, 'site'));
    const { outcomes, status } = await turn(later.id, [write('x.txt', 1), read('secret.txt', 2)]);
    expect(outcomes).toEqual([]);
    expect(status).toMatchObject({ state: 'error', message: expect.stringContaining('its path contains a link') });
    expect(await ada.get(`/api/sessions/${later.id}/files`)).toMatchObject({
      status: 422,
      body: { code: 'WorkspaceNotUsable', detail: expect.not.stringContaining(outside) },
    });
    expect((await fetch(host.url + preview_url)).status).toBe(404);
    await expectUntouched();
  });

  it('Q3 that was replaced by a link between a step and its tool call runs no tool', async () => {
    const { id, root } = await open('swapped');
    await mkdir(root, { recursive: true });
    const swap: ModelAction[] = [write('x.txt', 1), read('secret.txt', 2)];
    runtime.model.script(async (asked) => {
      if (asked.messages.at(-1)?.role !== 'user') return [say('Done.')];
      await rm(root, { recursive: true });
      await symlink(outside, root);
      return swap;
    });
    const { run_seq } = await host.client.submit('ada', id, { text: 'go' });
    const run = await TestSession.of(runtime, id).ended(run_seq);
    const parts = await TestSession.of(runtime, id).parts(run.answer_id);
    const errors = parts.flatMap((part) => ('errorText' in part ? [part['errorText']] : []));
    expect(errors).toEqual([expect.stringContaining('its path contains a link'), expect.stringContaining('a link')]);
    await expectUntouched();
  });

  it('Q3 cannot bring another user’s file into a prompt by a link named like an instructions file', async () => {
    const { id, root } = await open();
    await mkdir(root, { recursive: true });
    const foreign = path.join(userFolder(runtime.workspaces, 'eve'), 'hers');
    await mkdir(foreign, { recursive: true });
    await writeFile(path.join(foreign, 'notes.md'), SECRET);
    await symlink(path.join(foreign, 'notes.md'), path.join(root, 'AGENTS.md'));
    await symlink(path.join(outside, 'secret.txt'), path.join(root, 'CLAUDE.md'));
    await writeFile(path.join(root, 'CONTEXT.md'), 'instructions of its own');
    const before = runtime.model.requests.length;
    await turn(id, [say('Hello.')]);
    const prompt = JSON.stringify(runtime.model.requests.slice(before).map((each) => each.body.messages));
    expect(prompt).toContain('instructions of its own');
    expect(prompt).not.toContain(SECRET);
  });
});

describe('the files that a host serves', () => {
  it('Q3 are those of the workspace, whatever the URL contains', async () => {
    const { id, root } = await open();
    await mkdir(root, { recursive: true });
    await writeFile(path.join(root, 'index.html'), 'here');
    await symlink(outside, path.join(root, 'out'));
    const { preview_url } = (await ada.get(`/api/sessions/${id}/files`)).body as { preview_url: string };
    const encoded = ODD.flatMap((file) => [
      encodeURI(file.toWellFormed()),
      encodeURIComponent(file),
      encodeURIComponent(encodeURIComponent(file)),
      encodeURIComponent(file).replaceAll('.', '%2e'),
    ]);
    const own = new Set(['', '.', '%2e']);
    const paths = [...encoded, 'out/secret.txt', 'out%2fsecret.txt', '%', '%c0%ae%c0%ae/secret.txt', '..;/secret.txt'];
    const asked = await Promise.all(
      paths.filter((each) => !own.has(each)).map((each) => sentRaw(host.url, preview_url + each)),
    );
    for (const { status, text } of asked) {
      expect([404, 400]).toContain(status);
      expect(text).not.toContain(SECRET);
    }
    await expectUntouched();
  });
});
