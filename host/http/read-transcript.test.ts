import { ReadableStream, TextEncoderStream } from 'node:stream/web';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import { chatBody } from '../../wire/requests.ts';
import { JsonError, JsonScanner } from './json-scanner.ts';
import { readTranscript } from './read-transcript.ts';

const KEPT = 4_096;
const WHOLE = 8 * 1024 ** 2;
const LIMITS = {
  whole: { bytes: WHOLE, setting: 'PERDURE_MAX_TRANSCRIPT_BODY' },
  kept: { bytes: KEPT, setting: 'PERDURE_MAX_BODY' },
};

/** A request whose body comes in these pieces. */
function requestOf(...pieces: string[]): Request {
  const body = ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece)));
  return new Request('http://localhost/api/chat', { method: 'POST', body, duplex: 'half' } as unknown as RequestInit);
}

const read = (...pieces: string[]) => readTranscript(requestOf(...pieces), chatBody, LIMITS);

/** The text cut at these places. */
function cut(text: string, places: number[]): string[] {
  const at = [0, ...places.map((place) => place % (text.length + 1)).toSorted((a, b) => a - b), text.length];
  return at.slice(1).map((end, index) => text.slice(at[index], end));
}

const QUIET = { begin: () => false, end: () => {} };

function isJson(pieces: string[]): boolean {
  const scanner = new JsonScanner(QUIET, { depth: 64, text: KEPT, values: Infinity });
  try {
    for (const piece of pieces) scanner.push(piece);
    scanner.finish();
    return true;
  } catch (error) {
    if (error instanceof JsonError) return false;
    throw error;
  }
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const places = fc.array(fc.nat(), { maxLength: 8 });
const json = fc.jsonValue({ maxDepth: 6 }).map((value) => JSON.stringify(value, null, value === 1 ? 2 : 0));
/** Text that is almost JSON. */
const mangled = fc
  .tuple(
    json,
    fc.nat(),
    fc.nat({ max: 3 }),
    fc.constantFrom('', ...'{}[]",:\\ \n\u0001eE+-.019tunx'.split(''), '\\u12', '"a":'),
  )
  .map(([text, at, length, put]) => {
    const from = at % (text.length + 1);
    return text.slice(0, from) + put + text.slice(from + length);
  });

describe('a text that is scanned in pieces', () => {
  it('H2 is accepted exactly if JSON.parse accepts it, in any chunks', () => {
    fc.assert(
      fc.property(fc.oneof(json, mangled, fc.string()), places, (text, at) => {
        expect(isJson(cut(text, at))).toBe(parses(text));
      }),
      cases(2_000),
    );
  });

  it.each([
    '-',
    '01',
    '1.',
    '1e',
    'tru',
    '+1',
    '"\\x"',
    '"\\u12"',
    '"\t"',
    '[1,]',
    '{"a":1,}',
    '{,}',
    '[}',
    '1 2',
    ']',
  ])('H2 is no JSON: %s', (text) => expect([isJson([text]), isJson(text.split(''))]).toEqual([false, false]));
});

describe('a transcript', () => {
  const anyMessage = fc.jsonValue({ maxDepth: 4 });
  const key = fc.constantFrom('id', 'trigger', 'messages', 'extra', 'other "key"');

  it('H2 gives the same last message and fields as JSON.parse, in any order and chunks', async () => {
    const member = fc.oneof(
      fc.tuple(key, fc.jsonValue({ maxDepth: 3 })),
      fc.tuple(fc.constant('messages'), fc.array(anyMessage, { minLength: 1 })),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(member, { maxLength: 6 }),
        fc.array(anyMessage, { minLength: 1 }),
        places,
        async (more, messages, at) => {
          const members = [...more, ['id', 'chat'], ['messages', messages], ['trigger', 'submit-message']] as const;
          const text = `{${members.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`).join(' ,\n')}}`;
          fc.pre(!text.includes('__proto__'));
          const body = await read(...cut(text, at));
          expect(body).toMatchObject({ id: 'chat', trigger: 'submit-message' });
          expect(body.messages).toHaveLength(messages.length);
          expect(body.messages.at(-1)).toEqual(JSON.parse(JSON.stringify(messages.at(-1))));
        },
      ),
      cases(200),
    );
  });

  const long = 'x'.repeat(1024 ** 2);
  it.each([
    ['text', `"${long}"`],
    ['escapes', `"${'\\u0041'.repeat(200_000)}"`],
    ['key', `{"${long}":1}`],
    ['many values', `[${'[],'.repeat(200_000)}1]`],
    ['space', `[${' '.repeat(1024 ** 2)}]`],
  ])('H2 forgets an earlier message of %s, whatever its size', async (_what, text) => {
    const body = await read(`{"id":"a","messages":[${text},{"role":"user"}]}`);
    expect(body.messages).toHaveLength(2);
    expect(body.messages[1]).toEqual({ role: 'user' });
    await expect(read(`{"id":"a","messages":[{"role":"user"},${text}]}`)).rejects.toMatchObject({
      code: 'TooLarge',
      message: `messages[1]: expected at most ${KEPT} bytes (PERDURE_MAX_BODY)`,
    });
  });

  const approved = {
    type: 'tool-pay',
    toolCallId: 'call_9',
    state: 'approval-responded',
    approval: { id: 'a', approved: true },
  };
  const output = (toolCallId: string, size: number) => ({
    ...{ type: 'tool-read', toolCallId, state: 'output-available' },
    ...{ input: { path: 'a' }, output: { text: 'x'.repeat(size) } },
  });
  const answerOf = (...parts: object[]) => ({
    ...{ id: 'msg', metadata: { role: 'user', parts: [approved] } },
    ...{ parts: [{ type: 'text', text: 'y'.repeat(KEPT) }, [approved], ...parts], role: 'assistant' },
  });
  const bodyOf = (last: object) => JSON.stringify({ id: 'a', messages: [answerOf(output('call_0', 9)), last] });
  const readLast = async (last: object, at: number[] = []) => (await read(...cut(bodyOf(last), at))).messages.at(-1);

  it('H8 H13 keeps of a long answer what responds to its tool calls, in any chunks', async () => {
    const failed = {
      type: 'dynamic-tool',
      toolCallId: 'call_8',
      state: 'output-error',
      errorText: 'lost',
      toolName: 'x',
    };
    const preliminary = { ...output('call_1', 9), preliminary: true };
    const last = answerOf(preliminary, failed, approved);
    const { type: _type, input: _input, ...first } = preliminary;
    const kept = [
      first,
      { toolCallId: 'call_8', state: 'output-error', errorText: 'lost' },
      { toolCallId: 'call_9', state: 'approval-responded', approval: { approved: true } },
    ];
    await fc.assert(
      fc.asyncProperty(places, async (at) => {
        expect(await readLast(last, at)).toEqual({ id: 'msg', role: 'assistant', parts: kept });
      }),
      cases(50),
    );
    const { parts, ...members } = last;
    const twice = JSON.stringify({ ...members, first: [approved], parts }).replace('"first"', '"parts"');
    const body = await read(`{"id":"a","messages":[${twice}]}`);
    expect(body.messages).toEqual([{ id: 'msg', role: 'assistant', parts: kept }]);
  });

  it('H8 H13 leaves out of a long answer the outcomes of earlier steps, and those of the last one that have no room, the later first', async () => {
    const outputs = Array.from({ length: 2_000 }, (_, n) => output(`call_${n}`, KEPT / 3));
    const error = { toolCallId: 'call_0', state: 'output-error', errorText: 'x'.repeat(KEPT / 3) };
    const [left, taken, step] = ['output-left-out', 'output-available', { type: 'step-start' }];
    const statesOf = async (...parts: object[]) =>
      ((await readLast(answerOf(...parts))) as { parts: { state: string }[] }).parts.map(({ state }) => state);
    const states = await statesOf(step, error, ...outputs.slice(0, 2), step, error, ...outputs.slice(2, 5), approved);
    expect(states).toEqual([left, left, left, 'output-error', taken, left, left, 'approval-responded']);
    for (const name of ['output', 'errorText']) {
      const early = { [name]: 'x'.repeat(KEPT), toolCallId: 'call_1', state: 'output-error' };
      expect(await statesOf(early, approved)).toEqual([left, 'approval-responded']);
    }
    await expect(readLast(answerOf(...outputs))).rejects.toMatchObject({ code: 'TooLarge' });
  });

  it('H8 H13 keeps of an approval in a long answer only what answers it, however long is what was asked, in any chunks', async () => {
    const descriptor = { approved: false, pattern: 'x'.repeat(2 * KEPT), ['y'.repeat(2 * KEPT)]: [{ reason: 'z' }] };
    const asked = [
      { ...approved, approval: { id: 'a', descriptor, approved: true, state: 'x' } },
      { approval: { approved: false, reason: 'no', descriptor }, ...output('call_1', 9) },
      { ...approved, approval: [{ approved: true }] },
    ];
    const twice = JSON.stringify(answerOf(...asked, approved)).replace(
      '"approval"',
      '"approval":{"reason":"x"},"approval"',
    );
    const text = `{"id":"a","messages":[${twice}]}`;
    await fc.assert(
      fc.asyncProperty(places, async (at) => {
        const [answer] = (await read(...cut(text, at))).messages as { parts: { state: string; approval: object }[] }[];
        expect(answer!.parts.map(({ state, approval }) => [state, approval])).toEqual([
          ['approval-responded', { approved: true }],
          ['output-available', { approved: false, reason: 'no' }],
          ['approval-responded', {}],
          ['approval-responded', { approved: true }],
        ]);
      }),
      cases(50),
    );
  });

  it.each([
    ['message of the user', { ...answerOf(approved), role: 'user' }],
    ['message whose role is a list', { ...answerOf(approved), role: ['assistant'] }],
    ['approval', answerOf({ ...approved, approval: { reason: 'x'.repeat(KEPT) } })],
    ['id', { ...answerOf(approved), id: 'x'.repeat(KEPT - 50) }],
  ])('H2 is refused for a long %s', async (_what, last) => {
    await expect(readLast(last)).rejects.toMatchObject({
      code: 'TooLarge',
      message: `messages[1]: expected at most ${KEPT} bytes (PERDURE_MAX_BODY)`,
    });
  });

  it.each([
    ['a body that ends too early', '{"id":"a","messages":[{}', 'body: expected JSON'],
    ['no JSON in an earlier message', '{"id":"a","messages":[{"a" 1},{}]}', 'body: expected JSON'],
    ['something behind the body', '{"id":"a","messages":[{}]} x', 'body: expected JSON'],
    ['one deep message', `{"id":"a","messages":[${'['.repeat(2e6)}`, 'body: expected at most 64 levels of nesting'],
    ['a long number', `{"id":"a","messages":[${'1'.repeat(5_000)},{}]}`, 'body: expected JSON'],
    ['no object', '[1]', 'body: expected an object'],
    ['nothing', ' ', /^(id|messages): expected /],
    ['no message', '{"id":"a","messages":[]}', 'messages: expected at least one message'],
    ['no messages', '{"id":"a","messages":[{}],"messages":1}', 'messages: expected an array of messages'],
    ['a prototype', '{"id":"a","messages":[{"__proto__":{}}]}', 'body: expected no key "__proto__"'],
    ['a prototype of its own', '{"__proto__":{},"id":"a","messages":[{}]}', 'body: expected no key "__proto__"'],
  ])('H2 is refused for %s', async (_what, text, message) => {
    await expect(read(text)).rejects.toMatchObject({ code: 'BadRequest', message: expect.stringMatching(message) });
  });

  it('H2 is refused as soon as it is too large, and if a needed field is', async () => {
    let pieces = 0;
    const endless = async function* () {
      yield '{"id":"a","messages":[';
      for (;;) {
        pieces += 1;
        yield `"${'x'.repeat(65_000)}",`;
      }
    };
    const body = ReadableStream.from(endless()).pipeThrough(new TextEncoderStream());
    const request = new Request('http://localhost', { method: 'POST', body, duplex: 'half' } as unknown as RequestInit);
    await expect(readTranscript(request, chatBody, LIMITS)).rejects.toMatchObject({
      code: 'TooLarge',
      message: `body: expected at most ${WHOLE} bytes (PERDURE_MAX_TRANSCRIPT_BODY)`,
    });
    expect(pieces).toBeLessThan(WHOLE / 65_000 + 10);
    await expect(read(`{"id":"${long}","messages":[{}]}`)).rejects.toMatchObject({ code: 'TooLarge' });
  });

  it.each([
    ['messages', '0,', '', 'messages: expected at most 262144 messages'],
    ['values in a message', '0,', '[', 'body: expected at most 2097152 keys and values'],
    ['objects in a message', '{"":{}},', '[', 'body: expected at most 2097152 keys and values'],
  ])('H2 is refused as soon as it has too many %s', async (_what, item, before, message) => {
    const piece = item.repeat(65_536 / item.length);
    let pieces = 0;
    const many = function* () {
      yield `{"id":"a","messages":[${before}`;
      for (; pieces * piece.length < WHOLE - piece.length; pieces += 1) yield piece;
    };
    const body = ReadableStream.from(many()).pipeThrough(new TextEncoderStream());
    const request = new Request('http://localhost', { method: 'POST', body, duplex: 'half' } as unknown as RequestInit);
    let wasRead = 0;
    const reading = readTranscript(request, chatBody, LIMITS).finally(() => (wasRead = pieces));
    await expect(reading).rejects.toMatchObject({ code: 'BadRequest', message });
    expect(wasRead * piece.length).toBeLessThan((WHOLE * 3) / 4);
  });

  it.each([
    ['messages', '{"id":"","role":"user","parts":[]},', ''],
    ['parts', '{"type":"text","text":""},', '{"id":"a","role":"assistant","parts":['],
    ['numbers of a tool’s output', '127,', '{"id":"a","role":"assistant","parts":[{"type":"tool-a","output":['],
  ])('H2 may consist of the shortest %s', async (_what, item, before) => {
    const after = before.replaceAll(/[^{[]/g, '').split('').toReversed();
    const closing = after.map((char) => (char === '{' ? '}' : ']')).join('');
    const [from, to] = [`{"id":"a","messages":[${before}`, `${before === '' ? '' : `0${closing},`}{"role":"user"}]}`];
    const items = item.repeat(Math.floor((WHOLE - from.length - to.length) / item.length));
    expect((await read(from, items, to)).messages.at(-1)).toEqual({ role: 'user' });
  });
});
