// A conversation of which only the messages around the visible part are drawn.
import { beforeAll, expect, it } from 'vitest';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';
import { longPast } from './long-past.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});

it('H8 in a long conversation the message that is being changed stays, wherever the user scrolls', async () => {
  const { tab, main } = await longPast(site, 150);
  const question = tab.page.locator('article.user', { hasText: /^user number \d{1,2}$/ });
  const early = tab.page.locator('.turn').filter({ has: question }).first();
  await eventually(async () => {
    await main.hover();
    await tab.page.mouse.wheel(0, -100_000);
    expect(await early.count()).toBe(1);
  });
  await early.getByRole('button', { name: 'Edit' }).click();
  const field = tab.page.getByLabel('Changed message');
  await field.fill('an owl');
  await tab.button('Jump to the latest').click();
  // Those around it are gone.
  await expect.poll(() => question.count(), WAIT).toBe(0);
  expect(await field.inputValue()).toBe('an owl');
});

it('H8 in a long conversation no click is lost: not when earlier messages arrive, and not while it scrolls', async () => {
  const { tab, main } = await longPast(site, 60);
  const { page } = tab;
  const { mouse } = page;
  const arrival = Promise.withResolvers<void>();
  let isAsked = false;
  await page.route(/\/messages\?.*before=/, async (route) => {
    isAsked = true;
    await arrival.promise;
    await route.continue();
  });
  await eventually(async () => {
    await main.hover();
    await mouse.wheel(0, -100_000);
    expect(await main.evaluate((element) => element.scrollTop)).toBe(0);
    expect(isAsked).toBe(true);
  });
  const edit = page.locator('[data-message=u38]').getByRole('button', { name: 'Edit' });
  const field = page.getByLabel('Changed message');
  await edit.hover();
  await mouse.down();
  arrival.resolve();
  await page.locator('[data-message=u35]').waitFor();
  await tab.button('Show earlier messages').waitFor({ state: 'detached' });
  await mouse.up();
  await field.waitFor();

  await tab.button('Discard change').click();
  await edit.hover();
  // Forth and back, by less than the height of a button.
  await main.evaluate(async (element) => {
    let by = 2;
    setInterval(() => element.scrollBy(0, (by = -by)), 50);
    for (let n = 0; n < 4; n++) await new Promise((done) => element.addEventListener('scroll', done, { once: true }));
  });
  await mouse.down();
  await mouse.up();
  await field.waitFor();
});

it('H8 T6 a search result leads to its message, however early it is, and again after the user has scrolled away', async () => {
  const { tab, main } = await longPast(site, 150);
  const { page } = tab;
  const id = page.url().split('/').at(-1)!;
  await site.runtime.db.query('SELECT queue_search($1, 0, 1000000000)', [id]);
  await eventually(async () => expect((await site.runtime.db.query('SELECT FROM search_queue')).rowCount).toBe(0));
  const results = page.getByRole('list', { name: 'Messages' }).getByRole('link');
  const shown = page.locator('[data-message=u12]');
  const isVisible = async () => {
    const [message, outer] = [await shown.boundingBox(), await main.boundingBox()];
    return (
      message !== null && outer !== null && message.y >= outer.y && message.y + message.height <= outer.y + outer.height
    );
  };
  await tab.button('New chat').click();
  await page.getByRole('searchbox', { name: 'Search sessions' }).fill('"user number 12"');
  await eventually(async () => expect(await results.count()).toBe(1));
  await results.click();
  await expect.poll(isVisible, WAIT).toBe(true);
  expect(await shown.getAttribute('data-linked')).toBe('true');
  expect(page.url()).toContain(`/s/${id}#u12`);
  await tab.button('Jump to the latest').click();
  await expect.poll(isVisible, WAIT).toBe(false);
  await results.click();
  await expect.poll(isVisible, WAIT).toBe(true);
  await page.reload();
  await expect.poll(isVisible, WAIT).toBe(true);
});
