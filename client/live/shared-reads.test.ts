import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Limiter } from '../wait/limiter.ts';
import { SharedReads } from './shared-reads.ts';

// Results are the upper case of their requests. Time is simulated.
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A statement: its requests, and a promise with which the test completes it. */
interface Statement extends PromiseWithResolvers<void> {
  requests: readonly string[];
  isAlone: boolean;
  at: number;
}

const TOO_LARGE = 'huge';
const UNREADABLE = 'odd';

/** Reads whose statements the test completes; with `tookMs` each takes that long. */
function sharedReads({ tookMs, limit = 8 }: { tookMs?: number; limit?: number } = {}) {
  const statements: Statement[] = [];
  const reads = new SharedReads<string, string>({
    read: async (requests, { isAlone }) => {
      const statement = { ...Promise.withResolvers<void>(), requests, isAlone, at: performance.now() };
      statements.push(statement);
      if (tookMs !== undefined) setTimeout(statement.resolve, tookMs);
      await statement.promise;
      return requests.map((request) => {
        if (request === TOO_LARGE && !isAlone) return undefined;
        return () => {
          if (request === UNREADABLE) throw new Error('not as expected');
          return request.toUpperCase();
        };
      });
    },
    limit: new Limiter(limit).run,
    maxAlone: 2,
  });
  return { reads, statements, requests: () => statements.map((statement) => statement.requests) };
}

const settled = (promises: Promise<string>[]) =>
  Promise.all(promises.map((each) => each.catch((error: unknown) => (error as Error).message)));

/** Lets what is ready run. Simulated, setImmediate takes a millisecond if called by a timer. */
const soon = () => vi.advanceTimersByTimeAsync(1);

it('R2 a lone reader reads at once, each time', async () => {
  const { reads, statements } = sharedReads({ tookMs: 2 });
  for (let n = 0; n < 20; n += 1) {
    const from = performance.now();
    const result = reads.read('a');
    await soon();
    expect(statements.at(-1)).toMatchObject({ requests: ['a'], at: from });
    await vi.advanceTimersByTimeAsync(25);
    expect(await result).toBe('A');
  }
});

it('R2 what arrives together is read by one statement, and equal requests once', async () => {
  const { reads, requests } = sharedReads({ tookMs: 2 });
  const results = settled(['a', 'b', 'a', 'a', 'c'].map((each) => reads.read(each)));
  await vi.advanceTimersByTimeAsync(2);
  expect(await results).toEqual(['A', 'B', 'A', 'A', 'C']);
  expect(requests()).toEqual([['a', 'b', 'c']]);
});

it('R2 a request does not join a statement in flight, which may not see its change', async () => {
  const { reads, statements, requests } = sharedReads();
  const first = reads.read('a');
  await soon();
  const second = reads.read('a');
  await soon();
  expect(requests()).toEqual([['a'], ['a']]);
  statements[1]!.resolve();
  expect(await second).toBe('A');
  statements[0]!.resolve();
  expect(await first).toBe('A');
});

/** The mean time between the starts of statements while `together` new requests keep arriving every few milliseconds. */
async function meanInterval(tookMs: number, together: number): Promise<number> {
  const { reads, statements } = sharedReads({ tookMs });
  for (let n = 0; n < 1_000; n += 1) {
    for (let each = 0; each < together; each += 1) void reads.read(`request ${n}.${each}`);
    await vi.advanceTimersByTimeAsync(5);
  }
  // Those at the beginning are not delayed.
  const starts = statements.slice(-12).map(({ at }) => at);
  return (starts.at(-1)! - starts[0]!) / (starts.length - 1);
}

it.each([
  { tookMs: 1, together: 1, tickMs: 5 },
  { tookMs: 6, together: 1, tickMs: 12 },
  { tookMs: 1, together: 8, tickMs: 20 },
  { tookMs: 10, together: 1, tickMs: 20 },
  { tookMs: 50, together: 1, tickMs: 50 },
  { tookMs: 250, together: 1, tickMs: 200 },
])(
  'R2 under load a statement begins every $tickMs ms if $together requests come at a time, and statements take $tookMs ms',
  async ({ tookMs, together, tickMs }) => {
    const mean = await meanInterval(tookMs, together);
    expect(mean).toBeGreaterThanOrEqual(tickMs - 1);
    expect(mean).toBeLessThanOrEqual(tickMs + 5);
  },
);

it('R2 a statement has at most a hundred requests, so many do not wait for a tick, and two are in flight', async () => {
  const { reads, statements } = sharedReads();
  const names = Array.from({ length: 1_050 }, (_, n) => `r${n}`);
  const results = settled(names.map((each) => reads.read(each)));
  for (let done = 0; done < 9; done += 1) {
    await soon();
    expect(statements).toHaveLength(done + 2);
    statements[done]!.resolve();
  }
  await vi.advanceTimersByTimeAsync(20);
  expect(statements.map(({ requests }) => requests.length)).toEqual([...Array.from({ length: 10 }, () => 100), 50]);
  for (const statement of statements) statement.resolve();
  expect(await results).toEqual(names.map((each) => each.toUpperCase()));
});

