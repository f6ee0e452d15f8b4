import type { Locator } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../agent/definition/define.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { expectAccessible, isFocused, NARROW, press, WIDE } from '../../tools/test-kit/accessible.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { callTool, cut, fail, hang, type ModelAction, say, think } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';

/** Runs until its call is cancelled. */
const wait = defineTool({
  name: 'wait',
  description: 'Waits.',
  input: z.object({ for: z.string() }),
  repeatable: true,
  execute: (_input, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('given up')))),
});

/** Asks first. */
const run = defineTool({
  name: 'run',
  description: 'Runs a command.',
  input: z.object({ command: z.string() }),
  permission: ({ command }) => command,
  execute: ({ command }) => ({ ran: command }),
});

let site: TestSite;
beforeAll(async () => {
  const permissions = [
    { permission: 'run', pattern: '*', action: 'ask' },
    { permission: 'write_file', pattern: 'asked/*', action: 'ask' },
  ] as const;
  site = await startSite({
    agents: [{ ...siteBuilder, tools: [...siteBuilder.tools, wait, run], permissions: [...permissions] }],
  });
  site.runtime.model.script(answer);
});

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
    case 'ask':
      return calls === 0 ? [callTool('call_1', 'run', { command: `ls ${'long/'.repeat(60)}` })] : [say('It ran.')];
    case 'ask to write':
      return calls === 0
        ? [callTool('call_1', 'write_file', { path: 'asked/owls.html', content: SITE })]
        : [say('It is not written.')];
    case 'fail':
      return [fail(401)];
    case 'go on':
      return [say('Once upon a time'), hang()];
    default:
      return [say(`You said ${text}.`)];
  }
}

it('H8 is accessible: empty, busy with queued messages, a list of sessions, an error', async () => {
  const tab = await site.visit({ viewport: WIDE });
  await tab.page.getByText('Say what you want').waitFor();
  await expectAccessible(tab);

  await tab.send('think');
  await tab.page.getByText('Running wait…').waitFor();
  await tab.page.getByText(/^(?:Thought for|Reasoning)/).click();
  await tab.page.locator('.tool summary').click();
  await tab.send('and then');
  await tab.page.getByText('Queued').waitFor();
  await expectAccessible(tab);

  const other = await tab.another();
  await other.button('Stop: think').waitFor();
  await other.button('State').click();
  await other.page.getByText('nothing').first().waitFor();
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
  await tab.button('New chat').focus();
  await page.keyboard.press('Enter');
  await tab.page.getByText('Say what you want').waitFor();
  const field = page.getByLabel('Message', { exact: true });
  await expect.poll(() => isFocused(field), WAIT).toBe(true);

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
  await expect.poll(() => isFocused(page.getByRole('list', { name: 'Phases of the session' })), WAIT).toBe(true);

  await press(page, 'Tab', field);
  await page.keyboard.type('go on');
  await page.keyboard.press('Enter');
  await tab.answers.getByText('Once upon a time').waitFor();
  await page.keyboard.type('later');
  await page.keyboard.press('Enter');
  await page.getByText('Queued').waitFor();
  await press(page, 'Shift+Tab', tab.button('Edit waiting message'));
  await page.keyboard.press('Enter');
  await expect.poll(() => isFocused(field), WAIT).toBe(true);
  expect(await field.inputValue()).toBe('later');

  await press(page, 'Tab', tab.button('Stop'));
  await page.keyboard.press('Enter');
  await tab.idle();
  await expect.poll(() => isFocused(field), WAIT).toBe(true);

  await press(page, 'Shift+Tab', tab.button('State'));
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: 'State' }).waitFor();
  await press(page, 'Shift+Tab', tab.row('hello').getByRole('link'));
  await page.keyboard.press('Enter');
  await tab.answers.getByText('You said hello.').waitFor();
  await expect.poll(() => isFocused(field), WAIT).toBe(true);
});

it('H8 H13 a question is accessible, and is answered with the keyboard only', async () => {
  const tab = await site.visit({ viewport: WIDE });
  const { page } = tab;
  const field = page.getByLabel('Message', { exact: true });
  await tab.send('ask');
  const question = page.getByRole('region', { name: 'Permission for run' });
  await question.waitFor();
  // A screen reader is told by the status, which is a live region.
  await tab.status.getByText('The agent waits for your answer.').waitFor();
  await expectAccessible(tab);
  await field.focus();
  await press(page, 'Shift+Tab', question.getByRole('button', { name: 'Reject' }));
  await press(page, 'Shift+Tab', question.getByLabel('Reason, for the agent'));
  await press(page, 'Shift+Tab', question.getByRole('button', { name: 'This session' }));
  await page.keyboard.press('Enter');
  // The question is gone; the focus is at the field for the next message.
  await expect.poll(() => isFocused(field), WAIT).toBe(true);
  await tab.answers.getByText('It ran.').waitFor();
  await tab.idle();

  await press(page, 'Shift+Tab', tab.button('Permissions'));
  await page.keyboard.press('Enter');
  const revoke = page.getByRole('button', { name: /^Revoke: run ls/ });
  await revoke.waitFor();
  await expectAccessible(tab);
  await press(page, 'Tab', revoke);
  await page.keyboard.press('Enter');
  await revoke.waitFor({ state: 'detached' });

  await tab.send('ask to write');
  const changes = page.getByRole('region', { name: 'Writes asked/owls.html' });
  await changes.locator('ins').first().waitFor();
  await expectAccessible(tab);
  const reason = page.getByLabel('Reason, for the agent');
  await field.focus();
  await press(page, 'Shift+Tab', reason);
  await page.keyboard.type('not there');
  await page.keyboard.press('Enter');
  await tab.answers.getByText('It is not written.').waitFor();
});

it('H8 H13 on a phone a question is shown whole, without scrolling sideways, and is answered by touch', async () => {
  const tab = await site.visit({ viewport: NARROW, hasTouch: true, isMobile: true });
  const { page } = tab;
  const fits = async (question: Locator) => {
    await tab.expectAccessible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(NARROW.width);
    for (const control of await question.locator('button, input').all()) {
      const { x, width, height } = (await control.boundingBox())!;
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x + width).toBeLessThanOrEqual(NARROW.width);
      // WCAG 2.5.8
      expect(height).toBeGreaterThanOrEqual(24);
    }
  };
  await tab.send('ask');
  const command = page.getByRole('region', { name: 'Permission for run' });
  await command.getByRole('region', { name: 'Command' }).getByText('ls long/').waitFor();
  await fits(command);
  await command.getByRole('button', { name: 'This session' }).tap();
  await tab.answers.getByText('It ran.').waitFor();
  await tab.idle();
  await tab.send('ask to write');
  const file = page.getByRole('region', { name: 'Permission for write_file' });
  await file.locator('ins').first().waitFor();
  await fits(file);
  await file.getByLabel('Reason, for the agent').tap();
  await page.keyboard.type('not there');
  await file.getByRole('button', { name: 'Reject' }).tap();
  await tab.answers.getByText('It is not written.').waitFor();
  expect(await page.locator('.tool .error').innerText()).toBe('not there');
});
