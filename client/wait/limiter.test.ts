import { expect, it } from 'vitest';
import { Limiter, LeftTheLineError, UserLimiter } from './limiter.ts';

/** Tasks that end when the test says so, by name, and the names of those that have begun. */
function tasks() {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const work = (name: string) => () => {
    begun.push(name);
    return new Promise<string>((resolve) => ends.set(name, () => resolve(name)));
  };
  return { begun, work, end: (name: string) => ends.get(name)!() };
}

it('R2 a task whose signal fires while it waits leaves the line; the others keep their order', async () => {
  const limiter = new Limiter(1);
  const { begun, work, end } = tasks();
  const leaving = new AbortController();
  const first = limiter.run(work('first'));
  const second = limiter.run(work('second'), leaving.signal);
  const third = limiter.run(work('third'), new AbortController().signal);
  leaving.abort();
  await expect(second).rejects.toThrow(LeftTheLineError);
  expect(limiter.waiting).toBe(1);
  end('first');
  await first;
  await expect.poll(() => begun).toEqual(['first', 'third']);
  end('third');
  await third;
  await expect(limiter.run(work('late'), leaving.signal)).rejects.toThrow(LeftTheLineError);
  const last = limiter.run(work('last'));
  end('last');
  expect(await last).toBe('last');
  expect(begun).toEqual(['first', 'third', 'last']);
});

it('R2 a task that got its slot as its signal fired runs, and gives the slot back', async () => {
  const limiter = new Limiter(1);
  const { work, end, begun } = tasks();
  const leaving = new AbortController();
  const first = limiter.run(work('first'));
  const second = limiter.run(async () => {
    begun.push('second');
  }, leaving.signal);
  const third = limiter.run(async () => {
    begun.push('third');
  });
  const over = first.then(() => leaving.abort());
  end('first');
  await Promise.allSettled([over, second, third]);
  expect(begun.at(-1)).toBe('third');
  expect(limiter.waiting).toBe(0);
});

it('R2 a user’s task leaves the lines of its user and of all', async () => {
  const limiter = new UserLimiter(1);
  const { begun, work, end } = tasks();
  const leaving = new AbortController();
  const first = limiter.run('ada', work('first'));
  const left = ['ada', 'bob', 'bob'].map((user) => limiter.run(user, work(`left of ${user}`), leaving.signal));
  await expect.poll(() => limiter.waiting).toBe(1);
  leaving.abort();
  for (const each of left) await expect(each).rejects.toThrow(LeftTheLineError);
  end('first');
  await first;
  const next = limiter.run('bob', work('next'));
  await expect.poll(() => begun).toEqual(['first', 'next']);
  end('next');
  await next;
});
