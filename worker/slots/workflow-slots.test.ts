import type { SlotPermit, SlotReserveContext } from '@temporalio/worker';
import { expect, it } from 'vitest';
import { WorkflowSlots } from './workflow-slots.ts';

const context = (isSticky: boolean): SlotReserveContext => ({
  ...{ slotType: 'workflow', taskQueue: 'perdure', workerIdentity: 'one', workerBuildId: '' },
  isSticky,
});
const never = new AbortController().signal;

it('T5 W8 replays wait for one another, in order; sessions in the cache do not wait for them', async () => {
  const slots = new WorkflowSlots({ cached: 1, replayed: 2, waiting: 100 });
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
  const slots = new WorkflowSlots({ cached: 1, replayed: 1, waiting: 100 });
  const permit = await slots.reserveSlot(context(false), never);
  const stopping = new AbortController();
  const given = slots.reserveSlot(context(false), stopping.signal);
  stopping.abort();
  await expect(given).rejects.toBe(stopping.signal.reason);
  await expect(slots.reserveSlot(context(false), stopping.signal)).rejects.toBe(stopping.signal.reason);
  slots.releaseSlot({ permit });
  expect(slots.tryReserveSlot(context(false))).not.toBeNull();
});

it('T5 the slot of a task that waits for a local activity is lent to others, up to a number of waiting ones', async () => {
  const slots = new WorkflowSlots({ cached: 1, replayed: 2, waiting: 4 });
  const replayed = [slots.tryReserveSlot(context(false))!, slots.tryReserveSlot(context(false))!];
  const reserved = slots.reserveSlot(context(false), never);
  const takeBack = slots.lend('replayed');
  replayed.push(await reserved);
  expect(slots.tryReserveSlot(context(false)), 'two of three run').toBeNull();
  slots.tryReserveSlot(context(true));
  expect(slots.tryReserveSlot(context(true)), 'cached ones use what is lent, too').not.toBeNull();
  expect(slots.tryReserveSlot(context(true))).toBeNull();

  takeBack();
  slots.releaseSlot({ permit: replayed.pop()! });
  expect(slots.tryReserveSlot(context(false))).toBeNull();
  for (let n = 0; n < 9; n += 1) slots.lend('replayed');
  expect([1, 2, 3].map(() => slots.tryReserveSlot(context(false)) !== null)).toEqual([true, true, false]);
});
