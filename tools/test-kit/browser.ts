// A browser for a test file, and a check of its pages' errors.
import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';
import { afterFile } from './after-file.ts';
import { launchChromium } from './chromium.ts';
import { patient } from './patient.ts';

/** For Playwright: how long a page may take to load, and something on it to be visible. */
export const WAIT = { timeout: patient(30_000) };

/** Starts a browser and closes it after the file. Call it in a beforeAll. */
export async function startBrowser(): Promise<Browser> {
  const browser = await launchChromium();
  afterFile(() => browser.close());
  return browser;
}

/** Collects a page's errors and warnings. The returned function expects that there were none except those that match `allowed`. */
export function watchErrors(page: Page, allowed?: RegExp): () => void {
  const errors: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  return () => expect(errors.filter((error) => !allowed?.test(error))).toEqual([]);
}
