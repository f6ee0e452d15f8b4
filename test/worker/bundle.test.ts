import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ReusableVMWorkflowCreator } from '@temporalio/worker/lib/workflow/reusable-vm.js';
import { afterAll, expect, it, vi } from 'vitest';
import type { History } from '../../worker/replay/history.ts';
import { replay } from '../../worker/replay/replay.ts';
import { bundleDigest, workflowBundle } from '../../worker/sandbox/bundle.ts';

const root = await mkdtemp(path.join(tmpdir(), 'perdure-bundle-'));
afterAll(() => rm(root, { recursive: true, force: true }));

it('W5 the digest of the workflow bundle covers nested folders, and no tests', async () => {
  const write = async (file: string, text: string) => {
    await mkdir(path.dirname(path.join(root, file)), { recursive: true });
    await writeFile(path.join(root, file), text);
  };
  const files = ['workflows/index.ts', 'workflows/commands/abort.ts', 'domain/rules/deep/phases.ts'];
  for (const file of files) await write(file, 'export {};');
  const digests = [await bundleDigest(root)];
  for (const file of files) {
    await write(file, 'export const changed = true;');
    digests.push(await bundleDigest(root));
  }
  expect(new Set(digests).size).toBe(1 + files.length);
  await write('domain/rules/deep/phases.test.ts', 'a test');
  expect(await bundleDigest(root)).toBe(digests.at(-1));
});

it('W1 all workflows of a thread share the modules of the bundle: none loads its own', async () => {
  const file = path.join(import.meta.dirname, '../../worker/sandbox/warm-up.json');
  const history = JSON.parse(await readFile(file, 'utf8')) as History;
  const created = vi.spyOn(ReusableVMWorkflowCreator.prototype, 'createWorkflow');
  const again = [1, 2].map((n) => ({ name: `${n}`, history }));
  const replayed = await replay(await workflowBundle(path.resolve('node_modules/.cache/perdure')), again);
  expect(replayed.map(({ broke }) => broke)).toEqual([undefined, undefined]);
  const workflows = await Promise.all(created.mock.results.map(({ value }) => value as Promise<Loaded>));
  created.mockRestore();
  const own = workflows.flatMap(({ activator }) => Array.from(activator.moduleCache.keys()));
  // Webpack's placeholders of converters that do not exist begin with a question mark.
  expect(own.filter((name) => !name.startsWith('?'))).toEqual([]);
  expect(workflows).toHaveLength(2);
});

/** What a workflow of the SDK has loaded for itself. */
interface Loaded {
  activator: { moduleCache: Map<string, unknown> };
}
