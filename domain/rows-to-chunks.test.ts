import type { UIMessageChunk } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AnswerRows } from '../tools/test-kit/answer-rows.ts';
import { cases } from '../tools/test-kit/cases.ts';
import { plain, reduced } from '../tools/test-kit/reduce.ts';
import type { PartData } from './part-data.ts';
import { rowsToChunks, seenUntilCall } from './rows-to-chunks.ts';
import type { RunState } from './runs.ts';
import { cursorOf, NOTHING_SEEN, type Seen } from './seen-part.ts';

/** A reader that collects its chunks. */
class FollowingReader {
  readonly chunks: UIMessageChunk[] = [];
  seen: Seen = NOTHING_SEEN;

  read(answer: AnswerRows): UIMessageChunk[] {
    const all = answer.state !== 'running';
    const { seen, chunks } = rowsToChunks(this.seen, answer.snapshot(cursorOf(this.seen, { all })));
    this.seen = seen;
    this.chunks.push(...chunks);
    return chunks;
  }
}

/** A change of an answer's rows. */
type Event = (answer: AnswerRows) => void;

function pick<T>(from: T[], at: number): T | undefined {
  return from[at % Math.max(1, from.length)];
}

const metadata = fc.constantFrom({}, { providerMetadata: { p: { a: 1 } } }, { providerMetadata: { p: { b: [2] } } });
const inputs = fc.constantFrom({ path: 'a/b', n: [1, { x: null }] }, {}, { text: 'lorem "ipsum" \\ 😀' });
const extras = fc.constantFrom(
  {},
  { title: 'T' },
  { callProviderMetadata: { p: { id: 'c' } } },
  { toolMetadata: { m: 1 }, providerExecuted: true },
);
const results = fc.constantFrom({}, { resultProviderMetadata: { p: { r: 1 } } });

const textStarts = fc.record({ type: fc.constantFrom('text', 'reasoning'), metadata }).map(
  (start): Event =>
    (answer) =>
      void answer.add({ type: start.type, text: '', state: 'streaming', ...start.metadata }),
);

const textGrows = fc
  .record({ at: fc.nat(), text: fc.constantFrom('a', 'Hello ', '😀', '\n', '{"x":') })
  .map(({ at, text }): Event => (answer) => {
    const row = pick(answer.open('streaming'), at);
    if (row) answer.append(row, text);
  });

const textSettles = fc.record({ at: fc.nat(), metadata, done: fc.boolean() }).map((settled): Event => (answer) => {
  const row = pick(answer.open('streaming'), settled.at);
  if (row) answer.settle(row, { ...settled.metadata, ...(settled.done && { state: 'done' }) });
});

const callStarts = fc.record({ dynamic: fc.boolean(), extra: extras }).map(({ dynamic, extra }): Event => (answer) => {
  const named = dynamic ? { type: 'dynamic-tool', toolName: 'made_up' } : { type: 'tool-write_file' };
  answer.add({ ...named, toolCallId: `call_${answer.rows.length}`, state: 'input-streaming', ...extra });
});

const inputGrows = fc
  .record({ at: fc.nat(), input: inputs, length: fc.integer({ min: 1, max: 9 }) })
  .map(({ at, input, length }): Event => (answer) => {
    const row = pick(answer.openInputs(), at);
    if (row) answer.append(row, JSON.stringify(input).slice(answer.lengthOf(row)).slice(0, length) || ' ');
  });

const inputEnds = fc
  .record({ at: fc.nat(), input: inputs, invalid: fc.boolean(), extra: results })
  .map(({ at, input, invalid, extra }): Event => (answer) => {
    const row = pick(answer.openInputs(), at);
    if (!row) return;
    const failed = { state: 'output-error', errorText: 'no such tool', ...extra };
    answer.replace(row, { without: ['rawInput'], input, ...(invalid ? failed : { state: 'input-available' }) });
  });

