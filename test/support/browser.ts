// A real Chromium: the system's where there is one, else the one that comes through npm.
import { existsSync } from 'node:fs';
import sparticuz from '@sparticuz/chromium';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, expect } from 'vitest';

const SYSTEM = ['/usr/bin/chromium', '/usr/bin/google-chrome'];
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Starts a browser. Call it in a beforeAll; it is gone after the file. `PERDURE_CHROMIUM` names another executable. */
export async function startBrowser(): Promise<Browser> {
  const system = [process.env['PERDURE_CHROMIUM'] ?? '', ...SYSTEM].find((file) => existsSync(file));
  const browser = await chromium.launch({
    executablePath: system ?? (await sparticuz.executablePath()),
    args: FLAGS,
  });
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
