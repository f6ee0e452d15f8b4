import type { Browser } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { startBrowser, WAIT, watchErrors } from '../../tools/test-kit/browser.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

let host: TestHost;
let browser: Browser;
beforeAll(async () => {
  [host, browser] = await Promise.all([startHost({ databaseUrl: await freshDatabase() }), startBrowser()]);
});

it('H2 /docs shows every operation of the OpenAPI document, loads nothing from other hosts and has its own CSP', async () => {
  const page = await browser.newPage();
  page.setDefaultTimeout(WAIT.timeout);
  const isContent = watchErrors(page);
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.goto(`${host.url}/docs`);
  await page.locator('.opblock').first().waitFor();
  const shown = await page.locator('.opblock').count();
  expect(shown).toBe(host.routes.length);
  await page.locator('#operations-Sessions-openSession .opblock-summary').click();
  await page.getByText('metadata.ephemeral').first().waitFor();
  expect(asked.filter((url) => !url.startsWith(host.url) && !url.startsWith('data:'))).toEqual([]);
  isContent();
  await page.close();
});

it('Q3 /docs serves its own files and no others', async () => {
  const ada = host.as('ada');
  expect((await ada.get('/docs')).headers.get('content-security-policy')).toContain("script-src 'self'");
  expect((await ada.get('/docs/swagger-ui.css')).status).toBe(200);
  for (const name of ['package.json', 'constructor', '..%2Fpackage.json', '%00']) {
    expect((await ada.get(`/docs/${name}`)).status, name).toBe(404);
  }
});
