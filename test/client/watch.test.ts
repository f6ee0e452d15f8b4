import { expect, it } from 'vitest';
import { userMark } from '../../bus/bus.ts';
import { SessionWatch } from '../../client/live/session-watch.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';

it('K3 a pointer of user: state reaches every session of that user, once, and nobody else', async () => {
  const bus = createMemoryBus();
  // No poll ever answers, so that only pointers can tell.
  const db = { query: () => new Promise<never>(() => {}) };
  const watch = new SessionWatch(bus, { db: db as never, log: { warn: () => {} } });
  const told: string[] = [];
  const follow = (session: string, user: string) => watch.watch(session, () => told.push(session), user);
  follow('ses_a', 'ada');
  const leave = follow('ses_b', 'ada');
  follow('ses_c', 'bob');
  const pointer = { session: 'ses_a', kind: 'status', user: userMark('ada') } as const;
  bus.publish(pointer);
  await expect.poll(() => told).toEqual(['ses_a', 'ses_b']);
  leave();
  bus.publish(pointer);
  await expect.poll(() => told).toEqual(['ses_a', 'ses_b', 'ses_a']);
  expect(JSON.stringify(pointer)).not.toContain('ada');
  watch.close();
});
