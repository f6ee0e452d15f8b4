// After an error the page says what to do, and each of its buttons leads to a conversation that works.
import { rm, writeFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { RUN_ERROR_CODES, type RunErrorCode } from '../../domain/runs.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { refusing, startStore, type TestStore } from '../../tools/test-kit/bucket.ts';
import {
  callTool,
  fail,
  failContextLength,
  finish,
  type ModelAction,
  say,
} from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { PROVIDER_FAILURES } from '../../tools/test-kit/provider-failures.ts';
import { withoutFunction } from '../../tools/test-kit/without-function.ts';
import { type WayOut, waysOut } from '../../web/transcript/turns.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';

const BUTTONS: Record<WayOut, string> = {
  retry: 'Retry',
  model: 'Choose another model',
  edit: 'Edit the message',
  branch: 'Branch without this turn',
  compact: 'Compact the conversation',
};
const LONG = ' and so on'.repeat(30);

/** What is wrong now. */
let wrong: RunErrorCode | undefined;

const wait = defineTool({ name: 'wait', description: 'Waits.', input: z.object({}), execute: () => 'waited' });
const NAMED = {
  id: 'site-builder',
  description: 'Answers.',
  mode: 'primary',
  prompt: 'Answer.',
  tools: [wait],
  limits: { steps: 1 },
} satisfies Parameters<typeof defineAgent>[0];
const AGENTS = [defineAgent(NAMED), defineAgent({ ...NAMED, id: 'needy', prompt: 'Answer {name}.' })];

/** How the provider fails. */
const FAILURES: Partial<Record<RunErrorCode, ModelAction[]>> = {
  LimitReached: [callTool('call_1', 'wait', {})],
  ...PROVIDER_FAILURES,
  ContextTooLong: [failContextLength()],
  ContentFilter: [say('I must'), finish('content_filter')],
};

function answer(request: ChatRequest): ModelAction[] {
  const isSummary = JSON.stringify(request.messages[0]).includes('You write the summary');
  if (isSummary) return [wrong === undefined ? say('They talked.') : fail(401)];
  const isOther = request.model === 'plain';
  return (!isOther && wrong && FAILURES[wrong]) || [say(`answer to ${lastUserText(request).slice(0, 20)}`)];
}

let site: TestSite;
let store: TestStore;
beforeAll(async () => {
  store = await startStore();
  afterFile(store.close);
  site = await startSite({ agents: AGENTS, settings: { providerAttempts: 1 }, s3: store.s3 });
  site.runtime.model.script(answer);
});

/** Sends a message and waits for its answer. */
async function said(tab: Tab, text: string): Promise<void> {
  await tab.send(text);
  await answered(tab, text);
  await tab.idle();
}

/** Attaches a picture to the next message. */
async function attach(tab: Tab): Promise<void> {
  const [name, mimeType, buffer] = ['dot.png', 'image/png', Buffer.from(PIXEL, 'base64')];
  await tab.page.getByLabel('Files to attach', { exact: true }).setInputFiles([{ name, mimeType, buffer }]);
  await tab.page.locator('[data-state=ready]').waitFor();
}

/** What is wrong outside of the model, of the session; returns how to put it right. */
async function spoil(tab: Tab, code: RunErrorCode): Promise<() => Promise<unknown>> {
  const { db, workspaces } = site.runtime;
  const id = await tab.sessionId();
  const { session } = await tab.ask<{ session: Parameters<typeof workspaceRoot>[1] }>(id);
  const setAgent = (name: string) =>
    db.query('UPDATE chat_sessions SET agent = $2 WHERE session_id = $1', [session.session_id, name]);
  if (code === 'AgentNotConfigured') {
    await setAgent('gone');
    return () => setAgent(NAMED.id);
  }
  if (code === 'StateNotSet') {
    await setAgent('needy');
    const data = { stateDelta: { name: 'Ada' } };
    return async () => {
      const url = `${site.host.url}/api/sessions/${id}/state`;
      expect((await tab.page.context().request.post(url, { data })).status()).toBe(200);
    };
  }
  if (code === 'Internal') return withoutFunction(db, 'settle_step');
  if (code === 'WorkspaceNotUsable') {
    const folder = workspaceRoot(workspaces, session);
    await rm(folder, { recursive: true });
    await writeFile(folder, '');
    return () => rm(folder);
  }
  if (code === 'AttachmentsUnavailable') {
    await attach(tab);
    store.behave(refusing(403));
    return async () => store.behave();
  }
  if (code === 'ModelNotConfigured') {
    // The workers of this test know no variants.
    const picker = tab.page.getByLabel('Model');
    await picker.selectOption('openai/test, high');
    return () => picker.selectOption('openai/test');
  }
  wrong = code;
  return async () => (wrong = undefined);
}

/** Sends a message whose turn ends with the error, and then puts right what was wrong, unless another model helps. */
async function fails(tab: Tab, code: RunErrorCode, text: string, way?: WayOut): Promise<void> {
  const mend = await spoil(tab, code);
  if (way === 'model') onTestFinished(() => void (wrong = undefined));
  try {
    await tab.send(text);
    const end = tab.page.locator('.turn-end[data-state=error]');
    await end.waitFor();
    await tab.idle();
    const advice = await end.locator('p').first().innerText();
    expect(advice).toMatch(/send a|again|edit the message|compact it/i);
    const namesModel = /another (?:model|one, then)|a model (?:of another|with a larger)/i.test(advice);
    expect(await end.getByRole('button', { name: BUTTONS.model }).count(), advice).toBe(namesModel ? 1 : 0);
  } finally {
    if (way !== 'model') await mend();
  }
}

const answered = (tab: Tab, text: string) => tab.answers.getByText(`answer to ${text.slice(0, 20)}`).waitFor();

const FOLLOW: Record<WayOut, (tab: Tab, text: string) => Promise<unknown>> = {
  retry: answered,
  model: async (tab, text) => {
    const picker = tab.page.getByLabel('Model');
    await expect.poll(() => picker.evaluate((element) => element === document.activeElement), WAIT).toBe(true);
    await picker.selectOption('openai/plain');
    await tab.button(BUTTONS.retry).click();
    await answered(tab, text);
  },
  edit: async (tab) => {
    const field = tab.page.getByLabel('Changed message');
    await field.fill('better');
    await field.press('Enter');
    await tab.answers.getByText('answer to better').waitFor();
  },
  branch: async (tab) => {
    const opening = tab.page.context().waitForEvent('page');
    await tab.page.getByRole('link', { name: 'open it in another tab' }).click();
    const page = await opening;
    await page.getByText('answer to three').waitFor();
    await page.getByLabel('Message', { exact: true }).fill('apart');
    await page.keyboard.press('Enter');
    await page.getByText('answer to apart').waitFor();
  },
  compact: (tab) => tab.page.getByText(/Summarized \d+ earlier turn/).waitFor(),
};

// Of a turn; a compaction by hand is not one, and follows.
const OF_TURNS = RUN_ERROR_CODES.filter((code) => code !== 'CompactionFailed');
const MANY_WAYS = OF_TURNS.filter((code) => waysOut({ state: 'error', code }).length > 1);

it('R6 after errors that the message has not caused, Retry answers it', { timeout: patient(180_000) }, async () => {
  // Of the picture, while the bucket refuses.
  const tab = await site.visit({ allowedErrors: /status of 503/ });
  await said(tab, 'one');
  for (const code of OF_TURNS) {
    if (MANY_WAYS.includes(code)) continue;
    await fails(tab, code, code);
    expect(await tab.page.locator('.turn-end button').allInnerTexts(), code).toEqual([BUTTONS.retry]);
    await tab.button(BUTTONS.retry).click();
    await FOLLOW.retry(tab, code);
    await tab.idle();
  }
  await said(tab, 'two');
});

describe.each(MANY_WAYS)('%s', (code) => {
  it.each(waysOut({ state: 'error', code }))('R6 %s', async (way) => {
    const tab = await site.visit();
    const before = way === 'compact' ? ['one', 'two', 'three'] : ['three'];
    for (const name of before) await said(tab, `${name}${LONG}`);
    await fails(tab, code, 'four', way);
    await tab.button(BUTTONS[way]).click();
    await FOLLOW[way](tab, 'four');
    await tab.idle();
    await said(tab, 'five');
  });
});

it('R6 an error of a compaction by hand is shown; it is tried again with the same button', async () => {
  const tab = await site.visit();
  for (const name of ['one', 'two', 'three']) await said(tab, `${name}${LONG}`);
  wrong = 'CompactionFailed';
  try {
    await tab.button('Compact').click();
    await tab.page.getByText(/could not be compacted.*Try again/).waitFor();
  } finally {
    wrong = undefined;
  }
  await tab.button('Compact').click();
  await FOLLOW.compact(tab, '');
  await said(tab, 'four');
});

it('R6 a message is edited without a file that the provider refuses', async () => {
  const tab = await site.visit();
  await said(tab, 'one');
  await attach(tab);
  wrong = 'ProviderRejected';
  try {
    await tab.send('look');
    await tab.page
      .getByRole('log')
      .getByText(/without files/)
      .waitFor();
    await tab.idle();
  } finally {
    wrong = undefined;
  }
  await tab.button('Edit the message').click();
  await tab.page.getByLabel('With dot.png').uncheck();
  await tab.expectAccessible();
  const before = site.runtime.model.requests.length;
  await tab.button('Send change').click();
  await tab.answers.getByText('answer to look').waitFor();
  await tab.idle();
  expect(JSON.stringify(site.runtime.model.requests[before]!.body.messages)).not.toContain('image_url');
  await expect.poll(() => tab.conversation.getByRole('img').count(), WAIT).toBe(0);
});
