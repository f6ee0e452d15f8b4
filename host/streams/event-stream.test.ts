import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { dataLine, eventStream, type EventStreamOptions } from './event-stream.ts';

function stream(options: Partial<EventStreamOptions<number>> & Pick<EventStreamOptions<number>, 'read'>): Response {
  return eventStream<number>({
    write: dataLine,
    fail: (error) => dataLine({ error: (error as Error).message }),
    closing: new AbortController().signal,
    ...options,
  });
}

/** A reading of 0, 1, 2, … that ends with the signal. */
async function* counting(signal: AbortSignal): AsyncGenerator<number> {
  for (let at = 0; !signal.aborted; at++) yield at;
}

describe('a stream of events', () => {
  it('R2 sends each item, and the last line', async () => {
    const response = stream({
      async *read() {
        yield 1;
        yield 2;
      },
      end: 'data: [DONE]\n\n',
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    expect(await response.text()).toBe('data: 1\n\ndata: 2\n\ndata: [DONE]\n\n');
  });

  it('R2 reports a failure and ends', async () => {
    const response = stream({
      async *read() {
        yield 1;
        throw new Error('it broke');
      },
    });
    expect(await response.text()).toBe('data: 1\n\ndata: {"error":"it broke"}\n\n');
  });

  it('R2 sends keep-alives while idle', async () => {
    const response = stream({
      keepAliveMs: 5,
      async *read(signal) {
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        yield* [];
      },
    });
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toBe(': keep-alive\n\n');
    await reader.cancel();
  });

  it('R2 keeps no memory for the keep-alives that it has sent', async () => {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    const heap = () => {
      gc();
      return process.memoryUsage().heapUsed;
    };
    const readers = Array.from({ length: 400 }, () => {
      const { body } = stream({
        keepAliveMs: 1,
        async *read(signal) {
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
          yield* [];
        },
      });
      return body!.getReader();
    });
    const take = (count: number) =>
      Promise.all(
        readers.map(async (reader) => {
          for (let at = 0; at < count; at++) await reader.read();
        }),
      );
    const [warmUp, count] = [10, 50];
    await take(warmUp);
    // The least of three: what other code of this process does in the meantime does not count.
    const grown: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      const before = heap();
      await take(count);
      grown.push((heap() - before) / (count * readers.length));
    }
    expect(Math.min(...grown), 'bytes a keep-alive').toBeLessThan(50);
    await Promise.all(readers.map((reader) => reader.cancel()));
  });

  it('H3 ends with its last event when the token expires, and not before', async () => {
    let over = 0;
    const from = performance.now();
    const response = stream({
      async *read(signal) {
        yield 1;
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      },
      expiry: { at: Date.now() + 50, event: 'event: expired\ndata: {}\n\n' },
      onOver: () => void over++,
    });
    expect(await response.text()).toBe('data: 1\n\nevent: expired\ndata: {}\n\n');
    expect(performance.now() - from).toBeGreaterThan(40);
    expect(over).toBe(1);
    const late = stream({ read: counting, expiry: { at: Date.now() - 1, event: 'data: late\n\n' } });
    expect(await late.text()).toBe('data: late\n\n');
  });

  it('R2 reads no further than its reader does, and stops when the reader disconnects', async () => {
    let read = 0;
    let over = 0;
    const response = stream({
      async *read(signal) {
        for await (const item of counting(signal)) {
          read = item;
          yield item;
        }
      },
      onOver: () => void over++,
    });
    const reader = response.body!.getReader();
    await reader.read();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(read).toBeLessThan(5);
    await reader.cancel();
    expect(over).toBe(1);
  });

  it('R2 is aborted when the host stops, so that its reader reconnects', async () => {
    const closing = new AbortController();
    let over = 0;
    const response = stream({ read: counting, closing: closing.signal, onOver: () => void over++ });
    const reader = response.body!.getReader();
    await reader.read();
    closing.abort();
    await expect(reader.read().then(() => reader.read())).rejects.toThrow('the host stops');
    expect(over).toBe(1);
  });
});
