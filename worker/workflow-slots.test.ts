import type { SlotPermit, SlotReserveContext } from '@temporalio/worker';
import { expect, it } from 'vitest';
import { workflowSlots } from './workflow-slots.ts';

const context = (isSticky: boolean): SlotReserveContext => ({
  ...{ slotType: 'workflow', taskQueue: 'perdure', workerIdentity: 'one', workerBuildId: '' },
  isSticky,
});
const never = new AbortController().signal;

it('T5 W8 replays wait for one another, in order; sessions in the cache do not wait for them', async () => {
  const slots = workflowSlots({ cached: 1, replayed: 2 });
  const first = await slots.reserveSlot(context(false), never);
  const second = await slots.reserveSlot(context(false), never);
  const granted: string[] = [];
  const third = slots.reserveSlot(context(false), never).then((permit) => (granted.push('third'), permit));
  const fourth = slots.reserveSlot(context(false), never).then((permit) => (granted.push('fourth'), permit));
  expect(slots.tryReserveSlot(context(false))).toBeNull();
  const cached = await slots.reserveSlot(context(true), never);
  expect(slots.tryReserveSlot(context(true))).toBeNull();
  expect(granted).toEqual([]);

  release(second);
  release(await third);
  await fourth;
  expect(granted).toEqual(['third', 'fourth']);
  expect(slots.tryReserveSlot(context(false))).toBeNull();
  release(first);
  release(cached);
  expect(slots.tryReserveSlot(context(false))).not.toBeNull();
  expect(slots.tryReserveSlot(context(true))).not.toBeNull();

  function release(permit: SlotPermit): void {
    slots.releaseSlot({ permit });
  }
});

it('T5 a reservation that the SDK gives up takes no slot', async () => {
  const slots = workflowSlots({ cached: 1, replayed: 1 });
  const permit = await slots.reserveSlot(context(false), never);
  const stopping = new AbortController();
  const given = slots.reserveSlot(context(false), stopping.signal);
  stopping.abort();
  await expect(given).rejects.toBe(stopping.signal.reason);
  await expect(slots.reserveSlot(context(false), stopping.signal)).rejects.toBe(stopping.signal.reason);
  slots.releaseSlot({ permit });
  expect(slots.tryReserveSlot(context(false))).not.toBeNull();
});
