import fc from 'fast-check';
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { readMessages } from '../../store/messages.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import { type Delta, freshRows, type Part, refusal, type Row, rows, Session, textPart, toolPart } from './session.ts';

const db = await freshRows();
const FENCE: Fence = [0, 1, 1];

async function answering(): Promise<Session> {
  const session = await Session.at('chatting', db);
  await session.say('hello');
  await session.claim(1, FENCE);
  return session;
}

const answerOf = async (session: Session) => {
  const sql = `SELECT l.data FROM chat_parts_live l JOIN chat_runs r ON r.session_id = l.session_id AND r.answer_id = l.message_id
                WHERE l.session_id = $1 ORDER BY l.index`;
  return (await rows(db, sql, [session.id])).map((row) => row['data'] as Row);
};

it('T4 a growing text consists of a part and its deltas, which the view combines', async () => {
  const session = await answering();
  const part = textPart(0, 'Once');
  await session.append(1, FENCE, [part]);
  await session.append(1, FENCE, [], [{ part_id: part.id, start: 4, text: ' upon' }], null);
  await session.append(1, FENCE, [], [{ part_id: part.id, start: 9, text: ' a time' }], null);
  expect(await answerOf(session)).toEqual([{ type: 'text', text: 'Once upon a time', state: 'streaming' }]);
  expect((await session.parts(1))[0]).toMatchObject({ data: { text: 'Once' } });

  const data = { type: 'text', text: 'Once upon a time', state: 'done' };
  await session.append(1, FENCE, [{ ...part, data, settled: true }], [], null);
  expect(await session.deltas()).toEqual([]);
  expect(await answerOf(session)).toEqual([data]);
});

it('T4 settling a part keeps the deltas of other parts', async () => {
  const session = await answering();
  const [one, two] = [textPart(0, 'a'), textPart(1, 'b')];
  const deltas = [one, two].map((part): Delta => ({ part_id: part.id, start: 1, text: '!' }));
  await session.append(1, FENCE, [one, two], deltas);
  await session.append(1, FENCE, [{ ...one, data: { type: 'text', text: 'a!' }, settled: true }], [], null);
  expect((await session.deltas()).map((delta) => delta['part_id'])).toEqual([two.id]);
  expect((await answerOf(session)).map((data) => data['text'])).toEqual(['a!', 'b!']);
});

it('H8 finished reasoning has how long it took, unless it was stored only when it had ended', async () => {
  const session = await answering();
  const parts = [2, 0, -1, 3].map((seconds, index) => {
    const data = { type: 'reasoning', text: 'Hm.', state: index < 3 ? 'done' : 'streaming' };
    return { id: newId('prt'), index, type: 'reasoning', data, seconds };
  });
  await session.append(1, FENCE, parts);
  for (const { id, seconds } of parts) {
    const sql =
      'UPDATE chat_parts SET created_at = updated_at - make_interval(secs => $3) WHERE session_id = $1 AND id = $2';
    await db.query(sql, [session.id, id, seconds]);
  }
  const page = { limit: 10, hidden: false };
  const { items } = await readMessages(db, session.id, { ...page, times: true });
  expect(items.at(-1)?.parts.map((part) => (part as { ms?: number }).ms)).toEqual([
    2_000,
    undefined,
    undefined,
    undefined,
  ]);
  expect(items.map(({ created_at }) => typeof created_at)).toEqual(['string', 'string']);
  expect(JSON.stringify(await readMessages(db, session.id, page))).not.toMatch(/"ms"|created_at/);
});

it('T4 the input of a tool call that still streams is shown raw', async () => {
  const session = await answering();
  const call = { ...toolPart('call_1', 0, 'input-streaming'), settled: false };
  const grown = [
    { part_id: call.id, start: 0, text: '{"name":' },
    { part_id: call.id, start: 8, text: '"si' },
  ];
  await session.append(1, FENCE, [call], grown);
  expect((await answerOf(session))[0]).toEqual({ ...call.data, rawInput: '{"name":"si' });
  await session.append(1, FENCE, [{ ...toolPart('call_1', 0), id: call.id }], [], null);
  expect((await answerOf(session))[0]).toMatchObject({ state: 'input-available', input: { name: 'site' } });
  expect((await answerOf(session))[0]).not.toHaveProperty('rawInput');
});

it('T4 two deltas cannot start at the same offset of one part', async () => {
  const session = await answering();
  const part = textPart(0, '');
  await session.append(1, FENCE, [part], [{ part_id: part.id, start: 0, text: 'a' }]);
  const insert = `INSERT INTO part_deltas (session_id, part_id, start, text) VALUES ($1, $2, 0, 'b')`;
  expect(await refusal(db.query(insert, [session.id, part.id]))).toBe('23505');
});

