import { expect, it } from 'vitest';
import { eventually } from '../tools/test-kit/eventually.ts';
import { UserLimiter } from './limiter.ts';

it('T10 so many tasks of each user run at a time; a further one waits, although others may run', async () => {
  const limiter = new UserLimiter(4, 2);
  const running: string[] = [];
  const ends = new Map<string, () => void>();
  const task = (user: string, name: string) =>
    limiter.run(user, async () => {
      running.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const ofAda = ['a1', 'a2', 'a3'].map((name) => task('ada', name));
  const ofBob = task('bob', 'b1');
  await eventually(() => expect(running).toEqual(['a1', 'a2', 'b1']));
  ends.get('b1')!();
  await ofBob;
  expect(running).not.toContain('a3');
  ends.get('a2')!();
  await eventually(() => expect(running).toContain('a3'));
  for (const name of ['a1', 'a3']) ends.get(name)!();
  await Promise.all(ofAda);
});

it('T6 one task of each user runs at a time, and so many in all; a failure lets the next one run', async () => {
  const limiter = new UserLimiter(2);
  const running: string[] = [];
  const ends = new Map<string, () => void>();
  const task = (user: string, name: string) =>
    limiter.run(user, async () => {
      running.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const first = task('ada', 'a1');
  const failing = limiter.run('ada', () => Promise.reject(new Error('broken')));
  const others = [task('ada', 'a2'), task('bob', 'b1'), task('cyd', 'c1')];
  await eventually(() => expect(running).toEqual(['a1', 'b1']));
  ends.get('b1')!();
  await eventually(() => expect(running).toEqual(['a1', 'b1', 'c1']));
  ends.get('a1')!();
  await first;
  await expect(failing).rejects.toThrow('broken');
  await eventually(() => expect(running).toEqual(['a1', 'b1', 'c1', 'a2']));
  ends.get('a2')!();
  ends.get('c1')!();
  await Promise.all(others);
});
