import { readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type PartData, type PartSnapshot, settlePartData } from './part-data.ts';
import type { RunState } from './runs.ts';
import { advance, type AnswerSnapshot } from './stream.ts';
import { cursorOf, NOTHING_SEEN, type Seen } from './stream-seen.ts';

interface Row {
  id: string;
  index: number;
  data: PartData;
  deltas: { start: number; text: string }[];
}

/** An answer's rows as a recorder writes them, and readers that look at them now and then. */
class Answer {
  readonly rows: Row[] = [];
  state: RunState = 'running';
  metadata: Record<string, unknown> | null = null;
  private attempt = 0;

  /** The open rows that may still be written to: those of the newest attempt. */
  open(...states: string[]): Row[] {
    return this.rows.filter(({ index, data }) => index >= this.attempt && states.includes(String(data['state'])));
  }

  add(data: PartData): Row {
    this.metadata ??= { system_prompt_digest: 'd' };
    const index = this.rows.length;
    const id = `prt_${index}`;
    const row = { id, index, data: data.type === 'reasoning' ? { ...data, id } : data, deltas: [] };
    this.rows.push(row);
    return row;
  }

  append(row: Row, text: string): void {
    row.deltas.push({ start: lengthOf(row), text });
  }

  /** Writes `data` over, with all of the text or raw input that has come. */
  settle(row: Row, change: Record<string, unknown>): void {
    row.data = { ...settlePartData(row.data, joined(row.deltas)), ...change };
    row.deltas = [];
  }

  interrupt(): void {
    this.add({ type: 'data-interrupted', id: `int_${this.rows.length}`, data: {} });
    this.attempt = this.rows.length;
  }

  /** As settle_run ends a run: texts hold all they have, open calls of an error fail, those of an abort stay. */
  end(state: RunState): void {
    for (const row of this.rows) {
      const isTool = 'toolCallId' in row.data;
      if (!isTool)
        this.settle(
          row,
          state === 'finished' && row.index >= this.attempt && row.data['state'] ? { state: 'done' } : {},
        );
      else if (state !== 'aborted' && !String(row.data['state']).startsWith('output-')) {
        row.data = { ...row.data, state: 'output-error', errorText: 'interrupted' };
      }
    }
    this.state = state;
    if (this.metadata) this.metadata = { ...this.metadata, steps: [{ finish_reason: 'stop' }], usage: { input: 1 } };
  }

  snapshot(cursor: ReturnType<typeof cursorOf>): AnswerSnapshot {
    const units = new Map(cursor.parts.map((part) => [part.id, part.units]));
    const parts = this.rows
      .filter((row) => row.index >= cursor.index)
      .map(({ id, index, data, deltas }): PartSnapshot => {
        const read = deltas.filter((delta) => delta.start >= (units.get(id) ?? 0));
        return { id, index, data, text: joined(read), text_start: read[0]?.start ?? null };
      });
    const { metadata, state: run_state } = this;
    const error = run_state === 'error' ? 'it broke' : null;
    return structuredClone({
      session_id: 'ses_1',
      message_id: 'msg_a',
      metadata,
      run_state,
      error_code: null,
      error_message: error,
      parts,
    });
  }

  stored(): unknown {
    const parts = this.rows.map((row) => settlePartData(row.data, joined(row.deltas)));
    return plain({ id: 'msg_a', role: 'assistant', metadata: { ...this.metadata, session_id: 'ses_1' }, parts });
  }
}

function joined(deltas: { text: string }[]): string | null {
  return deltas.length === 0 ? null : deltas.map((delta) => delta.text).join('');
}

