import path from 'node:path';
import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';
import { NativeConnection, Worker } from '@temporalio/worker';
import { beforeAll, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { freshNamespace } from '../../tools/test-kit/servers.ts';
import { quietRuntime } from '../../worker/replay/quiet.ts';
import { bundle } from '../../worker/sandbox/bundle.ts';
import type { orderedParts, scopesOfWork } from './ordered-parts.ts';

const TASK_QUEUE = 'parts';
const { EVENT_TYPE_TIMER_STARTED: TIMER_STARTED, EVENT_TYPE_TIMER_FIRED: TIMER_FIRED } =
  proto.temporal.api.enums.v1.EventType;

let client: Client;
let start: () => Promise<Worker>;
beforeAll(async () => {
  quietRuntime();
  const served = await freshNamespace();
  client = served.client;
  const { address, namespace } = served;
  const connection = await NativeConnection.connect({ address });
  afterFile(() => connection.close());
  const workflowBundle = { code: await bundle(path.join(import.meta.dirname, 'ordered-parts.ts')) };
  start = () => Worker.create({ connection, namespace, taskQueue: TASK_QUEUE, workflowBundle, maxCachedWorkflows: 0 });
});

it('W5 of two parts that become ready in one workflow task the one with the higher priority runs first', async () => {
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

it('W4 a long history takes no memory for scopes: all local work runs in one, which is not cancelled', async () => {
  const started = { taskQueue: TASK_QUEUE, workflowId: 'scopes' };
  const handle = await client.workflow.start<typeof scopesOfWork>('scopesOfWork', started);
  expect(await (await start()).runUntil(handle.result())).toEqual([false]);
});
