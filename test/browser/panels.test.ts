import path from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { type AgentDefinition, usesPhases } from '../../agent/definition/define.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { staticPage } from '../../host/http/static-page.ts';
import { isFocused, NARROW, press, WIDE } from '../../tools/test-kit/accessible.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { startHost } from '../../tools/test-kit/host.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, Tab, type TestSite } from '../../tools/test-kit/page.ts';

// What stands beside the conversation: preview, files, todos, state.

const PLAIN: AgentDefinition = {
  ...{ id: 'plain', description: 'Talks.', mode: 'primary', prompt: 'Talk.', model: 'openai/test' },
  tools: [],
};
const SITE = '<!doctype html><title>Owls</title><h1>Owls</h1>';
const BUILD = [
  callTool('call_1', 'build_and_deploy', { confirm_new_project: true }),
  callTool('call_2', 'write_file', { path: 'index.html', content: SITE }),
  callTool('call_3', 'write_file', { path: 'css/site.css', content: 'h1 { color: teal }' }),
  callTool('call_4', 'todo_complete', { name: 'build' }),
];
/** Lines that a narrower column breaks elsewhere. */
const LONG = Array.from({ length: 40 }, (_, n) => `Paragraph ${n}: ${'barn owls hunt at night '.repeat(12)}`).join(
  '\n\n',
);

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ agents: [siteBuilder, PLAIN] });
  site.runtime.model.script(answer);
});

function answer(request: ChatRequest): ModelAction[] {
  const text = lastUserText(request);
  const turn = request.messages.slice(request.messages.findLastIndex(({ role }) => role === 'user'));
  const calls = turn.filter(({ role }) => role === 'tool').length;
  if (text === 'build') return [BUILD[calls] ?? say('The site is built.')];
  if (text === 'note')
    return [calls === 0 ? callTool('call_1', 'todo_add', { name: 'water the owls' }) : say('Noted.')];
  return [say(text === 'long' ? LONG : `You said ${text}.`)];
}

const panel = ({ page }: Tab, name: string) => page.getByRole('region', { name, exact: true });
const separator = ({ page }: Tab) => page.getByRole('separator', { name: 'Width of the panel' });
const share = async (tab: Tab) => Number(await separator(tab).getAttribute('aria-valuenow'));

/** Distance of a paragraph in the middle of the conversation from the top of the page, in pixels. */
function paragraphTop(page: Page): Promise<number> {
  return page
    .locator('article.assistant p', { hasText: /^Paragraph 20:/ })
    .evaluate((element) => element.getBoundingClientRect().top);
}

/** Does something that the conversation must not move at. */
async function expectStill({ page }: Tab, action: () => Promise<unknown>): Promise<void> {
  const before = await paragraphTop(page);
  await action();
  await expect.poll(async () => Math.abs((await paragraphTop(page)) - before), WAIT).toBeLessThan(3);
}

/** Expects no accessibility violation beside a panel. */
async function expectAccessibleWide(tab: Tab): Promise<void> {
  for (const media of [{ colorScheme: 'light' }, { colorScheme: 'dark', contrast: 'more' }] as const) {
    await tab.page.emulateMedia({ contrast: 'no-preference', ...media, reducedMotion: 'reduce' });
    await tab.expectAccessible();
  }
}

it('H6 S6 panels open, are resized and close without moving the conversation, and are remembered', async () => {
  const tab = await site.visit({ viewport: WIDE });
  const { page } = tab;
  await tab.send('long');
  await tab.answers.getByText('Paragraph 39:').waitFor();
  await tab.idle();
  await page.locator('article.assistant p', { hasText: /^Paragraph 20:/ }).evaluate((one) => one.scrollIntoView());

  await expectStill(tab, async () => {
    await tab.button('Files').click();
    await panel(tab, 'Files').getByText('No files yet.').waitFor();
  });
  await expectStill(tab, () => tab.button('Todos').click());
  await panel(tab, 'Todos').getByText('No todos.').waitFor();

  const before = (await panel(tab, 'Todos').boundingBox())!.width;
  await separator(tab).focus();
  await expectStill(tab, async () => {
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
  });
  expect(await share(tab)).toBe(49);
  expect((await panel(tab, 'Todos').boundingBox())!.width).toBeGreaterThan(before + 20);
  const line = (await separator(tab).boundingBox())!;
  await page.mouse.move(line.x + line.width / 2, line.y + 200);
  await page.mouse.down();
  await page.mouse.move(line.x + 150, line.y + 200, { steps: 3 });
  await page.mouse.up();
  const dragged = await share(tab);
  expect(dragged).toBeLessThan(45);
  await page.reload();
  await panel(tab, 'Todos').waitFor();
  expect(await share(tab)).toBe(dragged);
  // Which one is open is the tab's own; how wide it is, the user's.
  const other = await tab.another();
  await other.button('Todos').waitFor();
  expect(await panel(other, 'Todos').count()).toBe(0);
  await other.button('State').click();
  await panel(other, 'State').waitFor();
  expect(await share(other)).toBe(dragged);
  await other.page.close();

  await tab.button('Close: Todos').focus();
  await page.keyboard.press('Enter');
  await panel(tab, 'Todos').waitFor({ state: 'detached' });
  await expect.poll(() => isFocused(tab.button('Todos')), WAIT).toBe(true);
});

