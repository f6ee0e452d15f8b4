// What can be done with the messages of a conversation.
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { createClient } from '../../client/client.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { callTool, fail, finish, hang, type ModelAction, report, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';

/** Tells its progress, and goes on when the test lets it. */
let baked: PromiseWithResolvers<string>;
const bake = defineTool({
  name: 'bake',
  description: 'Bakes.',
  input: z.object({}),
  repeatable: true,
  execute: (_input, ctx) => {
    ctx.progress('3 of 7 loaves');
    return baked.promise;
  },
});

let site: TestSite;
beforeAll(async () => {
  const named = {
    id: 'site-builder',
    description: 'Answers.',
    mode: 'primary',
    prompt: 'Answer.',
    tools: [bake],
  } as const;
  site = await startSite({
    agents: [defineAgent(named), defineAgent({ ...named, id: 'other', model: 'openai/sees' })],
    hooks: { cost: ({ model }) => (model === 'openai/plain' ? 0.6 : undefined) },
  });
  site.runtime.model.script(answer);
});

/** An answer waits for it before it fails. */
const held = Promise.withResolvers<void>();
/** How often each text was answered. */
const times = new Map<string, number>();

async function* answer(request: ChatRequest): AsyncGenerator<ModelAction> {
  if (JSON.stringify(request.messages[0]).includes('You write the summary')) {
    yield say('They counted.');
    return;
  }
  const text = lastUserText(request);
  const nth = (times.get(text) ?? 0) + 1;
  times.set(text, nth);
  if (text.startsWith('hold') && nth === 1) {
    yield say('One moment');
    await held.promise;
    yield finish('content_filter');
  } else if (text.startsWith('fail') && nth === 1) yield fail(text.endsWith('for good') ? 400 : 401);
  else if (text.startsWith('fill')) yield* [say(`answer ${nth} to ${text}`), report({ input: 60_000, output: 10 })];
  else if (text.startsWith('stop')) yield* [say('Once upon'), hang()];
  else if (text === 'bake' && nth === 1) yield callTool('call_1', 'bake', {});
  else yield say(`answer ${nth} to ${text}`);
}

const texts = (tab: Tab) => tab.page.locator('article').allInnerTexts();

/** Sends a message and waits for its answer. */
async function said(tab: Tab, text: string): Promise<void> {
  await tab.send(text);
  await tab.answers.getByText(`to ${text}`).waitFor();
  await tab.idle();
}

it('X1 a message is edited in its place, and a newer answer replaces the old one', async () => {
  const tab = await site.visit();
  await said(tab, 'uno');
  await said(tab, 'due');
  await tab.button('Edit').first().click();
  const field = tab.page.getByLabel('Changed message');
  expect(await field.inputValue()).toBe('uno');
  await field.press('Escape');
  expect(await field.count()).toBe(0);
  await tab.button('Edit').first().click();
  await field.fill('eins');
  await field.press('Enter');
  await tab.answers.getByText('answer 1 to eins').waitFor();
  await tab.idle();
  await expect.poll(() => texts(tab), WAIT).toEqual(['eins', 'answer 1 to eins']);

  await tab.button('Answer again').click();
  await tab.answers.getByText('answer 2 to eins').waitFor();
  await tab.idle();
  await expect.poll(() => texts(tab), WAIT).toEqual(['eins', 'answer 2 to eins']);
  await tab.page.reload();
  await expect.poll(() => texts(tab), WAIT).toEqual(['eins', 'answer 2 to eins']);

  await tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await tab.button('Copy answer').click();
  await tab.button('Copied').waitFor();
  expect(await tab.page.evaluate(() => navigator.clipboard.readText())).toBe('answer 2 to eins');
});

it('X4 a branch is made at a message; both conversations link to each other and go on alone', async () => {
  const tab = await site.visit();
  await said(tab, 'red');
  await said(tab, 'blue');
  await tab.button('Branch here').nth(1).click();
  const opening = tab.page.context().waitForEvent('page');
  await tab.page.getByRole('link', { name: 'open it in another tab' }).click();
  const page = await opening;
  await page.getByText('answer 1 to red').waitFor();
  expect(await page.locator('article').allInnerTexts()).toEqual(['red', 'answer 1 to red']);
  await page.getByLabel('Message', { exact: true }).fill('green');
  await page.keyboard.press('Enter');
  await page.getByText('answer 1 to green').waitFor();
  const back = page.context().waitForEvent('page');
  await page.getByRole('link', { name: 'Open the conversation that it was made from' }).click();
  await (await back).getByText('answer 1 to blue').waitFor();
  expect(await texts(tab)).toEqual(['red', 'answer 1 to red', 'blue', 'answer 1 to blue']);
});

