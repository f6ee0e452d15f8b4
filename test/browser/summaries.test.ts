// Conversations that are summarized and pruned.
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { isFocused } from '../../tools/test-kit/accessible.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, type ModelAction, report, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
import { isSummary } from '../conversation/kit.ts';
import { longPast } from './long-past.ts';

const read = defineTool({
  name: 'read',
  description: 'Reads.',
  input: z.object({}),
  execute: () => 'word '.repeat(1_000),
});

let site: TestSite;
beforeAll(async () => {
  const agent = defineAgent({
    id: 'site-builder',
    description: 'Answers.',
    mode: 'primary',
    prompt: 'Answer.',
    tools: [read],
    compaction: { prune_keep: 0 },
  });
  site = await startSite({ agents: [agent] });
});

beforeEach(() => site.runtime.model.script(answer));

function answer(request: ChatRequest): ModelAction[] {
  if (isSummary(request)) return [say('They counted.')];
  const text = lastUserText(request);
  if (text === 'read' && request.messages.at(-1)?.role !== 'tool') return [callTool('call_1', 'read', {})];
  const used = /^fill (\d+)/.exec(text)?.[1] ?? '60000';
  return [say(`answer to ${text}`), report({ input: Number(used), output: 10 })];
}

const LONG = ' and so on'.repeat(30);
const turns = (...names: string[]) => names.flatMap((name) => [`${name}${LONG}`, `answer to ${name}${LONG}`]);

/** Sends a message and waits for its answer. */
async function said(tab: Tab, text: string): Promise<void> {
  await tab.send(text);
  await tab.answers.getByText(`answer to ${text}`).waitFor();
  await tab.idle();
}

/** What the page shows of a summary, and where its messages are read. */
function summaryOf(tab: Tab, turnsOfIt: number) {
  const details = tab.page.locator('.summary', {
    has: tab.page.locator(`:scope > summary`, { hasText: `Summarized ${turnsOfIt} earlier turns` }),
  });
  return {
    details,
    title: details.locator('> summary'),
    show: details.locator('> button', { hasText: 'Show the summarized messages' }),
    articles: details.locator('> article'),
  };
}

it('X5 a summary opens, and shows the turns that it stands for; one of a summary has that in it, and counts its turns, too', async () => {
  const tab = await site.visit();
  for (const name of ['alpha', 'beta', 'gamma', 'delta']) await said(tab, `${name}${LONG}`);
  await tab.button('Compact').click();
  const older = summaryOf(tab, 2);
  await older.title.waitFor();
  const shown = () => tab.conversation.locator('.turn > article').allInnerTexts();
  await expect.poll(shown, WAIT).toEqual(turns('gamma', 'delta'));
  for (const name of ['epsilon', 'zeta']) await said(tab, `${name}${LONG}`);
  await tab.button('Compact').click();
  const newer = summaryOf(tab, 4);
  await newer.title.waitFor();
  await expect.poll(shown, WAIT).toEqual(turns('epsilon', 'zeta'));
  expect(await older.title.count()).toBe(0);

  await tab.page.reload();
  await newer.title.focus();
  await tab.page.keyboard.press('Enter');
  await newer.details.getByText('They counted.').waitFor();
  await newer.show.focus();
  await tab.page.keyboard.press('Enter');
  await expect.poll(() => newer.articles.allInnerTexts(), WAIT).toEqual(turns('gamma', 'delta'));
  await expect.poll(() => isFocused(newer.title), WAIT).toBe(true);
  expect(await newer.details.locator('> .summary + article').innerText()).toBe(`gamma${LONG}`);
  await older.title.click();
  await older.show.click();
  await expect.poll(() => older.articles.allInnerTexts(), WAIT).toEqual(turns('alpha', 'beta'));
  await tab.expectAccessible();
  await said(tab, 'omega');
  expect(await newer.title.count()).toBe(1);

  await tab.button('Branch here').last().click();
  const opening = tab.page.context().waitForEvent('page');
  await tab.page.getByRole('link', { name: 'open it in another tab' }).click();
  const branch = await opening;
  await branch.getByText('Summarized 4 earlier turns').click();
  await branch.getByRole('button', { name: 'Show the summarized messages' }).click();
  await branch.getByText('The messages are in the conversation that this one was made from.').waitFor();
});

it('X5 a summary shows all its messages, in however many pages they are read', async () => {
  const { tab } = await longPast(site, 260, { every: 120, tail: 10 });
  const gate = new Gate();
  await tab.page.route(/\/messages\?hidden=true.*before=u/, async (route) => {
    await gate.pass();
    await route.continue();
  });
  const newer = summaryOf(tab, 240);
  await newer.title.click();
  await newer.show.click();
  await newer.details.getByText('Loading the messages, 200 so far…').waitFor();
  gate.open();
  const of = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => [`user number ${from + n}`, `assistant number ${from + n}`]).flat();
  await expect.poll(() => newer.articles.allInnerTexts(), WAIT).toEqual(of(121, 241));
  const older = summaryOf(tab, 120);
  await older.title.click();
  await older.show.click();
  await expect.poll(() => older.articles.allInnerTexts(), WAIT).toEqual(of(1, 121));
});

it('X5 messages of a summary that cannot be read now are asked for again', async () => {
  const { tab } = await longPast(site, 12, { every: 6, tail: 2 });
  let isBroken = true;
  await tab.page.route(/hidden=true/, (route) => (isBroken ? route.fulfill({ body: 'nothing' }) : route.continue()));
  const summary = summaryOf(tab, 6);
  await summary.title.click();
  await summary.show.click();
  // That they are being read is a note, too, but not below the button.
  await summary.details.locator('> button + .note').waitFor();
  isBroken = false;
  await summary.show.click();
  await expect.poll(() => summary.articles.count(), WAIT).toBe(12);
});

const hows = ['by hand', 'before a turn'];
it.each(hows)('R5 while a conversation is compacted %s the page says so, and it can be stopped', async (how) => {
  const gate = new Gate();
  site.runtime.model.script(async function* (request) {
    if (isSummary(request)) await gate.pass();
    yield* answer(request);
  });
  const tab = await site.visit();
  // Usable are 119,808.
  for (const name of ['one', 'two', 'three']) await said(tab, `fill 119800 ${name}${LONG}`);
  if (how === 'by hand') await tab.button('Compact').click();
  else await tab.send('and more');
  await gate.reached;
  await tab.status.getByText('Summarizing earlier turns…').waitFor();
  await tab.button('Stop').click();
  await tab.idle();
  await expect.poll(() => tab.status.innerText(), WAIT).toBe('');
  expect(await tab.page.locator('.summary').count()).toBe(0);
  gate.open();
  await said(tab, 'go on');
});

it('U4 X9 the meter shows how full the window is after a prune by hand, before a step reports', async () => {
  const tab = await site.visit();
  await said(tab, 'read');
  const filled = tab.page.locator('.meter').getByRole('meter');
  const tokens = async () => Number(await filled.getAttribute('value'));
  await expect.poll(tokens, WAIT).toBe(60_010);
  const url = `${site.host.url}/api/sessions/${await tab.sessionId()}`;
  expect((await tab.page.context().request.post(`${url}/prune`, { data: {} })).status()).toBe(200);
  await expect.poll(async () => 0 < (await tokens()) && (await tokens()) < 1_000, WAIT).toBe(true);
  const { window } = await tab.ask<{ window: object }>(await tab.sessionId());
  expect(window).toEqual({ model: 'openai/test', tokens: await tokens(), limit: 100_000 });
});