it('H6 S10 files, todos and the preview follow the work, and the published site has a link', async () => {
  const tab = await site.visit({ viewport: WIDE, allowedErrors: /net::ERR_|status of 50\d/ });
  const { page } = tab;
  await tab.inPhase('Chatting');
  await tab.send('build');
  await page.frameLocator('iframe').getByRole('heading', { name: 'Owls' }).waitFor();
  await tab.inPhase('Verifying');
  await tab.idle();

  await tab.button('Files').click();
  const files = panel(tab, 'Files');
  await files.getByRole('region', { name: 'css/' }).getByRole('button', { name: 'site.css' }).click();
  await files.getByText('h1 { color: teal }').waitFor();
  await expectAccessibleWide(tab);
  // Links to files are valid for an hour. Later they are read again.
  await page.evaluate(() => {
    const now = Date.now.bind(Date);
    Date.now = () => now() + 55 * 60_000;
  });
  const readAgain = page.waitForResponse(/\/files$/);
  const css = page.context().waitForEvent('page');
  await page.getByRole('link', { name: 'Open in a new tab' }).click();
  await readAgain;
  await (await css).getByText('h1 { color: teal }').waitFor();
  // The focus stays in the panel.
  await press(page, 'Shift+Tab', tab.button('Back to the files'));
  await page.keyboard.press('Enter');
  await files.getByRole('button', { name: 'index.html' }).waitFor();
  await expect.poll(() => isFocused(files.getByRole('group', { name: 'Files of the workspace' })), WAIT).toBe(true);

  await tab.button('Todos').click();
  const todos = panel(tab, 'Todos');
  await todos.getByText('1 of 1 done').waitFor();
  await tab.send('note');
  await todos.getByText('water the owls').waitFor();
  await todos.getByText('1 of 2 done').waitFor();
  await tab.idle();

  // A server that cannot read them for the moment: what is known stays, and they come by themselves.
  let isAble = false;
  await page.route('**/todos', (route) => (isAble ? route.continue() : route.fulfill({ status: 503 })));
  await tab.button('Close: Todos').click();
  await tab.button('Todos').click();
  const unable = todos.getByRole('alert').getByText('The server cannot do that right now.');
  await unable.waitFor();
  await todos.getByText('water the owls').waitFor();
  isAble = true;
  await unable.waitFor({ state: 'detached' });

  // A server that is away: what is known stays, and what has changed meanwhile comes by itself.
  const { session } = await tab.ask<{ session: { project_id: string } }>(await tab.sessionId());
  const comeBack = site.host.goAway();
  await tab.status.getByText('The connection is lost.').waitFor();
  await todos.getByText('water the owls').waitFor();
  await site.runtime.db.query('UPDATE project_todos SET done_at = now() WHERE project_id = $1', [session.project_id]);
  await comeBack();
  await todos.getByText('2 of 2 done').waitFor();

  await tab.button('Publish').click();
  await tab.inPhase('Done');
  await page.getByText('Published', { exact: true }).waitFor();
  const opening = page.context().waitForEvent('page');
  await page.getByRole('link', { name: 'Open the site' }).click();
  await (await opening).getByRole('heading', { name: 'Owls' }).waitFor();
  await tab.expectAccessible();
});

it('H8 on a phone a panel covers the conversation, by keyboard alone and in forced colours', async () => {
  const tab = await site.visit({ viewport: NARROW });
  const { page } = tab;
  await tab.send('hello');
  await tab.answers.getByText('You said hello.').waitFor();
  await tab.idle();
  await press(page, 'Shift+Tab', tab.button('Files'));
  await page.keyboard.press('Enter');
  const cover = page.getByRole('dialog', { name: 'Files' });
  await cover.getByText('No files yet.').waitFor();
  expect(await cover.boundingBox()).toMatchObject({ x: 0, y: 0, ...NARROW });
  for (const forcedColors of ['none', 'active'] as const) {
    await page.emulateMedia({ colorScheme: 'dark', forcedColors, reducedMotion: 'reduce' });
    await tab.expectAccessible();
  }
  await page.emulateMedia({ forcedColors: 'none' });
  await page.keyboard.press('Escape');
  await cover.waitFor({ state: 'detached' });
  await expect.poll(() => isFocused(tab.button('Files')), WAIT).toBe(true);
  await tab.expectAccessible();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(NARROW.width);
});

it('H6 an agent that uses no phases has no phase track', async () => {
  const { databaseUrl, temporal, workspaces } = site.runtime;
  const parts = { page: await staticPage(path.resolve('web/dist')) };
  const known = { agents: [PLAIN.id] as [string], usesPhases: usesPhases(PLAIN) };
  const host = await startHost({ databaseUrl, temporal, workspaces, parts, ...known });
  const tab = await site.visit();
  await tab.page.getByRole('list', { name: 'Phases of the session' }).waitFor();
  const context = tab.page.context();
  const agents = context.waitForEvent('response', (response) => response.url() === `${host.url}/api/agents`);
  const other = await Tab.open(context, host.url);
  await (await agents).finished();
  await other.send('hello');
  await other.answers.getByText('You said hello.').waitFor();
  expect(await other.page.getByRole('list', { name: 'Phases of the session' }).count()).toBe(0);
});
