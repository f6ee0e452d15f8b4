import path from 'node:path';
import proto from '@temporalio/proto';
import { NativeConnection, Worker } from '@temporalio/worker';
import { expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { freshNamespace } from '../../tools/test-kit/servers.ts';
import { quietRuntime } from '../../worker/replay/quiet.ts';
import { bundle } from '../../worker/sandbox/bundle.ts';
import type { orderedParts } from './ordered-parts.ts';

const TASK_QUEUE = 'parts';
const { EVENT_TYPE_TIMER_STARTED: TIMER_STARTED, EVENT_TYPE_TIMER_FIRED: TIMER_FIRED } =
  proto.temporal.api.enums.v1.EventType;

it('W5 of two parts that become ready in one workflow task the one with the higher priority runs first', async () => {
  quietRuntime();
  const { address, namespace, client } = await freshNamespace();
  const connection = await NativeConnection.connect({ address });
  afterFile(() => connection.close());
  const workflowBundle = { code: await bundle(path.join(import.meta.dirname, 'ordered-parts.ts')) };
  const start = () =>
    Worker.create({ connection, namespace, taskQueue: TASK_QUEUE, workflowBundle, maxCachedWorkflows: 0 });

  const started = { taskQueue: TASK_QUEUE, workflowId: 'one' };
  const handle = await client.workflow.start<typeof orderedParts>('orderedParts', started);
  const eventTypes = async () => (await handle.fetchHistory()).events!.map(({ eventType }) => Number(eventType));
  const first = await start();
  await first.runUntil(eventually(async () => expect(await eventTypes()).toContain(TIMER_STARTED)));
  await handle.cancel();
  await eventually(async () => expect(await eventTypes()).toContain(TIMER_FIRED));
  const second = await start();
  expect(await second.runUntil(handle.result())).toEqual(['turn', 'cancellation']);
});
