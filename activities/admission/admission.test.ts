import { expect, it, vi } from 'vitest';
import { Admission } from './admission.ts';

const MAX = 3;
const never = new AbortController().signal;

/** A worker with as many streams as may run. */
function busy() {
  const admission = new Admission({ maxStreams: MAX, maxLagMs: 100 });
  const streams = Array.from({ length: MAX }, () => admission.tryAdmit());
  expect(streams).not.toContain(undefined);
  const admitted: string[] = [];
  /** Lets turns wait in line; each is named after its user. */
  const wait = (...turns: string[]) => {
    for (const turn of turns)
      void admission.admit({ user: turn[0]!, session: turn, run: 1 }, never).then(() => admitted.push(turn));
  };
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const end = async (n: number) => {
    streams[n]![Symbol.dispose]();
    await settled();
  };
  return { admission, admitted, wait, end, settled };
}

it('Q2 a turn waits until a stream ends; one that is counted twice as ended makes no room', async () => {
  const { admission, admitted, wait, end, settled } = busy();
  wait('a1', 'a2');
  await settled();
  expect([admission.waiting, admitted, admission.tryAdmit()]).toEqual([2, [], undefined]);
  await end(0);
  await end(0);
  expect([admission.waiting, admitted]).toEqual([1, ['a1']]);
});

it('Q2 users take turns, and each user’s turns keep their order', async () => {
  const { admitted, wait, end } = busy();
  wait('a1', 'a2', 'a3', 'b1', 'b2', 'c1');
  for (const n of [0, 1, 2]) await end(n);
  expect(admitted).toEqual(['a1', 'b1', 'c1']);
});

it('Q2 a turn whose claim was overtaken keeps its place: later turns begin after it, and no further one beside it', async () => {
  const { admission, admitted, wait, end, settled } = busy();
  wait('a1', 'b1');
  await end(0);
  expect(admitted).toEqual(['a1']);
  using kept = admission.begin();
  admission.keepFor('a1', kept);
  await settled();
  expect(admitted).toEqual(['a1']);
  wait('a1', 'a1');
  await settled();
  expect(admitted).toEqual(['a1', 'a1']);
  expect(admission.waiting).toBe(2);
});

it('Q2 a kept place that is not used is free again', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const admission = new Admission({ maxStreams: 1, maxLagMs: 100 });
    admission.keepFor('a1', admission.tryAdmit()!);
    expect(admission.tryAdmit()).toBeUndefined();
    vi.advanceTimersByTime(1_000);
    expect(admission.tryAdmit()).toBeDefined();
  } finally {
    vi.useRealTimers();
  }
});

it('Q2 no turn overtakes those that wait, and steps of turns that have begun do not wait', async () => {
  const { admission, admitted, wait, end } = busy();
  wait('a1', 'b1');
  using _step = admission.begin();
  await end(0);
  expect([admitted, admission.tryAdmit()]).toEqual([[], undefined]);
  await end(1);
  expect(admitted).toEqual(['a1']);
});

it('Q2 a lower limit ends no stream, and a higher one admits turns that wait', async () => {
  const admission = new Admission({ maxStreams: 1_000, maxLagMs: 100 });
  while (admission.tryAdmit() !== undefined);
  const before = admission.streams;
  for (let n = 0; n < 3; n += 1) admission.note({ loop: 500, write: 0 });
  expect(admission.streams).toBeLessThan(before);
  let isAdmitted = false;
  const waiting = admission.admit({ user: 'a', session: 'a1', run: 1 }, never).then(() => (isAdmitted = true));
  expect(isAdmitted).toBe(false);
  for (let n = 0; n < 20; n += 1) admission.note({ loop: 0, write: 0 });
  await waiting;
  expect(admission.waiting).toBe(0);
});

it('T4 a turn that is stopped while it waits leaves the line at once', async () => {
  const { admission, admitted, wait, settled } = busy();
  const stopping = new AbortController();
  const stopped = admission.admit({ user: 'a', session: 'a1', run: 1 }, stopping.signal);
  wait('a2');
  stopping.abort();
  await stopped;
  await settled();
  expect([admission.waiting, admitted]).toEqual([1, []]);
  expect([admission.holds('a1'), admission.holds('a2')]).toEqual([false, true]);
});

it('R3 a worker that stops refuses the turns that wait', async () => {
  const { admission } = busy();
  const waiting = admission.admit({ user: 'a', session: 'a1', run: 1 }, never);
  admission.close();
  expect([await waiting, admission.waiting]).toEqual([undefined, 0]);
  expect(await admission.admit({ user: 'a', session: 'a2', run: 1 }, never)).toBeUndefined();
});

it('Q2 a turn that another worker has begun leaves the line, and those behind it keep their order', async () => {
  const { admission, wait, end, admitted, settled } = busy();
  const elsewhere = admission.admit({ user: 'a', session: 'gone', run: 2 }, never);
  wait('a2');
  admission.begunElsewhere('gone', 1);
  expect([admission.waiting, admission.waitingFor(0)]).toEqual([
    2,
    [expect.objectContaining({ session: 'gone', run: 2 }), expect.objectContaining({ session: 'a2', run: 1 })],
  ]);
  expect(admission.waitingFor(60_000)).toEqual([]);
  admission.begunElsewhere('gone', 2);
  expect(await elsewhere).toBe('elsewhere');
  await settled();
  expect([admission.waiting, admitted]).toEqual([1, []]);
  await end(0);
  expect(admitted).toEqual(['a2']);
});
