// A real Chromium: the system's if there is one, else the one from npm. Independent of the test runner.
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

/**
 * Starts a browser; the caller closes it. `PERDURE_CHROMIUM` names another executable.
 * @param flags besides the usual ones
 */
export async function launchChromium(flags: readonly string[] = []): Promise<Browser> {
  const system = [process.env['PERDURE_CHROMIUM'] ?? '', ...SYSTEM].find((file) => existsSync(file));
  return chromium.launch({ executablePath: system ?? (await sparticuz.executablePath()), args: [...FLAGS, ...flags] });
}
