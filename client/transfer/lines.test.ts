import { expect, it } from 'vitest';
import { linesOf } from './lines.ts';

async function* singleBytes(text: string): AsyncGenerator<Uint8Array> {
  for (const byte of Buffer.from(text)) yield Uint8Array.of(byte);
}

it('T7 lines that arrive byte by byte are whole', async () => {
  const lines = ['short', 'grün '.repeat(30_000), '', 'the last'];
  const read = await Array.fromAsync(linesOf(singleBytes(lines.join('\n'))));
  expect(read).toEqual(lines.map((text, at) => ({ number: at + 1, text })));
});
