// The chat page with conversations that are much longer than usual.
import { beforeAll, expect, it } from 'vitest';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { longPast } from '../browser/long-past.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});

it(
  'H8 of a conversation of 10,000 messages only those around the visible ones are drawn',
  { timeout: patient(150_000) },
  async () => {
    site.runtime.model.script(() => [say('Still here.')]);
    const { tab, main } = await longPast(site, 5_000);
    const oldest = tab.page.locator('article').first();
    await eventually(
      async () => {
        await main.hover();
        await tab.page.mouse.wheel(0, -100_000);
        // A thousand messages further up: reading all of them takes a busy machine minutes.
        expect(Number(/\d+/.exec(await oldest.innerText())?.[0])).toBeLessThan(4_500);
      },
      { timeout: 90_000 },
    );
    await expect.poll(() => oldest.isVisible(), WAIT).toBe(true);
    expect(await tab.page.locator('article').count()).toBeLessThan(300);
    await tab.button('Jump to the latest').click();
    await expect.poll(() => tab.answers.last().innerText(), WAIT).toBe('assistant number 5000');
    await tab.send('still here');
    await tab.answers.getByText('Still here.').waitFor();
    await tab.idle();
  },
);

it('H8 a page works with the whole transcript of 5 MiB in each request', async () => {
  site.runtime.model.script((request) => [say(`re: ${lastUserText(request).slice(0, 9)}`)]);
  const tab = await site.visit();
  await tab.send('number 0');
  await tab.answers.getByText('re: number 0').waitFor();
  const id = await tab.sessionId();
  const url = tab.page.url();
  const before = site.runtime.model.requests.length;
  // Not rendered while it is sent: layout of 5 MiB costs more than the test itself.
  await tab.page.goto('about:blank');
  for (let number = 1; number <= 24; number++) {
    const answer = await tab.page.context().request.post(`${site.host.url}/api/sessions/${id}/messages`, {
      data: { id: `m-${number}`, text: `number ${number} ${'words '.repeat(38_000)}` },
    });
    expect(answer.status()).toBe(202);
  }
  await eventually(() => expect(site.runtime.model.requests.length).toBe(before + 24));
  await tab.page.goto(url);
  await tab.answers.getByText('re: number 24').waitFor();
  const sent = tab.page.waitForRequest((request) => request.url().endsWith('/api/chat'));
  await tab.send('the end');
  expect((await sent).postDataBuffer()?.length).toBeGreaterThan(5 * 1024 ** 2);
  await tab.answers.getByText('re: the end').waitFor();
  await tab.idle();
});
