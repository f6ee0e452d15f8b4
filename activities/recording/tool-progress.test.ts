import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Json } from '../../domain/text.ts';
import { ToolProgress } from './tool-progress.ts';

it('P5 only the newest progress is written, one write at a time, and none after the end of its call', async () => {
  const written: Json[] = [];
  let atOnce = 0;
  let most = 0;
  const progress = new ToolProgress(async (data) => {
    most = Math.max(most, (atOnce += 1));
    await delay(20);
    written.push(data);
    atOnce -= 1;
  });
  const began = performance.now();
  let said = 0;
  while (performance.now() - began < 350 || written.length < 2) {
    progress.say((said += 1));
    await delay(1);
  }
  await progress.end();
  const lasted = performance.now() - began;
  const count = written.length;
  progress.say('too late');
  await delay(150);
  expect(written).toHaveLength(count);
  expect(most).toBe(1);
  expect(count).toBeGreaterThan(1);
  expect(count).toBeLessThanOrEqual(1 + Math.floor(lasted / 100));
  expect(written).toEqual([...written].toSorted((a, b) => Number(a) - Number(b)));
  expect(said).toBeGreaterThan(count);
});
