import { expect, it } from 'vitest';
import { Multiplexer } from './multiplexer.ts';

const encoder = new TextEncoder();

/** A body without an end, and how often it was asked for more. */
function endless(word: string): { body: ReadableStream<Uint8Array>; asked: () => number } {
  let count = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        count += 1;
        controller.enqueue(encoder.encode(`${word} ${count}`));
      },
    },
    { highWaterMark: 0 },
  );
  return { body, asked: () => count };
}

it('R2 of a stream nothing is read while the reader of the connection accepts nothing, and streams take turns', async () => {
  const connection = new Multiplexer().open('ada');
  const events = connection.events(new AbortController().signal);
  expect((await events.next()).value).toEqual([{ event: 'opened', data: { connection: connection.id } }]);
  const [one, other] = [endless('one'), endless('other')];
  connection.carry('1', one.body);
  connection.carry('2', other.body);
  for (const nth of [1, 2, 3]) {
    expect((await events.next()).value).toEqual([
      { event: 'piece', data: { stream: '1', text: `one ${nth}` } },
      { event: 'piece', data: { stream: '2', text: `other ${nth}` } },
    ]);
    // Long enough for all that does not wait.
    await new Promise((resolve) => setImmediate(resolve));
    expect([one.asked(), other.asked()]).toEqual([nth, nth]);
  }
});

it('R2 a stream that is cut off is told from one that is complete, and a character may come in two pieces', async () => {
  const connection = new Multiplexer().open('ada');
  const events = connection.events(new AbortController().signal);
  await events.next();
  const bytes = encoder.encode('é');
  const halves = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const half of [bytes.slice(0, 1), bytes.slice(1)]) controller.enqueue(half);
      controller.close();
    },
  });
  connection.carry('1', halves);
  const read: unknown[] = [];
  for (let at = 0; at < 3; at += 1) read.push((await events.next()).value);
  expect(read.flat()).toEqual([
    { event: 'piece', data: { stream: '1', text: '' } },
    { event: 'piece', data: { stream: '1', text: 'é' } },
    { event: 'end', data: { stream: '1', complete: true } },
  ]);
  const cut = new ReadableStream<Uint8Array>({ pull: () => Promise.reject(new Error('the host stops')) });
  connection.carry('2', cut);
  expect((await events.next()).value).toEqual([{ event: 'end', data: { stream: '2', complete: false } }]);
});
