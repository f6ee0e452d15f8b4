import { beforeAll, expect, it } from 'vitest';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime();
});

interface Definitions {
  definition?: {
    type?: string;
    signalDefinitions?: { name?: string }[];
    updateDefinitions?: { name?: string }[];
    queryDefinitions?: { name?: string }[];
  };
}

const namesOf = (definitions: { name?: string }[] = []) =>
  definitions.map(({ name }) => name ?? '').toSorted((a, b) => a.localeCompare(b));

it('H4 a session has the documented names of type, updates, signals and queries', async () => {
  const session = await TestSession.open(runtime);
  await session.ended(await session.send('hi'));
  const { definition } = await session.handle.query<Definitions>('__temporal_workflow_metadata');
  const { type, taskQueue } = await session.handle.describe();
  expect({ type, taskQueue }).toEqual({ type: 'session', taskQueue: 'perdure' });
  expect(namesOf(definition?.signalDefinitions)).toEqual(['cancel', 'publish', 'rewind', 'unrewind', 'wake']);
  const updates = [
    'abort',
    'answer',
    'archive',
    'branch',
    'cancel',
    'cancelQueued',
    'close',
    'compact',
    'openExisting',
    'prune',
    'publish',
    'revert',
    'rewind',
    'submit',
  ];
  expect(namesOf(definition?.updateDefinitions)).toEqual([...updates, 'unrewind']);
  expect(namesOf(definition?.queryDefinitions)).toEqual(expect.arrayContaining(['snapshot', 'status']));
});
