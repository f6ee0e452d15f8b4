// A conversation of which only the messages around the visible part are drawn.
import type { Locator } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
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

/** Waits until the search finds the messages of a session. */
async function indexed(id: string): Promise<void> {
  const { db } = site.runtime;
  await db.query('SELECT queue_search($1, 0, 1000000000)', [id]);
  await eventually(async () => expect((await db.query('SELECT FROM search_queue')).rowCount).toBe(0));
}

/** The results of a search for messages of the user, by their numbers. */
async function found(tab: Tab, numbers: number[]): Promise<Locator> {
  const query = numbers.map((n) => `"user number ${n}"`).join(' or ');
  await tab.page.getByRole('searchbox', { name: 'Search sessions' }).fill(query);
  const results = tab.page.getByRole('list', { name: 'Messages' }).getByRole('link');
  await eventually(async () => expect(await results.count()).toBe(numbers.length));
  return results;
}

/** Whether the whole message is visible. */
async function isInView({ page }: Tab, id: string): Promise<boolean> {
  const [main, message] = [page.getByRole('main'), page.locator(`[data-message=${id}]`)];
  const [inner, outer] = [await message.boundingBox(), await main.boundingBox()];
  return inner !== null && outer !== null && inner.y >= outer.y && inner.y + inner.height <= outer.y + outer.height;
}

it('H8 T6 a search result leads to its message, however early it is, and again after the user has scrolled away', async () => {
  const { tab } = await longPast(site, 150);
  const { page } = tab;
  const id = await tab.sessionId();
  const shown = page.locator('[data-message=u12]');
  const isVisible = () => isInView(tab, 'u12');
  await indexed(id);
  await tab.button('New chat').click();
  const results = await found(tab, [12]);
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

it.each([
  ['an early', 8],
  ['a late', 59],
])('H8 T6 of two search results the one that was clicked last is shown, here %s one', async (_where, last) => {
  const { tab } = await longPast(site, 60);
  const { page } = tab;
  await indexed(await tab.sessionId());
  const arrival = Promise.withResolvers<void>();
  await page.route(/\/messages\?.*before=/, async (route) => {
    await arrival.promise;
    await route.continue();
  });
  const results = await found(tab, [5, last]);
  const result = (number: number) => results.filter({ hasText: new RegExp(`user number ${number}$`) });
  const asks = page.waitForRequest(/\/messages\?.*before=/);
  await result(5).click();
  await asks;
  await result(last).click();
  if (last === 59) await expect.poll(() => isInView(tab, 'u59'), WAIT).toBe(true);
  arrival.resolve();
  await tab.button('Show earlier messages').waitFor({ state: 'detached' });
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  await expect.poll(() => isInView(tab, `u${last}`), WAIT).toBe(true);
  expect(await page.locator('[data-linked]').getAttribute('data-message')).toBe(`u${last}`);
});
