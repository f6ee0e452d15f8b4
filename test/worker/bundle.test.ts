import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { bundleDigest } from '../../worker/bundle.ts';

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