const approvals = fc.record({ at: fc.nat(), approved: fc.boolean() }).map(({ at, approved }): Event => (answer) => {
  const row = pick(answer.open('input-available', 'approval-requested'), at);
  if (!row) return;
  const approval = { id: `ap_${row.id}`, requestReason: 'why', isAutomatic: true };
  if (!row.data['approval']) answer.replace(row, { state: 'approval-requested', approval });
  else answer.replace(row, { state: 'approval-responded', approval: { ...approval, approved, reason: 'r' } });
});

function decidedByRule(id: string, approved: boolean) {
  const permission = { rule: 'r', decision: approved ? 'allow' : 'deny' };
  return { approval: { id, isAutomatic: true, approved }, callProviderMetadata: { perdure: { permission } } };
}

const callEnds = fc
  .record({
    at: fc.nat(),
    how: fc.constantFrom('output', 'preliminary', 'error', 'denied', 'denied by a rule'),
    extra: results,
    byRule: fc.boolean(),
    n: fc.nat(3),
  })
  .map(({ at, how, extra, byRule, n }): Event => (answer) => {
    const preliminary = answer.open('output-available').filter((row) => row.data['preliminary']);
    const row = pick([...answer.open('input-available', 'approval-responded'), ...preliminary], at);
    if (!row) return;
    const without = ['preliminary', 'output'];
    // The rule that allowed it is stored with the outcome.
    if (byRule && how !== 'preliminary' && !row.data['approval']) answer.replace(row, decidedByRule(row.id, true));
    if (how === 'denied' && row.data['state'] === 'approval-responded') answer.replace(row, { state: 'output-denied' });
    else if (how === 'denied by a rule')
      answer.replace(row, { state: 'output-denied', ...decidedByRule(row.id, false) });
    else if (how === 'error') answer.replace(row, { without, state: 'output-error', errorText: 'it failed', ...extra });
    else
      answer.replace(row, {
        without,
        state: 'output-available',
        output: { n },
        ...extra,
        ...(how === 'preliminary' && { preliminary: true }),
      });
  });

const wholes = fc
  .constantFrom<PartData[]>(
    { type: 'step-start' },
    { type: 'step-start' },
    { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AA==' },
    { type: 'source-url', sourceId: 's', url: 'https://example.com', title: 'E' },
    { type: 'source-document', sourceId: 'd', mediaType: 'text/plain', title: 'D', filename: 'd.txt' },
    { type: 'data-note', data: { a: 1 } },
  )
  .map(
    (data): Event =>
      (answer) =>
        void answer.add(data),
  );

const events = fc.oneof(
  textStarts,
  { arbitrary: textGrows, weight: 6 },
  textSettles,
  { arbitrary: callStarts, weight: 2 },
  { arbitrary: inputGrows, weight: 6 },
  { arbitrary: inputEnds, weight: 2 },
  approvals,
  { arbitrary: callEnds, weight: 2 },
  { arbitrary: wholes, weight: 2 },
  fc.constant<Event>((answer) => answer.interrupt()),
);

const ends = fc.constantFrom<RunState[]>('finished', 'error', 'aborted');

describe('H8 the chunks of a reader reduce to the stored message', () => {
  it('R2 after any changes of the parts, whenever the reader reads', async () => {
    const history = fc.array(fc.tuple(events, fc.boolean()), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(history, ends, async (happened, end) => {
        const answer = new AnswerRows();
        const live = new FollowingReader();
        for (const [event, looks] of happened) {
          event(answer);
          if (looks) live.read(answer);
        }
        answer.end(end);
        live.read(answer);
        const replay = new FollowingReader();
        replay.read(answer);
        expect(await reduced(live.chunks)).toEqual(await answer.stored());
        expect(await reduced(replay.chunks)).toEqual(await answer.stored());
      }),
      cases(3_000),
    );
  });

  it('R2 also while the run is active', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(events, { minLength: 1, maxLength: 25 }), async (happened) => {
        const answer = new AnswerRows();
        const live = new FollowingReader();
        for (const event of happened) {
          event(answer);
          live.read(answer);
        }
        // The reducer shows a `step-start` only with the next chunk.
        const shown = await reduced([...live.chunks, { type: 'message-metadata', messageMetadata: {} }]);
        expect(shown?.parts).toEqual((await answer.stored()).parts);
        const announced = live.chunks.flatMap((chunk) =>
          chunk.type === 'tool-input-available' ? [chunk.toolCallId] : [],
        );
        expect(new Set(announced).size, 'each call is announced once').toBe(announced.length);
      }),
      cases(1_000),
    );
  });
});

