import { convertToModelMessages, type UIMessage } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { modelView } from './model-view.ts';

type Part = UIMessage['parts'][number];

const step: Part = { type: 'step-start' };
const interrupted: Part = { type: 'data-interrupted', data: {} };
const text = (content: string): Part => ({ type: 'text', text: content });

function call(id: string, rest: object): Part {
  return { type: 'tool-write_file', toolCallId: id, input: { path: 'a' }, ...rest } as unknown as Part;
}

const done = (id: string) => call(id, { state: 'output-available', output: { ok: true } });

function answer(parts: Part[], id = 'msg_a'): UIMessage {
  return { id, role: 'assistant', parts };
}

function user(parts: Part[], id = 'msg_u'): UIMessage {
  return { id, role: 'user', parts };
}

const image = (filename: string): Part => {
  return { type: 'file', mediaType: 'image/png', filename, url: 'data:image/png;base64,AAAA' };
};

const refused = (...messages: string[]): Part => ({ type: 'data-refused', data: { messages } });

/** A content filter stopped the turn of a message. */
const filtered = (message: string): Part => ({ type: 'data-refused', data: { messages: [message], whole: true } });

const viewOf = (parts: Part[], runStates?: Map<string, string>) =>
  modelView([answer(parts)], runStates)[0]?.parts ?? [];

describe('the model’s view', () => {
  it('T5 skips what a lost attempt wrote, back to its step-start', () => {
    const parts = [step, text('kept'), done('c1'), step, text('lost'), interrupted, step, text('again')];
    expect(viewOf(parts)).toEqual([step, text('kept'), done('c1'), step, text('again')]);
  });

  it('T5 skips each of several lost attempts', () => {
    const parts = [step, text('1'), interrupted, step, text('2'), interrupted, step, text('3')];
    expect(viewOf(parts)).toEqual([step, text('3')]);
    expect(viewOf([text('no step'), interrupted, step, text('3')])).toEqual([step, text('3')]);
  });

  it('T5 a tool call without an outcome gets an error: aborted by the user in an aborted run, else outcome unknown', () => {
    const open = call('c1', { state: 'input-available' });
    const aborted = viewOf([step, open], new Map([['msg_a', 'aborted']]));
    expect(aborted[1]).toEqual(call('c1', { state: 'output-error', errorText: 'aborted by the user' }));
    expect(viewOf([step, open], new Map([['msg_a', 'error']]))[1]).toMatchObject({
      state: 'output-error',
      errorText: 'interrupted, outcome unknown',
    });
  });

  it('R3 leaves no tool call open, whatever state it is in', () => {
    const states = ['input-streaming', 'input-available', 'approval-requested', 'approval-responded'];
    for (const state of states) {
      const [, part] = viewOf([step, call('c1', { state, input: undefined, rawInput: '{"pa', approval: { id: 'a' } })]);
      expect(part).toEqual(call('c1', { state: 'output-error', input: {}, errorText: 'interrupted, outcome unknown' }));
    }
  });

  it('P3 a call that the user refused says so, with the reason', () => {
    const denied = call('c1', { state: 'output-denied', approval: { id: 'a', approved: false, reason: 'not now' } });
    expect(viewOf([step, denied])[1]).toEqual(
      call('c1', { state: 'output-error', errorText: 'the user did not allow this call: not now' }),
    );
  });

  it('X9 removes data parts, empty texts and empty messages', () => {
    const messages = [
      answer([{ type: 'data-status', data: 1 }, step, text('')], 'msg_1'),
      answer([step, { type: 'reasoning', text: 'only thought' }], 'msg_2'),
      answer([{ type: 'data-status', data: 1 }, text('x')], 'msg_3'),
    ];
    expect(modelView(messages)).toEqual([answer([text('x')], 'msg_3')]);
  });

  it('R6 removes blank texts, also before a tool call, and answers that have nothing else', () => {
    expect(viewOf([step, text('\n\n'), done('c1'), step, text(' \t\u00a0')])).toEqual([step, done('c1')]);
    expect(modelView([answer([step, { type: 'reasoning', text: 'hm' }, text('\n\n')])])).toEqual([]);
  });

  it('R6 of a user’s message only blank texts are removed, and one that is nothing but blank says so', () => {
    expect(modelView([user([text(' '), image('a.png')])])).toEqual([user([image('a.png')])]);
    expect(modelView([user([text('\n'), text(' ')])])).toEqual([user([text('[blank message]')])]);
  });

  it('R6 a refused request: the files of the messages that its answer names are replaced by a note', () => {
    const note = text('[file "a.png" of type image/png: the model provider refused it]');
    const messages = [
      user([text('look'), image('a.png')], 'msg_1'),
      answer([refused('msg_1')], 'msg_2'),
      user([image('a.png')], 'msg_3'),
    ];
    expect(modelView(messages)).toEqual([user([text('look'), note], 'msg_1'), user([image('a.png')], 'msg_3')]);
    const wider = [...messages, answer([step, text('no'), refused('msg_3')], 'msg_4')];
    expect(modelView(wider).slice(1)).toEqual([user([note], 'msg_3'), answer([step, text('no')], 'msg_4')]);
    expect(modelView([messages[0]!, messages[2]!])[0], 'the answer is hidden').toEqual(messages[0]);
  });

  it('R6 a turn that a content filter refused: a note stands in place of its message and its answer', () => {
    const messages = [
      user([text('one'), image('a.png')], 'msg_1'),
      answer([step, text('two')], 'msg_2'),
      user([text('something bad'), image('b.png')], 'msg_3'),
      answer([step, text('I must'), done('c1'), filtered('msg_3')], 'msg_4'),
      user([text('on')], 'msg_5'),
    ];
    const note = user([text('[a message that the content filter of the model provider refused]')], 'msg_3');
    expect(modelView(messages)).toEqual([...messages.slice(0, 2), note, messages[4]]);
    const hidden = messages.toSpliced(3, 1);
    expect(modelView(hidden), 'its answer is hidden').toEqual(hidden);
  });

  it('R6 X6 it stays out of a turn that a summary splits', () => {
    const summary = { summary: 'In short', tail_start_id: 'msg_1', split: true };
    const messages = [
      answer([{ type: 'data-compaction', data: summary }], 'msg_0'),
      user([text('something bad')], 'msg_1'),
      answer([step, done('c1'), step, text('I must'), filtered('msg_1')], 'msg_2'),
      user([text('on')], 'msg_3'),
    ];
    expect(modelView(messages).map(({ id, parts }) => [id, parts.length])).toEqual([
      ['msg_0', 1],
      ['msg_1', 1],
      ['msg_3', 1],
    ]);
  });

  it('X6 an answer that goes on is not split, although its message is the first after a summary', () => {
    const summary = { summary: 'In short', tail_start_id: 'msg_1', split: true };
    const going = [
      answer([{ type: 'data-compaction', data: summary }], 'msg_0'),
      user([text('look')], 'msg_1'),
      answer([step, done('c1')], 'msg_2'),
    ];
    expect(modelView(going).at(-1)).toEqual(going.at(-1));
  });

  it('R6 attached texts of a refused message are still sent: they are no files for the provider', () => {
    const file = { type: 'file', mediaType: 'text/csv', url: 'perdure:att_1' } as const;
    const nameless = { type: 'file', mediaType: 'text/csv', url: 'data:text/csv;base64,YQ==' } as const;
    const view = modelView([user([file, nameless], 'msg_1'), answer([refused('msg_1')])]);
    expect(view[0]?.parts).toEqual([file, text('[file of type text/csv: the model provider refused it]')]);
  });

  it('R3 inputs that are not objects become {}, because providers refuse others', () => {
    const bad = call('c1', { state: 'output-error', input: '{"path":', errorText: 'no JSON' });
    expect(viewOf([step, bad])[1]).toMatchObject({ input: {}, errorText: 'no JSON' });
  });

  it('T5 changes nothing that is stored', () => {
    const message = answer([step, call('c1', { state: 'input-available' }), interrupted]);
    const before = structuredClone(message);
    modelView([message]);
    expect(message).toEqual(before);
  });
});

