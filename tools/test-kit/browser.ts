// A browser for a test file, and what its pages complain of.
import type { Browser, Page } from 'playwright-core';
import { afterAll, expect } from 'vitest';
import { launchChromium } from './chromium.ts';

/** Starts a browser. Call it in a beforeAll; it is gone after the file. */
export async function startBrowser(): Promise<Browser> {
  const browser = await launchChromium();
  afterAll(() => browser.close());
  return browser;
}

/** Takes note of everything that a page complains about; the answer expects that it was nothing but what it may. */
export function watchErrors(page: Page, may?: RegExp): () => void {
  const errors: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  return () => expect(errors.filter((error) => !may?.test(error))).toEqual([]);
}
