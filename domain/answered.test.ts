import { expect, it } from 'vitest';
import { sendWhenAnswered } from './answered.ts';

const call = (toolCallId: string, state: string, tool = 'locate') => ({ type: `tool-${tool}`, toolCallId, state });

/** Asks a predicate about the last step of an answer, after an earlier step. */
function asking(): (...step: ReturnType<typeof call>[]) => boolean {
  const isToSend = sendWhenAnswered({ tools: ['locate'] });
  const start = { type: 'step-start' };
  return (...step) =>
    isToSend({ messages: [{ role: 'assistant', parts: [start, call('call_0', 'output-available'), start, ...step] }] });
}

it('H13 what a page gives is sent in the order of the calls, each once', () => {
  const isToSend = asking();
  expect(isToSend(call('call_1', 'input-available'), call('call_2', 'output-error'))).toBe(false);
  expect(isToSend(call('call_1', 'output-available'), call('call_2', 'output-error'))).toBe(true);
  expect(isToSend(call('call_1', 'output-available'), call('call_2', 'output-error'))).toBe(true);
  expect(isToSend(call('call_1', 'output-available'), call('call_2', 'output-error'))).toBe(false);
});

it('H13 of a call that asks and is carried out by the page, both the response and the output are sent', () => {
  const isToSend = asking();
  expect(isToSend(call('call_1', 'approval-requested'), call('call_2', 'output-available'))).toBe(false);
  expect(isToSend(call('call_1', 'approval-responded'))).toBe(true);
  expect(isToSend(call('call_1', 'approval-responded'), call('call_2', 'output-available'))).toBe(false);
  expect(isToSend(call('call_1', 'output-available'))).toBe(true);
});

it('H13 a call of the server that has told a preliminary output is still open', () => {
  const isToSend = asking();
  const look = call('call_1', 'output-available', 'look');
  expect(isToSend({ ...look, preliminary: true } as typeof look, call('call_2', 'output-available'))).toBe(false);
  expect(isToSend(look, call('call_2', 'output-available'))).toBe(true);
});

it('H13 after a reload nothing is sent that the server has: calls before one that was decided', () => {
  const known = call('call_1', 'output-available');
  expect(asking()(known, call('call_2', 'approval-requested', 'pay'))).toBe(false);
  expect(asking()(known, call('call_2', 'output-denied', 'pay'), call('call_3', 'input-available'))).toBe(false);
  const isToSend = asking();
  for (const isNews of [true, false]) expect(isToSend(known, call('call_2', 'approval-responded', 'pay'))).toBe(isNews);
});

it('H13 nothing is sent for calls of the server, those of a provider, and messages of the user', () => {
  const isToSend = asking();
  expect(isToSend(call('call_1', 'output-available', 'look'))).toBe(false);
  const provider = { ...call('call_3', 'input-available', 'web_search'), providerExecuted: true };
  expect(isToSend(provider, call('call_4', 'output-available'))).toBe(true);
  const text = { type: 'text', text: 'hello' };
  expect(sendWhenAnswered()({ messages: [{ role: 'user', parts: [text] }] })).toBe(false);
});