describe('converted for the SDK', () => {
  it('R1 steps become an assistant message each, with their tool results after them', async () => {
    const signed = { anthropic: { signature: 'sig' } };
    const messages: UIMessage[] = [
      { id: 'u', role: 'user', parts: [text('hi')] },
      answer([
        step,
        { type: 'reasoning', text: 'hm', providerMetadata: signed },
        text('let me'),
        done('c1'),
        call('c2', { state: 'input-available' }),
        step,
        text('done'),
      ]),
    ];
    const converted = await convertToModelMessages(modelView(messages));
    expect(converted.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
    expect(converted[1]?.content).toMatchObject([
      { type: 'reasoning', text: 'hm', providerOptions: signed },
      { type: 'text', text: 'let me' },
      { type: 'tool-call', toolCallId: 'c1' },
      { type: 'tool-call', toolCallId: 'c2' },
    ]);
    expect(converted[2]?.content).toMatchObject([
      { type: 'tool-result', toolCallId: 'c1', output: { type: 'json', value: { ok: true } } },
      { type: 'tool-result', toolCallId: 'c2', output: { type: 'error-text', value: 'interrupted, outcome unknown' } },
    ]);
  });

  it('R3 every tool call has exactly one result right after it, whatever the transcript', async () => {
    const states = ['input-streaming', 'input-available', 'approval-requested', 'output-available', 'output-error'];
    const anyPart = fc.oneof(
      fc.constant(step),
      fc.constant(interrupted),
      fc.string().map(text),
      fc.string().map((content): Part => ({ type: 'reasoning', text: content })),
      fc.record({ id: fc.uuid(), state: fc.constantFrom(...states) }).map(({ id, state }) => {
        const outcome = state === 'output-available' ? { output: 1 } : { errorText: 'no' };
        return call(id, { state, ...(state.startsWith('output') && outcome) });
      }),
    );
    const transcripts = fc.array(fc.array(anyPart, { maxLength: 12 }), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(transcripts, async (answers) => {
        const view = modelView(answers.map((parts, at) => answer(parts, `msg_${at}`)));
        const converted = await convertToModelMessages(view);
        converted.forEach((message, at) => {
          if (message.role !== 'assistant') return;
          expect(message.content.length).toBeGreaterThan(0);
          const calls = idsOf(message.content, 'tool-call');
          const next = converted[at + 1];
          expect(next?.role === 'tool' ? idsOf(next.content, 'tool-result') : []).toEqual(calls);
        });
      }),
      cases(),
    );
  });
});

function idsOf(content: unknown, type: string): string[] {
  const parts = content as { type: string; toolCallId: string }[];
  return parts.filter((part) => part.type === type).map((part) => part.toolCallId);
}