it('Q2 a large result is read in a statement of its own, which delays no others', async () => {
  const { reads, statements } = sharedReads();
  const large = settled([reads.read(TOO_LARGE), reads.read(TOO_LARGE)]);
  const small = reads.read('a');
  await soon();
  statements[0]!.resolve();
  expect(await small).toBe('A');
  await soon();
  expect(statements[1]).toMatchObject({ requests: [TOO_LARGE], isAlone: true });
  for (const request of ['b', 'c', 'd']) {
    const next = reads.read(request);
    await vi.advanceTimersByTimeAsync(20);
    statements.at(-1)!.resolve();
    expect(await next).toBe(request.toUpperCase());
  }
  statements[1]!.resolve();
  expect(await large).toEqual(['HUGE', 'HUGE']);
});

it('Q2 many large results leave connections for the others', async () => {
  const { reads, statements } = sharedReads({ limit: 3 });
  const many = settled(Array.from({ length: 10 }, (_, n) => reads.read(`large ${n}`, { alone: true })));
  await soon();
  expect(statements).toHaveLength(2);
  const small = reads.read('a');
  await soon();
  statements[2]!.resolve();
  expect(await small).toBe('A');
  for (let n = 0; n < 11; n += 1) {
    statements[n]!.resolve();
    await soon();
  }
  expect(await many).toEqual(Array.from({ length: 10 }, (_, n) => `LARGE ${n}`));
});

it('R2 a result that cannot be read fails its own readers only', async () => {
  const { reads } = sharedReads({ tookMs: 2 });
  const results = settled(['a', UNREADABLE, 'b'].map((each) => reads.read(each)));
  await vi.advanceTimersByTimeAsync(2);
  expect(await results).toEqual(['A', 'not as expected', 'B']);
});

it('R2 a statement that fails for a lasting reason is repeated for each of its requests', async () => {
  const { reads, statements, requests } = sharedReads();
  const results = settled(['a', 'bad', 'c'].map((each) => reads.read(each)));
  await soon();
  statements[0]!.reject(new Error('invalid input'));
  await soon();
  expect(requests().slice(1)).toEqual([['a'], ['bad']]);
  statements[1]!.resolve();
  statements[2]!.reject(new Error('invalid input'));
  await soon();
  statements[3]!.resolve();
  expect(await results).toEqual(['A', 'invalid input', 'C']);
});

it('R2 a statement that fails because Postgres cannot serve fails its readers, and is not repeated at once', async () => {
  const { reads, statements } = sharedReads();
  const results = settled(['a', 'b'].map((each) => reads.read(each)));
  await soon();
  statements[0]!.reject(new Error('Query read timeout'));
  expect(await results).toEqual(['Query read timeout', 'Query read timeout']);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(statements).toHaveLength(1);
  const again = reads.read('a', { alone: true });
  await soon();
  expect(statements[1]).toMatchObject({ requests: ['a'], isAlone: true });
  statements[1]!.resolve();
  expect(await again).toBe('A');
});

it('R2 while two statements get no response, readers wait, and continue afterwards', async () => {
  const { reads, statements } = sharedReads();
  const one = settled([reads.read('a')]);
  await soon();
  const other = settled([reads.read('b')]);
  await vi.advanceTimersByTimeAsync(100);
  const waiting = settled(['c', 'd'].map((each) => reads.read(each)));
  await vi.advanceTimersByTimeAsync(5_900);
  expect(statements).toHaveLength(2);
  for (const statement of statements) statement.reject(new Error('Query read timeout'));
  await vi.advanceTimersByTimeAsync(200);
  statements[2]!.resolve();
  expect([await one, await other, await waiting]).toEqual([['Query read timeout'], ['Query read timeout'], ['C', 'D']]);
});

it('R2 a reader that leaves gets no result, and what only it waited for is not read', async () => {
  const { reads, requests, statements } = sharedReads({ limit: 1 });
  const [one, both] = [new AbortController(), new AbortController()];
  const first = reads.read('first', { alone: true });
  const results = settled([
    reads.read('left', { alone: true, signal: one.signal }),
    reads.read('left', { signal: one.signal }),
    reads.read('shared', { signal: one.signal }),
    reads.read('shared', { signal: both.signal }),
    reads.read('alone', { alone: true, signal: one.signal }),
    reads.read('alone', { alone: true }),
  ]);
  await soon();
  one.abort();
  statements[0]!.resolve();
  await first;
  for (const at of [1, 2]) {
    await vi.advanceTimersByTimeAsync(250);
    statements[at]!.resolve();
  }
  const left = 'aborted while it waited for its turn';
  expect(await results).toEqual([left, left, left, 'SHARED', left, 'ALONE']);
  expect(requests().flat().toSorted()).toEqual(['alone', 'first', 'shared']);
});
