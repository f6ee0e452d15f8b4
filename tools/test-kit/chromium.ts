// A real Chromium: the system's where there is one, else the one that comes through npm. Knows no test runner.
import { existsSync } from 'node:fs';
import sparticuz from '@sparticuz/chromium';
import { type Browser, chromium } from 'playwright-core';

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

/** Starts a browser, which is the caller's to close. `PERDURE_CHROMIUM` names another executable. */
export async function launchChromium(): Promise<Browser> {
  const system = [process.env['PERDURE_CHROMIUM'] ?? '', ...SYSTEM].find((file) => existsSync(file));
  return chromium.launch({ executablePath: system ?? (await sparticuz.executablePath()), args: FLAGS });
}
