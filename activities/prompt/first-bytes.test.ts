import { expect, it } from 'vitest';
import { firstBytes } from './first-bytes.ts';

async function* pieces(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

it('T10 the first bytes of a content hold no more memory than they are counted as', async () => {
  const KIB = 1024;
  expect((await firstBytes(pieces('one', 'two', 'three'), 5)).toString()).toBe('onetw');
  expect((await firstBytes(pieces('one'), 5)).toString()).toBe('one');
  const first = await firstBytes(pieces('a'.repeat(512 * KIB)), 256 * KIB);
  expect([first.length, first.buffer.byteLength]).toEqual([256 * KIB, 256 * KIB]);
});