it('X4 a branch is shown side by side with its conversation, also after a reload; both answer at once', async () => {
  const tab = await site.visit({ viewport: { width: 1400, height: 900 } });
  await said(tab, 'sun');
  await tab.button('Branch here').last().click();
  await tab.button('Show side by side').click();
  const own = tab.page.getByRole('main');
  const beside = tab.page.getByRole('region', { name: 'Conversation beside' });
  const besides = () => beside.locator('article').allInnerTexts();
  await expect.poll(besides, WAIT).toEqual(['sun', 'answer 1 to sun']);
  await tab.page.getByLabel('Message', { exact: true }).first().fill('moon');
  await beside.getByLabel('Message', { exact: true }).fill('hold the stars');
  await beside.getByRole('button', { name: 'Send' }).click();
  await beside.getByText('One moment').waitFor();
  await tab.page.getByRole('button', { name: 'Send' }).first().click();
  await own.getByText('answer 1 to moon').waitFor();
  const left = (await own.boundingBox())!;
  const right = (await beside.boundingBox())!;
  expect(right.x).toBeGreaterThanOrEqual(left.x + left.width - 1);
  await tab.expectAccessible();

  await tab.page.reload();
  await expect.poll(besides, WAIT).toEqual(['sun', 'answer 1 to sun', 'hold the stars', 'One moment']);
  await expect
    .poll(() => own.locator('article').allInnerTexts(), WAIT)
    .toEqual(['sun', 'answer 1 to sun', 'moon', 'answer 1 to moon']);
  const opening = tab.page.context().waitForEvent('page');
  await tab.page.getByRole('link', { name: 'Open in another tab' }).click();
  const other = await opening;
  await other.getByText('One moment').waitFor();
  expect(await other.getByRole('region', { name: 'Conversation beside' }).count(), 'shown once').toBe(0);
  await other.close();

  await tab.page.getByRole('link', { name: 'Open in another tab' }).focus();
  await tab.page.keyboard.press('Tab');
  await tab.page.keyboard.press('Enter');
  await beside.waitFor({ state: 'detached' });
  const field = tab.page.getByLabel('Message', { exact: true });
  await expect.poll(() => field.evaluate((element) => element === document.activeElement), WAIT).toBe(true);
  await tab.page.reload();
  await own.getByText('answer 1 to moon').waitFor();
  expect(await beside.count()).toBe(0);
});

it('X4 a session beside that is erased elsewhere leaves the tab’s own conversation as it is', async () => {
  const tab = await site.visit({ viewport: { width: 1400, height: 900 }, allowedErrors: /404/ });
  await said(tab, 'salt');
  await tab.button('Branch here').last().click();
  const link = tab.page.getByRole('link', { name: 'open it in another tab' });
  const branch = /ses_\w+/.exec((await link.getAttribute('href'))!)![0];
  await tab.button('Show side by side').click();
  const beside = tab.page.getByRole('region', { name: 'Conversation beside' });
  await beside.getByText('answer 1 to salt').waitFor();
  const { rows } = await site.runtime.db.query('SELECT user_id FROM sessions WHERE session_id = $1', [branch]);
  const client = createClient({ database: site.runtime.databaseUrl, temporal: site.runtime.temporal });
  onTestFinished(() => client.end());
  await client.eraseSession(rows[0]!.user_id as string, branch);
  await tab.page.reload();
  await tab.page.getByRole('main').getByText('answer 1 to salt').waitFor();
  await beside.waitFor({ state: 'detached' });
});

it('R6 the mark of a stopped answer and an error stay with their turns; Retry answers again and keeps the queue', async () => {
  const tab = await site.visit();
  await tab.send('stop it');
  await tab.answers.getByText('Once upon').waitFor();
  await tab.button('Stop').click();
  const stopped = tab.page.getByText('You stopped the answer here.');
  await stopped.waitFor();
  await tab.idle();

  await tab.send('fail');
  const failed = tab.page.locator('.turn-end[data-state=error]');
  await failed.waitFor();
  await tab.page.reload();
  await failed.waitFor();
  expect(await stopped.count()).toBe(1);
  expect(await tab.button('Retry').count()).toBe(1);
  await tab.expectAccessible();
  await tab.button('Retry').focus();
  await tab.page.keyboard.press('Enter');
  await tab.answers.getByText('answer 2 to fail').waitFor();
  await tab.idle();
  await expect.poll(() => failed.count()).toBe(0);
  await stopped.waitFor();
});

