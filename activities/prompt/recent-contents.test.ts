import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RecentContents } from './recent-contents.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const kept = (recent: RecentContents, ...ids: string[]) => ids.filter((id) => recent.get(id) !== undefined).join('');

it('T10 contents that were used last stay, within the limit', () => {
  const recent = new RecentContents(10);
  for (const id of ['a', 'b', 'c']) recent.keep(id, Buffer.alloc(3));
  expect(kept(recent, 'b', 'a')).toBe('ba');
  recent.keep('d', Buffer.alloc(3));
  expect(kept(recent, 'a', 'b', 'c', 'd')).toBe('abd');
  recent.keep('e', Buffer.alloc(11));
  recent.keep('a', Buffer.alloc(4));
  expect(kept(recent, 'a', 'b', 'd', 'e')).toBe('abd');
  recent.keep('f', Buffer.alloc(10));
  expect(kept(recent, 'a', 'b', 'd', 'f')).toBe('f');
});

it('T10 contents are kept for a minute after their last use', () => {
  const recent = new RecentContents(10);
  recent.keep('a', Buffer.alloc(3));
  recent.keep('b', Buffer.alloc(3));
  vi.advanceTimersByTime(40_000);
  expect(kept(recent, 'a')).toBe('a');
  vi.advanceTimersByTime(40_000);
  expect(kept(recent, 'a', 'b')).toBe('a');
  recent.keep('c', Buffer.alloc(7));
  expect(kept(recent, 'a', 'c')).toBe('ac');
});
