import { expect, it } from 'vitest';
import { WritePace } from './write-pace.ts';

/** A pace whose last statement began at 0, left no stream waiting and took `took` milliseconds. */
function paceAfter(took: number, ms = 30): WritePace {
  const pace = new WritePace(ms);
  pace.begin('all', 0);
  pace.end('all', took);
  return pace;
}

it('T4 the first statement begins at once', () => {
  const pace = new WritePace(30);
  for (const urgency of ['first', 'full', 'tick'] as const) expect(pace.due(urgency)).toBe(-Infinity);
});

it('T4 after a quick statement the next one begins at the next tick', () => {
  expect(paceAfter(2).due('tick')).toBe(30);
  expect(paceAfter(7).due('tick')).toBe(30);
  expect(paceAfter(0.1, 60_000).due('tick')).toBe(60_000);
});

it('T4 after a slow statement the next one begins four times as long after it as it took, at most 150 ms', () => {
  expect(paceAfter(10).due('tick')).toBe(40);
  expect(paceAfter(25).due('tick')).toBe(100);
  expect(paceAfter(5_000).due('tick')).toBe(150);
  expect(paceAfter(3, 0).due('tick')).toBe(12);
});

it('T4 a full stream waits for the pause after a slow statement, not for the tick', () => {
  expect(paceAfter(2).due('full')).toBe(8);
  expect(paceAfter(50).due('full')).toBe(150);
});

it('T4 first content waits for neither', () => {
  expect(paceAfter(50).due('first')).toBe(-Infinity);
});

it('T4 however many streams begin, the others are written at the next tick', () => {
  const pace = paceAfter(2);
  for (let now = 4; now < 30; now += 4) {
    pace.begin('first', now);
    pace.end('first', 40);
  }
  expect(pace.due('tick')).toBe(30);
  expect(pace.due('full')).toBe(8);
});

it('T4 a full stream that is written more often does not delay the tick of the others', () => {
  const pace = paceAfter(2);
  pace.begin('some', 20);
  pace.end('some', 2);
  expect(pace.due('tick')).toBe(30);
  expect(pace.due('full')).toBe(28);
});

it('T4 a statement delays the next one for 30 ms at most, and there are four at most', () => {
  const pace = paceAfter(2);
  pace.begin('all', 100);
  expect(pace.due('first')).toBe(130);
  expect(pace.due('tick')).toBe(130);
  for (const start of [130, 160]) pace.begin('all', start);
  expect(pace.due('first')).toBe(190);
  pace.begin('all', 190);
  expect(pace.due('first')).toBe(Infinity);
  pace.end('all', 2);
  expect(pace.due('first')).toBe(220);
  for (let running = 3; running > 0; running -= 1) pace.end('all', 2);
  expect(pace.due('first')).toBe(-Infinity);
});
