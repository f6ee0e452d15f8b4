import type { Locator, Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../agent/define.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { callTool, cut, fail, hang, type ModelAction, say, think } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';

/** Runs until its call is cancelled. */
const wait = defineTool({
  name: 'wait',
  description: 'Waits.',
  input: z.object({ for: z.string() }),
  repeatable: true,
  execute: (_input, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('given up')))),
});

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ agents: [{ ...siteBuilder, tools: [...siteBuilder.tools, wait] }] });
  site.runtime.model.script(answer);
}, 60_000);

const SITE = '<!doctype html><title>Owls</title><h1>Owls</h1>';
const WRITTEN =
  '# Owls\n\n## Barn owls\n\n```css\n.owl { color: white }\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> Hoo.';
const BUILD = [
  callTool('call_1', 'build_and_deploy', { confirm_new_project: true }),
  callTool('call_2', 'write_file', { path: 'index.html', content: SITE }),
  callTool('call_3', 'todo_complete', { name: 'build' }),
];
const cutOff = new Set<string>();

/** The model's answer to each message. */
function answer(request: ChatRequest): ModelAction[] {
  const text = lastUserText(request);
  const turn = request.messages.slice(request.messages.findLastIndex(({ role }) => role === 'user'));
  const calls = turn.filter(({ role }) => role === 'tool').length;
  switch (text) {
    case 'build':
      return [BUILD[calls] ?? say('The site is built.')];
    case 'read':
      return calls === 0 ? [callTool('call_1', 'read_file', { path: 'none.html' })] : [say(WRITTEN)];
    case 'think':
      return [think('Where could it be?'), say('Let me see.'), callTool('call_1', 'wait', { for: 'an owl' })];
    case 'break off':
      if (cutOff.has(text)) return [say('Owls hunt at night.')];
      cutOff.add(text);
      return [say('Owls hunt'), cut()];
    case 'fail':
      return [fail(401)];
    case 'go on':
      return [say('Once upon a time'), hang()];
    default:
      return [say(`You said ${text}.`)];
  }
}

const NARROW = { width: 360, height: 740 };
const WIDE = { width: 1280, height: 800 };
/** Colours do not depend on the size, so two variants cover both sizes and both colour schemes. */
const VARIANTS = [
  { scheme: 'light', size: WIDE },
  { scheme: 'dark', size: NARROW },
] as const;

/** Expects no accessibility violation and no horizontal overflow in any variant. */
async function expectAccessible(tab: Tab): Promise<void> {
  for (const { scheme, size } of VARIANTS) {
    await tab.page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await tab.page.setViewportSize(size);
    await tab.expectAccessible();
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(size.width);
  }
  await tab.page.setViewportSize(WIDE);
}

it('H8 is accessible: empty, busy with queued messages, other sessions, an error', async () => {
  const tab = await site.visit({ viewport: WIDE });
  await tab.page.getByText('Say what you want').waitFor();
  await expectAccessible(tab);

  await tab.send('think');
  await tab.page.getByText('Running wait…').waitFor();
  await tab.page.getByText('Reasoning').click();
  await tab.page.locator('.tool summary').click();
  await tab.send('and then');
  await tab.page.getByText('Queued').waitFor();
  await expectAccessible(tab);

  const other = await tab.another();
  await other.page.getByText('Other sessions').click();
  await other.button('Stop: think').waitFor();
  await expectAccessible(other);

  await tab.button('Take back').click();
  await tab.page.getByText('Queued').waitFor({ state: 'hidden' });
  await tab.button('Stop').click();
  await tab.idle();
  await tab.send('fail');
  await tab.page.getByText(/Send a message to go on/).waitFor();
  await expectAccessible(tab);
});

it('H8 is accessible: a failed tool, an interrupted answer, a preview', async () => {
  const tab = await site.visit({ viewport: WIDE });
  await tab.send('read');
  await tab.answers.getByText('Hoo.').waitFor();
  await tab.page.locator('.tool summary').click();
  await tab.send('break off');
  await tab.answers.getByText('Owls hunt at night.').waitFor();
  await tab.page.getByRole('note').getByText('The answer broke off here').waitFor();
  await tab.idle();
  await expectAccessible(tab);

  await tab.send('build');
  await tab.page.frameLocator('iframe').getByRole('heading', { name: 'Owls' }).waitFor();
  await tab.inPhase('Verifying');
  await tab.idle();
  await expectAccessible(tab);
});

it('H8 can be used with the keyboard only, and the focus is always visible', async () => {
  const tab = await site.visit({ viewport: WIDE });
  const { page } = tab;
  await tab.send('hello');
  await tab.answers.getByText('You said hello.').waitFor();
  await tab.button('New session').focus();
  await page.keyboard.press('Enter');
  await tab.page.getByText('Say what you want').waitFor();
  const field = page.getByLabel('Message', { exact: true });
  await expect.poll(() => isFocused(field)).toBe(true);

  await page.keyboard.type('build');
  await page.keyboard.press('Enter');
  await tab.answers.getByText('The site is built.').waitFor();
  await tab.idle();
  await press(page, 'Shift+Tab', page.locator('.tool summary', { hasText: 'write_file' }));
  await page.keyboard.press('Enter');
  await page.locator('pre', { hasText: SITE }).waitFor();

  await press(page, 'Shift+Tab', tab.button('Publish'));
  await page.keyboard.press('Enter');
  await tab.inPhase('Done');
  // The button is gone; the focus stays in its place.
  await expect.poll(() => isFocused(page.getByRole('list', { name: 'Phases of the session' }))).toBe(true);

  await press(page, 'Tab', field);
  await page.keyboard.type('go on');
  await page.keyboard.press('Enter');
  await tab.answers.getByText('Once upon a time').waitFor();
  await page.keyboard.type('later');
  await page.keyboard.press('Enter');
  await page.getByText('Queued').waitFor();
  await press(page, 'Shift+Tab', tab.button('Take back'));
  await page.keyboard.press('Enter');
  await expect.poll(() => isFocused(field)).toBe(true);
  expect(await field.inputValue()).toBe('later');

  await press(page, 'Tab', tab.button('Stop'));
  await page.keyboard.press('Enter');
  await tab.idle();
  await expect.poll(() => isFocused(field)).toBe(true);

  await press(page, 'Shift+Tab', page.locator('summary', { hasText: 'Other sessions' }));
  await page.keyboard.press('Enter');
  const other = page.getByRole('link', { name: 'hello' });
  await other.waitFor();
  await press(page, 'Tab', other);
  const opening = page.context().waitForEvent('page');
  await page.keyboard.press('Enter');
  await (await opening).locator('article.assistant').getByText('You said hello.').waitFor();
});

const MOST_STEPS = 40;

/** Presses a key until the target has the focus, and expects that the focus is visible at each step. */
async function press(page: Page, key: 'Tab' | 'Shift+Tab', target: Locator): Promise<void> {
  for (let step = 0; step < MOST_STEPS; step++) {
    await page.keyboard.press(key);
    const seen = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === null || element === document.body || element instanceof HTMLIFrameElement) return true;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      const { top, bottom } = element.getBoundingClientRect();
      return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && bottom > 0 && top < innerHeight;
    });
    expect(seen, 'the focus is visible').toBe(true);
    if (await isFocused(target)) return;
  }
  throw new Error(`${key} does not reach ${String(target)}`);
}

function isFocused(locator: Locator): Promise<boolean> {
  return locator.evaluate((element) => element === document.activeElement);
}