it('T1 a preliminary output that changes its metadata only is sent again', async () => {
  const answer = new AnswerRows();
  const reader = new FollowingReader();
  const call = { type: 'tool-write_file', toolCallId: 'call_1', input: {}, output: { n: 0 }, preliminary: true };
  const row = answer.add({ ...call, state: 'output-available' });
  reader.read(answer);
  answer.replace(row, { resultProviderMetadata: { p: { r: 1 } } });
  reader.read(answer);
  answer.end('finished');
  reader.read(answer);
  expect(await reduced(reader.chunks)).toEqual(await answer.stored());
});

const SEEN: [string, string[]][] = [
  ['the request', ['approval-requested']],
  ['the response', ['approval-responded']],
  ['both', ['approval-requested', 'approval-responded']],
];
it.each(SEEN)(
  'P3 what a rule denies that a user had approved is shown as denied by the rule, to a reader that saw %s',
  async (_what, seen) => {
    const answer = new AnswerRows();
    const reader = new FollowingReader();
    const asked = { id: 'call_1', descriptor: { permission: 'pay' } };
    const row = answer.add({ type: 'tool-pay', toolCallId: 'call_1', state: 'input-available', input: {} });
    for (const state of ['approval-requested', 'approval-responded']) {
      answer.replace(row, { state, approval: { ...asked, ...(state === 'approval-responded' && { approved: true }) } });
      if (seen.includes(state)) reader.read(answer);
    }
    answer.replace(row, { state: 'output-denied', ...decidedByRule('call_1', false) });
    reader.read(answer);
    answer.end('finished');
    reader.read(answer);
    expect(await reduced(reader.chunks)).toEqual(await answer.stored());
  },
);

it('H13 a page that has given the outcome of an approved call gets only what becomes of it; of others it gets the decision', () => {
  const answer = new AnswerRows();
  answer.add({ type: 'step-start' });
  const call = { type: 'tool-locate', toolCallId: 'call_1', input: {}, approval: { id: 'call_1', approved: true } };
  const row = answer.add({ ...call, state: 'approval-responded' });
  const snapshot = () => answer.snapshot(cursorOf(NOTHING_SEEN, { all: true }));
  const newOfCall = (given: string[]) =>
    rowsToChunks(seenUntilCall(snapshot(), 'call_1', given), snapshot()).chunks.flatMap((chunk) =>
      'toolCallId' in chunk ? [chunk.type] : [],
    );
  expect(newOfCall([])).toContain('tool-approval-request');
  expect(newOfCall(['call_1'])).toEqual([]);
  answer.replace(row, { state: 'output-available', output: { place: 'here' } });
  expect(newOfCall(['call_1'])).toEqual(['tool-output-available']);
  for (const decided of [
    { state: 'approval-requested', approval: { id: 'call_1' } },
    { state: 'output-available', ...decidedByRule('call_1', true) },
    { state: 'output-denied', ...decidedByRule('call_1', false) },
    { state: 'output-denied', approval: { id: 'call_1', approved: false } },
  ]) {
    answer.replace(row, decided);
    expect(newOfCall(['call_1'])).toContain('tool-approval-request');
  }
});

/** Streams a text as the input of a tool call, in two deltas; expects the reader to see the input that is stored. */
async function expectSameInput(text: string, cut: number): Promise<void> {
  const answer = new AnswerRows();
  const reader = new FollowingReader();
  answer.add({ type: 'step-start' });
  const row = answer.add({ type: 'tool-write_file', toolCallId: 'call_1', state: 'input-streaming' });
  for (const delta of [text.slice(0, cut), text.slice(cut)]) {
    if (delta !== '') answer.append(row, delta);
    reader.read(answer);
  }
  const shown = await reduced([...reader.chunks, { type: 'message-metadata', messageMetadata: {} }]);
  expect(shown?.parts).toEqual(plain((await answer.stored()).parts));
}

