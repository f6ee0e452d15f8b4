import type { UIMessage } from 'ai';
import { describe, expect, it } from 'vitest';
import { joinPages, partQueued, stillWaiting, type Waiting } from './transcript.ts';

/** u1 is a user's message, a1 its answer. */
const message = (id: string): UIMessage => ({ id, role: id.startsWith('u') ? 'user' : 'assistant', parts: [] });
const messages = (ids: string) => ids.split(' ').filter(Boolean).map(message);
const ids = (list: UIMessage[]) => list.map(({ id }) => id).join(' ');

describe('what is queued', () => {
  it.each([
    ['behind the message that is answered', 'u1 a1 u2 u3', { state: 'busy', message_id: 'u2' }, 'u1 a1 u2', 'u3'],
    ['behind the answer that streams', 'u1 a1 u2 u3', { state: 'retrying', message_id: 'u1' }, 'u1 a1', 'u2 u3'],
    ['nothing in an idle session', 'u1 a1 u2', { state: 'idle' }, 'u1 a1 u2', ''],
    ['nothing where the message is too far back', 'u5 u6', { state: 'busy', message_id: 'u1' }, 'u5 u6', ''],
    ['behind the message that failed', 'u1 a1 u2 u3', { state: 'error' }, 'u1 a1 u2', 'u3'],
  ] as const)('W7 is %s', (_, all, status, said, queued) => {
    const parted = partQueued(messages(all), status);
    expect([ids(parted.said), ids(parted.queued)]).toEqual([said, queued]);
  });

  it('W7 and what the server does not have yet stays', () => {
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
  ])('T8 "%s" and then "%s" is "%s"', (shown, last, expected, joins) => {
    const { messages: all, joined } = joinPages(messages(shown), messages(last));
    expect([ids(all), joined]).toEqual([expected, joins]);
  });
});