it('R6 an error that the message has caused offers to edit it, and to branch without it', async () => {
  const tab = await site.visit();
  await said(tab, 'fine');
  await tab.send('fail for good');
  await tab.button('Branch without this turn').click();
  await tab.page.getByRole('link', { name: 'open it in another tab' }).waitFor();
  await tab.button('Edit the message').click();
  const field = tab.page.getByLabel('Changed message');
  await expect.poll(() => field.evaluate((element) => element === document.activeElement)).toBe(true);
  await tab.expectAccessible();
  await field.fill('better');
  await field.press('Enter');
  await tab.answers.getByText('answer 1 to better').waitFor();
  await tab.idle();
  await expect.poll(() => texts(tab), WAIT).toEqual(['fine', 'answer 1 to fine', 'better', 'answer 1 to better']);
});

it('X10 U4 the model of the next messages is chosen; each answer names its model; the meter shows what fills the window', async () => {
  const tab = await site.visit();
  await said(tab, 'one');
  const picker = tab.page.getByLabel('Model');
  await picker.selectOption('openai/plain');
  await said(tab, 'two');
  // The workers of this test know no variants.
  await picker.selectOption('openai/sees, high');
  const sending = tab.page.waitForRequest('**/api/chat');
  await tab.send('three');
  const { messages } = (await sending).postDataJSON() as { messages: { metadata: object }[] };
  const model = { provider_id: 'openai', model_id: 'sees', variant: 'high' };
  expect(messages.at(-1)!.metadata).toEqual({ model });
  await tab.button('Retry').waitFor();
  await picker.selectOption('openai/sees');
  await tab.button('Retry').click();
  await tab.answers.getByText('to three').waitFor();
  await tab.idle();
  const asked = site.runtime.model.requests.slice(-3).map(({ body }) => body.model);
  expect(asked).toEqual(['test', 'plain', 'sees']);
  const named = () => tab.page.locator('.actions.assistant .note').allInnerTexts();
  await expect.poll(named, WAIT).toEqual(['openai/test', 'openai/plain', 'openai/sees']);
  const meter = tab.page.locator('.meter');
  expect(await meter.innerText()).toMatch(/^Window: [\d,]+ of 100,000 tokens\s+\d+ % from the cache/);
  expect(await meter.getByRole('meter').getAttribute('max')).toBe('100000');
  await tab.page.setViewportSize({ width: 360, height: 740 });
  await expect.poll(() => tab.page.evaluate(() => document.documentElement.scrollWidth), WAIT).toBe(360);
  await tab.expectAccessible();
});

it('X10 the picker names the model that the session’s agent begins with', async () => {
  const tab = await site.visit();
  const before = tab.page.getByLabel('Model').locator('option').first();
  await expect.poll(() => before.innerText(), WAIT).toBe('as before, at first openai/test');
  const opened = await tab.page.context().request.post(`${site.host.url}/api/sessions`, { data: { agent: 'other' } });
  const { session } = (await opened.json()) as { session: { session_id: string } };
  await tab.page.goto(`${site.host.url}/s/${session.session_id}`);
  await expect.poll(() => before.innerText(), WAIT).toBe('as before, at first openai/sees');
  await said(tab, 'hello');
  expect(site.runtime.model.requests.at(-1)!.body.model).toBe('sees');
  await tab.page.getByLabel('Model').selectOption('openai/plain');
  await said(tab, 'hello again');
  await expect.poll(() => before.innerText(), WAIT).toBe('as before');
});

it('U4 the meter shows how full the window is after a compaction and in a branch, before a step reports', async () => {
  const tab = await site.visit();
  const filled = tab.page.locator('.meter').getByRole('meter');
  const tokens = async () => Number(await filled.getAttribute('value'));
  const counted = () => expect.poll(async () => 0 < (await tokens()) && (await tokens()) < 2_000, WAIT).toBe(true);
  for (const name of ['one', 'two', 'three']) await said(tab, `fill ${name}${' and so on'.repeat(30)}`);
  await expect.poll(tokens, WAIT).toBe(60_010);
  await tab.button('Branch here').last().click();
  const opening = tab.page.context().waitForEvent('page');
  await tab.page.getByRole('link', { name: 'open it in another tab' }).click();
  const branch = (await opening).locator('.meter').getByRole('meter');
  await expect.poll(async () => Number(await branch.getAttribute('value')), WAIT).toBeLessThan(2_000);
  await tab.button('Compact').click();
  await counted();
  const { window } = await tab.ask<{ window: object }>(await tab.sessionId());
  expect(window).toEqual({ model: 'openai/test', tokens: await tokens(), limit: 100_000 });
  await tab.page.reload();
  await counted();
  await said(tab, 'fill more');
  await expect.poll(tokens, WAIT).toBe(60_010);
});

