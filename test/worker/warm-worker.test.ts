import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';

const root = path.join(import.meta.dirname, '..', '..');

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime();
});

it('W8 a worker replays a recorded turn in its workflow thread before it takes tasks', () => {
  const replayed = runtime.logs.find(({ msg }) => msg.includes('warm'));
  expect(replayed).toMatchObject({ msg: 'the workflow thread is warm', activations: expect.any(Number) as number });
  expect(replayed!['activations']).toBeGreaterThan(3);
});

it('W8 the recorded turn is the newest recording: copy test/histories/plain-turn.1.json to worker/sandbox/warm-up.json', async () => {
  const [copy, recorded] = await Promise.all([
    readFile(path.join(root, 'worker/sandbox/warm-up.json'), 'utf8'),
    readFile(path.join(root, 'test/histories/plain-turn.1.json'), 'utf8'),
  ]);
  expect(JSON.parse(copy)).toEqual(JSON.parse(recorded));
});
