// Time until a user can type into the chat page after its host started, in a browser with an empty cache.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser } from 'playwright-core';
import { buildPage } from '../../scripts/build-page.ts';
import { launchChromium } from '../../test-kit/chromium.ts';
import { now } from '../clock.ts';
import type { Figure } from '../figure.ts';
import { startHost } from '../host-process.ts';
import type { System } from '../servers.ts';
import { median, percentile, spread } from '../statistics.ts';

const TRIES = 6;

/** Milliseconds from the host's `ready` to a focused field that accepts input. */
async function tryOnce(system: System, browser: Browser, dir: string): Promise<number> {
  const context = await browser.newContext();
  const page = await context.newPage();
  const host = await startHost(system, dir);
  const readyAt = now();
  try {
    await page.goto(host.url, { waitUntil: 'commit' });
    await page.waitForFunction(() => document.activeElement?.tagName === 'TEXTAREA', undefined, { polling: 'raf' });
    await page.keyboard.type('x');
    await page.waitForFunction(() => !document.querySelector<HTMLButtonElement>('button[type=submit]')?.disabled);
    return now() - readyAt;
  } finally {
    await context.close();
    await host.stop();
  }
}

export const page: Figure = {
  name: 'page',
  measure: async ({ system }) => {
    await buildPage();
    const dir = path.join(tmpdir(), `perdure-bench-page-${randomUUID()}`);
    const browser = await launchChromium();
    try {
      const samples: number[] = [];
      for (let n = 0; n < TRIES; n += 1) samples.push(await tryOnce(system, browser, dir));
      return [
        { name: 'host ready to page usable', value: median(samples), unit: 'ms', detail: spread(samples) },
        {
          name: 'host ready to page usable, slowest',
          value: percentile(samples, 1),
          unit: 'ms',
          target: { atMost: 1_000 },
        },
      ];
    } finally {
      await browser.close();
      await rm(dir, { recursive: true, force: true });
    }
  },
};