describe('an incomplete tool input reads as the SDK’s reducer reads it', () => {
  it('T1 JSON that is cut off anywhere', async () => {
    const json = fc.json().chain((whole) =>
      fc.tuple(
        fc.nat(whole.length).map((end) => whole.slice(0, end)),
        fc.nat(),
      ),
    );
    await fc.assert(
      fc.asyncProperty(json, ([text, at]) => expectSameInput(text, at % (text.length + 1))),
      cases(500),
    );
  });

  it('T1 text that is not JSON', async () => {
    const pieces = ['{}[]",:t-1e \\x'.split(''), 'true', 'fal', 'null', '0.', 'u00e9'].flat();
    const text = fc.array(fc.constantFrom(...pieces), { maxLength: 14 }).map((some) => some.join(''));
    await fc.assert(
      fc.asyncProperty(text, fc.nat(), (some, at) => expectSameInput(some, at % (some.length + 1))),
      cases(500),
    );
  });

  it.each(['{"__proto__":{"a":1}}', '{"a":{"constructor":{"prototype":1}', '{"constructor":1}', 'null', 'nul', ''])(
    'T1 %s',
    (text) => expectSameInput(text, 0),
  );
});

describe('a reader', () => {
  it('R2 gets start with the session first, and the usage with finish', () => {
    const answer = new AnswerRows();
    const reader = new FollowingReader();
    expect(reader.read(answer)).toEqual([
      { type: 'start', messageId: 'msg_a', messageMetadata: { session_id: 'ses_1' } },
    ]);
    answer.add({ type: 'step-start' });
    answer.append(answer.add({ type: 'text', text: '', state: 'streaming' }), 'Hi');
    answer.end('finished');
    expect(reader.read(answer).at(-1)).toEqual({
      type: 'finish',
      finishReason: 'stop',
      messageMetadata: { ...answer.metadata, session_id: 'ses_1' },
    });
    expect(reader.read(answer)).toEqual([]);
  });

  it('T5 of an aborted answer gets no end chunk for a part that was streaming', () => {
    const answer = new AnswerRows();
    const reader = new FollowingReader();
    answer.append(answer.add({ type: 'text', text: '', state: 'streaming' }), 'Hi');
    reader.read(answer);
    answer.end('aborted');
    expect(reader.read(answer).map((chunk) => chunk.type)).toEqual(['message-metadata', 'abort']);
  });

  it('R2 of a long answer reads from the growing part on, and only its new text', () => {
    const answer = new AnswerRows();
    const reader = new FollowingReader();
    answer.add({ type: 'step-start' });
    answer.append(answer.add({ type: 'text', text: '', state: 'streaming' }), '12345');
    reader.read(answer);
    expect(cursorOf(reader.seen)).toEqual({ index: 1, parts: [{ id: 'prt_1', units: 5 }] });
  });

  it('R2 that began late reads on from the same place as one that began early', () => {
    const history = fc.array(fc.tuple(events, fc.boolean()), { maxLength: 40 });
    fc.assert(
      fc.property(history, (happened) => {
        const answer = new AnswerRows();
        const early = new FollowingReader();
        for (const [event, looks] of happened) {
          event(answer);
          if (looks) early.read(answer);
        }
        const late = new FollowingReader();
        for (const reader of [early, late]) reader.read(answer);
        expect(cursorOf(late.seen)).toEqual(cursorOf(early.seen));
      }),
      cases(2_000),
    );
  });

  it('T5 reads the parts of a lost attempt again only after the run has ended', () => {
    const answer = new AnswerRows();
    const reader = new FollowingReader();
    answer.add({ type: 'tool-write_file', toolCallId: 'call_1', state: 'input-streaming' });
    answer.interrupt();
    reader.read(answer);
    expect(cursorOf(reader.seen)).toEqual({ index: 2, parts: [] });
    expect(cursorOf(reader.seen, { all: true })).toEqual({ index: 0, parts: [{ id: 'prt_0', units: 0 }] });
  });
});
