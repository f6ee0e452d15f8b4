// Interaction to next paint in the chat page, while an answer streams.
import type { Page } from 'playwright-core';
import { launchChromium } from '../test-kit/chromium.ts';
import { messageOf } from './script.ts';

/** Tokens of the answer, and the milliseconds between two: a timer is late by a part of one, so these are at least 200 a second. */
const TOKENS = 12_000;
const PACE_MS = 4;
/** Characters of a token. */
const TOKEN = 4;
const ROUNDS = 12;
/** Event Timing reports no shorter interaction. */
const SHORTEST_MS = 16;
/** Between two interactions, as of a quick user. */
const PAUSE_MS = 150;

/** What the page's own script keeps. */
interface Observed {
  /** Milliseconds by interaction. */
  durations: Record<number, number>;
}

/** Milliseconds from each interaction to the paint after it: keys in the field, panels that open and close. */
export async function interactionsWhileStreaming(url: string): Promise<number[]> {
  const browser = await launchChromium();
  try {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    await page.addInitScript(observe, SHORTEST_MS);
    await page.goto(url);
    const field = page.getByLabel('Message', { exact: true });
    await field.fill(messageOf({ key: 'inp', chunks: TOKENS, size: TOKEN, pace: PACE_MS, markdown: true }));
    await field.press('Enter');
    await page.locator('article.assistant').first().waitFor();
    for (let round = 0; round < ROUNDS; round += 1) await interact(page);
    const samples = await page.evaluate(collect, SHORTEST_MS);
    // Without this button the answer has ended before the last interaction: the figure fails.
    await page.getByRole('button', { name: 'Stop', exact: true }).click({ timeout: 1_000 });
    return samples;
  } finally {
    await browser.close();
  }
}

async function interact(page: Page): Promise<void> {
  const pause = () => page.waitForTimeout(PAUSE_MS);
  await page.getByLabel('Message', { exact: true }).click();
  await pause();
  for (const letter of 'and') {
    await page.keyboard.press(letter);
    await pause();
  }
  for (const panel of ['State', 'Todos']) {
    await page.getByRole('group', { name: 'Panels' }).getByRole('button', { name: panel, exact: true }).click();
    await pause();
  }
  await page.getByRole('button', { name: 'Close: Todos' }).click();
  await pause();
}

/** Runs in the page: keeps the longest event of each interaction. */
function observe(shortest: number): void {
  const observed: Observed = { durations: {} };
  Object.assign(window, { observed });
  new PerformanceObserver((list) => {
    for (const { interactionId, duration } of list.getEntries() as PerformanceEventTiming[]) {
      if (interactionId > 0)
        observed.durations[interactionId] = Math.max(observed.durations[interactionId] ?? 0, duration);
    }
  }).observe({ type: 'event', durationThreshold: shortest, buffered: true } as PerformanceObserverInit);
}

/** Runs in the page: all interactions, with the unreported short ones. */
function collect(shortest: number): number[] {
  const { observed } = window as unknown as { observed: Observed };
  const { interactionCount } = performance as unknown as { interactionCount: number };
  const known = Object.values(observed.durations);
  return [...known, ...Array.from({ length: Math.max(0, interactionCount - known.length) }, () => shortest)];
}