it('U4 while a turn goes on, the meter shows what its latest step has reported', async () => {
  baked = Promise.withResolvers();
  const next = Promise.withResolvers<void>();
  const tab = await site.visit();
  await tab.send('hello');
  const meter = tab.page.locator('.meter');
  await meter.getByText('Window: ').waitFor();
  await tab.idle();
  site.runtime.model.script(async function* (request) {
    if (request.messages.at(-1)!.role !== 'tool')
      return yield* [callTool('call_1', 'bake', {}), report({ input: 60_000, output: 10 })];
    await next.promise;
    yield say('There is bread.');
  });
  onTestFinished(() => site.runtime.model.script(answer));
  await tab.send('bread');
  baked.resolve('bread');
  await expect.poll(() => meter.innerText(), WAIT).toMatch(/^Window: 60,010 of/);
  expect(await tab.answers.getByText('There is bread.').count()).toBe(0);
  next.resolve();
  await tab.answers.getByText('There is bread.').waitFor();
});

it('U3 the meter shows what the session has cost, as far as the application knows the price', async () => {
  const tab = await site.visit();
  const meter = tab.page.locator('.meter');
  await said(tab, 'free');
  // The cost comes with it.
  await meter.getByText('Window: ').waitFor();
  expect(await meter.innerText()).not.toContain('$');
  await tab.page.getByLabel('Model').selectOption('openai/plain');
  await said(tab, 'dear');
  await meter.getByText('$0.6000').waitFor();
  await said(tab, 'dearer');
  await meter.getByText('$1.20').waitFor();
  await tab.page.reload();
  await meter.getByText('$1.20').waitFor();
});

it('W7 the queue shows places; a message in it is taken back; after an error it waits, and a retry keeps it', async () => {
  const tab = await site.visit();
  await tab.send('hold, then fail');
  await tab.answers.getByText('One moment').waitFor();
  for (const text of ['first', 'second', 'third']) await tab.send(text);
  const waiting = tab.page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem');
  await expect
    .poll(() => waiting.locator('.note').allInnerTexts(), WAIT)
    .toEqual([
      expect.stringMatching(/^Queued /),
      expect.stringMatching(/^Queued, number 2 /),
      expect.stringMatching(/^Queued, number 3 /),
    ]);
  await tab.button('Take back').nth(1).click();
  await expect.poll(() => waiting.locator('.text').allInnerTexts()).toEqual(['first', 'third']);
  held.resolve();
  await tab.page.getByText('After the error the queue waits').waitFor();
  await tab.expectAccessible();
  await tab.button('Retry').click();
  await tab.answers.getByText('answer 1 to third').waitFor();
  await tab.idle();
  await expect
    .poll(() => tab.answers.allInnerTexts(), WAIT)
    .toEqual(['answer 2 to hold, then fail', 'answer 1 to first', 'answer 1 to third']);
});

it('R5 the progress of a tool is shown while it runs', async () => {
  baked = Promise.withResolvers();
  const tab = await site.visit();
  await tab.send('bake');
  await tab.page.locator('.tool .progress', { hasText: '3 of 7 loaves' }).waitFor();
  baked.resolve('bread');
  await tab.answers.getByText('to bake').waitFor();
  expect(await tab.page.locator('.tool .progress').count()).toBe(0);
});

it('H8 each message says when it was sent', async () => {
  const tab = await site.visit();
  await said(tab, 'now');
  const moments = () =>
    tab.page
      .locator('time.moment')
      .evaluateAll((found) => found.map((each) => Date.parse((each as HTMLTimeElement).dateTime)));
  await tab.page.reload();
  await expect.poll(async () => (await moments()).length, WAIT).toBe(2);
  const { rows } = await site.runtime.db.query<{ at: Date }>(
    "SELECT m.created_at AS at FROM chat_messages m JOIN chat_parts p ON p.message_id = m.id AND p.session_id = m.session_id WHERE p.data ->> 'text' IN ('now', 'answer 1 to now') ORDER BY m.position",
  );
  expect(await moments()).toEqual(rows.map(({ at }) => at.getTime()));
  await tab.page.locator('article').first().hover();
  await expect
    .poll(() =>
      tab.page
        .locator('time.moment')
        .first()
        .evaluate((each) => getComputedStyle(each).opacity),
    )
    .toBe('1');
});
