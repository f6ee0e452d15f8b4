import type { UIMessage } from 'ai';
import { describe, expect, it } from 'vitest';
import type { SessionStatus } from '../../domain/runs.ts';
import {
  hasContent,
  heldCall,
  joinPages,
  messageToStop,
  partQueued,
  stillWaiting,
  type Waiting,
} from './transcript.ts';

/** u1 is a user's message, a1 its answer; the turn of u1! has failed. */
const message = (id: string): UIMessage => ({
  id,
  role: id.startsWith('u') ? 'user' : 'assistant',
  metadata: id.endsWith('!') ? { turn: { state: 'error' } } : {},
  parts: [],
});
const messages = (ids: string) => ids.split(' ').filter(Boolean).map(message);
const ids = (list: UIMessage[]) => list.map(({ id }) => id).join(' ');

it('R6 an answer that only says which files were refused is not shown', () => {
  const part = { type: 'data-refused' as const, data: { messages: ['u1'] } };
  expect(hasContent({ id: 'a1', role: 'assistant', parts: [part] })).toBe(false);
});

describe('the message whose answer is stopped', () => {
  it.each([
    ['the one whose answer is shown', 'u1 a1', '', { state: 'busy', message_id: 'u1' }, 'u1'],
    ['that one also when the next turn has begun', 'u1 a1', 'u2', { state: 'busy', message_id: 'u2' }, 'u1'],
    ['that one also before the server tells its status', 'u1 a1 u2 a2', '', { state: 'idle' }, 'u2'],
    ['what is in flight without being shown', 'u1 a1', '', { state: 'busy', message_id: 'compaction' }, 'compaction'],
  ] as const)('R4 is %s', (_, shown, queued, status, expected) => {
    const waiting = messages(queued).map((each): Waiting => ({ message: each, state: 'queued' }));
    expect(messageToStop({ messages: messages(shown), waiting, status, isSubmitted: false })).toBe(expected);
  });

  it('R4 is not named while it is on its way to the server', () => {
    const now = { messages: messages('u1 a1 u2'), waiting: [], isSubmitted: true };
    expect(messageToStop({ ...now, status: { state: 'idle' } })).toBeUndefined();
    expect(messageToStop({ ...now, status: { state: 'busy', message_id: 'u2' } })).toBe('u2');
  });
});

describe('queued messages', () => {
  it.each([
    ['after the message being answered', 'u1 a1 u2 u3', { state: 'busy', message_id: 'u2' }, 'u1 a1 u2', 'u3'],
    ['after the streaming answer', 'u1 a1 u2 u3', { state: 'retrying', message_id: 'u1' }, 'u1 a1', 'u2 u3'],
    ['nothing in an idle session', 'u1 a1 u2', { state: 'idle' }, 'u1 a1 u2', ''],
    ['nothing if the message is not in the page', 'u5 u6', { state: 'busy', message_id: 'u1' }, 'u5 u6', ''],
    ['after the failed message', 'u1 a1 u2! u3', { state: 'error' }, 'u1 a1 u2!', 'u3'],
    ['after the answer that failed', 'u1! a1 u2 u3', { state: 'error' }, 'u1! a1', 'u2 u3'],
    ['nothing after a rewind to before an error', 'u1! u2 a2 u3', { state: 'error' }, 'u1! u2 a2 u3', ''],
    ['nothing after a rewind to the beginning', 'u1', { state: 'error' }, 'u1', ''],
  ] as const)('W7 is %s', (_, all, status, said, queued) => {
    const parted = partQueued(messages(all), status);
    expect([ids(parted.said), ids(parted.queued)]).toEqual([said, queued]);
  });

  it('W7 messages that the server does not have yet stay', () => {
    const waiting: Waiting[] = [
      { message: message('u1'), state: 'sending' },
      { message: message('u2'), state: 'queued' },
      { message: message('u3'), state: 'sending' },
      { message: message('u4'), state: 'refused', reason: 'no' },
    ];
    const left = stillWaiting(waiting, messages('u1 a1'), messages('u9'));
    expect(left.map(({ message: { id }, state }) => [id, state])).toEqual([
      ['u9', 'queued'],
      ['u3', 'sending'],
      ['u4', 'refused'],
    ]);
  });
});

describe('pages of a transcript', () => {
  it.each([
    ['u1 a1 u2', 'u2 a2', 'u1 a1 u2 a2', true],
    ['u1 a1', 'u1 a1', 'u1 a1', true],
    ['', 'u1 a1', 'u1 a1', false],
    ['u1 a1', 'u8 a8', 'u8 a8', false],
    ['u1 a1', '', '', false],
    ['u1 a1 u2 a2 s', 's u2 a2', 's u2 a2', false],
  ])('T8 "%s" and then "%s" is "%s"', (shown, last, expected, joins) => {
    const { messages: all, joined } = joinPages(messages(shown), messages(last));
    expect([ids(all), joined]).toEqual([expected, joins]);
  });
});

const inWait: SessionStatus = { state: 'waiting', message_id: 'm' };
const call = (toolCallId: string, type: string, state: string) =>
  ({
    type,
    toolCallId,
    state,
    input: {},
    ...(state === 'output-available' && { output: 1 }),
  }) as UIMessage['parts'][number];
const answerWith = (...parts: UIMessage['parts']): UIMessage => ({ id: 'a', role: 'assistant', parts });

it('R5 the call that a turn waits for is the first one of the last step without an outcome', () => {
  const lost = [call('0', 'tool-pay', 'input-streaming'), { type: 'step-start' } as const];
  const done = call('1', 'tool-pay', 'output-available');
  const held = (state: string) =>
    heldCall(
      [answerWith(...lost, done, call('2', 'tool-pay', state), call('3', 'tool-pay', 'input-available'))],
      inWait,
    );
  expect(held('approval-requested')).toEqual({ toolCallId: '2', by: 'user' });
  expect(held('approval-responded')).toEqual({ toolCallId: '2', by: 'page' });
  expect(
    heldCall([answerWith(call('2', 'tool-task', 'input-available'))], { ...inWait, questions: [] }),
  ).toBeUndefined();
  expect(heldCall([answerWith(done)], inWait)).toBeUndefined();
  expect(heldCall([answerWith(call('2', 'tool-pay', 'approval-requested'))], { state: 'idle' })).toBeUndefined();
  expect(heldCall([], inWait)).toBeUndefined();
});