it('T4 T5 whatever the batches, the view is their sum, and the end of the run changes nothing that readers see', async () => {
  const word = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
    .filter((text) => !text.includes('\0') && text.isWellFormed());
  const kind = fc.constantFrom('text', 'reasoning', 'tool');
  const story = fc.array(fc.record({ kind, words: fc.array(word, { maxLength: 6 }) }), { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(
      story,
      fc.constantFrom('aborted' as const, 'error' as const),
      async (told, end: 'aborted' | 'error') => {
        const session = await answering();
        const parts: Part[] = told.map((part, index) =>
          part.kind === 'tool'
            ? { ...toolPart(newId('call'), index, 'input-streaming'), settled: false }
            : { ...textPart(index), type: part.kind, data: { type: part.kind, text: '' } },
        );
        await session.append(1, FENCE, parts);
        const grown = told.map(() => '');
        for (let round = 0; round < 6; round += 1) {
          const deltas = told.flatMap(({ words }, index): Delta[] => {
            const text = words[round];
            if (text === undefined) return [];
            const start = grown[index]!.length;
            grown[index] += text;
            return [{ part_id: parts[index]!.id, start, text }];
          });
          expect(await session.append(1, FENCE, [], deltas, null)).toBe('live');
        }
        const seen = await answerOf(session);
        for (const [index, data] of seen.entries()) {
          const text = told[index]!.kind === 'tool' ? (data['rawInput'] ?? '') : data['text'];
          expect(text).toBe(grown[index]);
        }
        await session.settleRun(1, end);
        expect(await session.deltas()).toEqual([]);
        const outcome = end === 'error' ? { state: 'output-error', errorText: 'outcome unknown' } : {};
        const left = seen.map((data, index) =>
          told[index]!.kind === 'tool' ? Object.assign({}, data, outcome) : data,
        );
        expect(await answerOf(session)).toEqual(left);
        expect((await session.parts(1)).map((part) => part['data'])).toEqual(left);
      },
    ),
    cases(40),
  );
});

it('T5 the parts of a lost attempt keep their index, and the next attempt starts after them', async () => {
  const session = await answering();
  const lost = textPart(0, 'Once upon');
  await session.append(1, FENCE, [lost]);
  expect(await session.claim(1, [0, 1, 2])).toMatchObject({ next_index: 0, lost: [{ id: lost.id, index: 0 }] });
  const interrupted = { ...textPart(1), type: 'data-interrupted', data: { type: 'data-interrupted', data: {} } };
  await session.append(1, [0, 1, 2], [interrupted, textPart(2, 'Long ago')]);
  await session.settleStep(1, [0, 1, 2], { nextIndex: 3, end: true });
  expect((await answerOf(session)).map((data) => data['text'] ?? data['type'])).toEqual([
    'Once upon',
    'data-interrupted',
    'Long ago',
  ]);
});

/** Bytes of write-ahead log that this connection has written, without those of others. */
async function walWritten(client: { query: typeof db.query }): Promise<number> {
  await client.query('SELECT pg_stat_force_next_flush()');
  const { rows: read } = await client.query(
    'SELECT wal_bytes::float8 AS bytes FROM pg_stat_get_backend_wal(pg_backend_pid())',
  );
  return (read[0] as { bytes: number }).bytes;
}

it.each([
  { chunksPerBatch: 16, most: 20 },
  { chunksPerBatch: 64, most: 20 },
])(
  'T4 an answer of 32 KB in 2,000 chunks, $chunksPerBatch per batch, writes at most $most bytes of WAL per byte',
  async ({ chunksPerBatch, most }) => {
    const client = await db.connect();
    try {
      const session = (await answering()).through(client);
      const chunk = 'sixteen letters.';
      const part = textPart(0, '');
      const before = await walWritten(client);
      await session.append(1, FENCE, [part]);
      for (let start = 0; start < 2_000; start += chunksPerBatch) {
        const text = chunk.repeat(Math.min(chunksPerBatch, 2_000 - start));
        await session.append(1, FENCE, [], [{ part_id: part.id, start: start * chunk.length, text }], null);
      }
      const text = chunk.repeat(2_000);
      await session.settleStep(1, FENCE, {
        parts: [{ ...part, data: { type: 'text', text }, settled: true }],
        end: true,
      });
      const perByte = ((await walWritten(client)) - before) / text.length;
      console.log(`write-ahead log per stored byte, ${chunksPerBatch} chunks a batch: ${perByte.toFixed(2)}`);
      expect(perByte).toBeLessThanOrEqual(most);
    } finally {
      client.release();
    }
  },
);

it('T4 the WAL of an answer grows linearly with its length', async () => {
  const client = await db.connect();
  try {
    const costs: number[] = [];
    for (const batches of [50, 400]) {
      const session = (await answering()).through(client);
      const part = textPart(0, '');
      await session.append(1, FENCE, [part]);
      const before = await walWritten(client);
      for (let n = 0; n < batches; n += 1) {
        await session.append(1, FENCE, [], [{ part_id: part.id, start: n * 256, text: 'x'.repeat(256) }], null);
      }
      costs.push(((await walWritten(client)) - before) / batches);
    }
    expect(costs[1]! / costs[0]!).toBeLessThan(1.25);
  } finally {
    client.release();
  }
});
