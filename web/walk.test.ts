import { beforeAll, describe, expect, it } from 'vitest';
import { REHEARSAL_MODEL } from '../agent/rehearsal.ts';
import siteBuilder from '../examples/site-builder/agent.ts';
import { startSite, type TestSite } from '../test/support/page.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ agents: [{ ...siteBuilder, model: REHEARSAL_MODEL }] });
}, 60_000);

describe('the page with the rehearsal model', () => {
  it('H6 walks from chatting to done', async () => {
    const tab = await site.visit();
    await tab.inPhase('Chatting');
    await tab.send('Please build me a site about owls');

    await tab.answers.getByText('I am a rehearsal model').waitFor();
    await tab.inPhase('Building');
    expect(await tab.button('Stop').isVisible()).toBe(true);
    expect(await tab.button('Publish').count()).toBe(0);
    await tab.inPhase('Verifying');

    await tab.answers.getByText('The site is built').waitFor();
    await tab.idle();
    expect(await tab.page.locator('.tool').allInnerTexts()).toEqual([
      expect.stringMatching(/build_and_deploy\s+done/),
      expect.stringMatching(/write_file\s+index\.html\s+done/),
      expect.stringMatching(/todo_complete\s+build\s+done/),
    ]);
    await tab.page.locator('summary', { hasText: 'write_file' }).click();
    await tab.page.getByText('<h1>A site about owls</h1>').waitFor();

    await tab.button('Publish').click();
    await tab.inPhase('Done');
    expect(await tab.button('Publish').count()).toBe(0);
  });

  it('S4 a revert goes back to building, a cancel to chatting', async () => {
    const tab = await site.visit();
    await tab.send('build a site');
    await tab.inPhase('Verifying');
    await tab.idle();
    await tab.button('Revert').click();
    await tab.inPhase('Building');
    await tab.button('Cancel build').click();
    await tab.inPhase('Chatting');
  });

  it('H6 works on a phone, in the dark, by keyboard alone', async () => {
    const tab = await site.visit({
      viewport: { width: 360, height: 640 },
      colorScheme: 'dark',
      hasTouch: true,
      isMobile: true,
    });
    // The field has the focus from the beginning; what is typed before the page is there goes nowhere.
    await tab.page.waitForFunction(() => document.activeElement?.tagName === 'TEXTAREA');
    await tab.page.keyboard.type('build a site about the longest-word-that-anybody-has-ever-written-without-a-space');
    await tab.page.keyboard.press('Enter');
    await tab.inPhase('Verifying');
    await tab.idle();
    const width = await tab.page.evaluate(() => document.documentElement.scrollWidth);
    expect(width).toBe(360);
    for (let i = 0; i < 20 && !(await isFocused(tab.button('Publish'))); i++)
      await tab.page.keyboard.press('Shift+Tab');
    await tab.page.keyboard.press('Enter');
    await tab.inPhase('Done');
  });
});

function isFocused(locator: { evaluate<T>(look: (element: Element) => T): Promise<T> }): Promise<boolean> {
  return locator.evaluate((element) => element === document.activeElement);
}