function lengthOf(row: Row): number {
  const settled = row.data['text'] ?? row.data['rawInput'] ?? '';
  return String(settled).length + (joined(row.deltas) ?? '').length;
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

class FollowingReader {
  readonly chunks: UIMessageChunk[] = [];
  private seen: Seen = NOTHING_SEEN;

  read(answer: Answer): void {
    let snapshot = answer.snapshot(cursorOf(this.seen));
    if (snapshot.run_state !== 'running') snapshot = answer.snapshot(cursorOf(this.seen, { all: true }));
    const next = advance(this.seen, snapshot);
    this.seen = next.seen;
    this.chunks.push(...(plain(next.chunks) as UIMessageChunk[]));
  }
}

/** What the AI SDK makes of the chunks; errors of the reduction are thrown. */
async function reduced(chunks: UIMessageChunk[]): Promise<unknown> {
  let message: UIMessage | undefined;
  const errors: unknown[] = [];
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  for await (const state of readUIMessageStream({ stream, onError: (error) => void errors.push(error) }))
    message = state;
  expect(errors.filter((error) => (error as Error).message !== 'it broke')).toEqual([]);
  return plain(message);
}

type Step = (answer: Answer) => void;

const texts = fc.constantFrom('a', 'Hello ', '😀', '\n', 'wörld', '{"x":');
const metadata = fc.constantFrom({}, { providerMetadata: { p: { a: 1 } } }, { providerMetadata: { p: { b: [2] } } });
const input = fc.constantFrom({ path: 'a/b', n: [1, { x: null }] }, {}, { text: 'lorem "ipsum" \\ 😀' });
const calls = fc.record({
  dynamic: fc.boolean(),
  extra: fc.constantFrom({}, { title: 'T' }, { callProviderMetadata: { p: { id: 'c' } } }, { toolMetadata: { m: 1 } }),
});
const results = fc.constantFrom({}, { resultProviderMetadata: { p: { r: 1 } } });

function pick<T>(from: T[], at: number): T | undefined {
  return from[at % Math.max(1, from.length)];
}

const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.constant<Step>((answer) => void answer.add({ type: 'step-start' })),
  fc.record({ type: fc.constantFrom('text', 'reasoning'), metadata }).map<Step>((start) => (answer) => {
    answer.add({ type: start.type, text: '', state: 'streaming', ...start.metadata });
  }),
  {
    arbitrary: fc.record({ at: fc.nat(), text: texts }).map<Step>(({ at, text }) => (answer) => {
      const row = pick(answer.open('streaming'), at);
      if (row) answer.append(row, text);
    }),
    weight: 6,
  },
  fc.record({ at: fc.nat(), metadata, done: fc.boolean() }).map<Step>(({ at, metadata: given, done }) => (answer) => {
    const row = pick(answer.open('streaming'), at);
    if (row) answer.settle(row, { ...given, ...(done && { state: 'done' }) });
  }),
  calls.map<Step>(({ dynamic, extra }) => (answer) => {
    const named = dynamic ? { type: 'dynamic-tool', toolName: 'made_up' } : { type: 'tool-write_file' };
    answer.add({ ...named, toolCallId: `call_${answer.rows.length}`, state: 'input-streaming', ...extra });
  }),
  {
    arbitrary: fc.record({ at: fc.nat(), input, from: fc.nat(), length: fc.nat(9) }).map<Step>((piece) => (answer) => {
      const row = pick(answer.open('input-streaming'), piece.at);
      if (row)
        answer.append(
          row,
          JSON.stringify(piece.input)
            .slice(lengthOf(row))
            .slice(0, piece.length + 1) || ' ',
        );
    }),
    weight: 6,
  },
  fc.record({ at: fc.nat(), input, invalid: fc.boolean(), results }).map<Step>((end) => (answer) => {
    // The reducer completes an input in its current step only, and so does a recorder.
    const step = answer.rows.findLast((row) => row.data.type === 'step-start')?.index ?? -1;
    const row = pick(
      answer.open('input-streaming').filter((open) => open.index > step),
      end.at,
    );
    if (!row) return;
    const { inputEncoding: _i, rawInput: _r, input: _p, ...data } = row.data;
    row.deltas = [];
    row.data = end.invalid
      ? { ...data, state: 'output-error', input: end.input, errorText: 'no such tool', ...end.results }
      : { ...data, state: 'input-available', input: end.input };
  }),
  fc.nat().map<Step>((at) => (answer) => {
    const row = pick(answer.open('input-available'), at);
    if (row && !row.data['approval'])
      row.data = { ...row.data, state: 'approval-requested', approval: { id: `ap_${row.id}` } };
  }),
  fc.record({ at: fc.nat(), approved: fc.boolean() }).map<Step>(({ at, approved }) => (answer) => {
    const row = pick(answer.open('approval-requested'), at);
    if (row)
      row.data = { ...row.data, state: 'approval-responded', approval: { id: `ap_${row.id}`, approved, reason: 'r' } };
  }),
  {
    arbitrary: fc
      .record({ at: fc.nat(), how: fc.constantFrom('output', 'preliminary', 'error'), results, n: fc.nat(3) })
      .map<Step>(({ at, how, results: extra, n }) => (answer) => {
        const row = pick(
          [
            ...answer.open('input-available', 'approval-responded'),
            ...answer.open('output-available').filter((open) => open.data['preliminary']),
          ],
          at,
        );
        if (!row) return;
        const { preliminary: _p, output: _o, ...data } = row.data;
        if (how === 'error') row.data = { ...data, state: 'output-error', errorText: 'it failed', ...extra };
        else
          row.data = {
            ...data,
            state: 'output-available',
            output: { n },
            ...(how === 'preliminary' && { preliminary: true }),
            ...extra,
          };
      }),
    weight: 2,
  },
  fc.nat().map<Step>((at) => (answer) => {
    const row = pick(
      answer
        .open('approval-responded')
        .filter((open) => (open.data['approval'] as { approved: boolean }).approved === false),
      at,
    );
    if (row) row.data = { ...row.data, state: 'output-denied' };
  }),
  fc
    .constantFrom<PartData>(
      { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AA==' },
      { type: 'source-url', sourceId: 's', url: 'https://example.com', title: 'E' },
      { type: 'source-document', sourceId: 'd', mediaType: 'text/plain', title: 'D', filename: 'd.txt' },
      { type: 'data-note', id: 'n', data: { a: 1 } },
    )
    .map<Step>((data) => (answer) => {
      if (!answer.rows.some((row) => row.data['id'] === 'n' && data.type === 'data-note')) answer.add(data);
    }),
  fc.constant<Step>((answer) => answer.interrupt()),
);

const ends = fc.constantFrom<RunState>('finished', 'error', 'aborted');

describe('R2 H8 the chunks of a reader reduce to the stored message', () => {
  it('whatever happens to the parts, and whenever the reader looks', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(steps, fc.boolean()), { maxLength: 40 }), ends, async (history, end) => {
        const answer = new Answer();
        const live = new FollowingReader();
        for (const [step, look] of history) {
          step(answer);
          if (look) live.read(answer);
        }
        answer.end(end);
        live.read(answer);
        const replay = new FollowingReader();
        replay.read(answer);
        const stored = answer.stored();
        expect(await reduced(live.chunks)).toEqual(stored);
        expect(await reduced(replay.chunks)).toEqual(stored);
      }),
      { numRuns: 3_000 },
    );
  });
});
