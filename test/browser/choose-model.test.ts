// A host with one model: there is nothing to choose, unless the session's own model is not that one.
import { beforeAll, expect, it } from 'vitest';
import { defineAgent } from '../../agent/definition/define.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';

const agent = defineAgent({
  id: 'site-builder',
  description: 'Answers.',
  mode: 'primary',
  prompt: 'Answer.',
  tools: [],
});

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ agents: [agent], models: ['openai/plain'], settings: { providerAttempts: 1 } });
  site.runtime.model.script((request) => [say(`answer to ${lastUserText(request)}`)]);
});

it('X10 R6 a session whose model is not configured any more gets another one', async () => {
  const tab = await site.visit();
  const answered = async (text: string) => {
    await tab.answers.getByText(`answer to ${text}`).waitFor();
    await tab.idle();
  };
  await tab.send('one');
  await answered('one');
  const picker = tab.page.getByLabel('Model');
  expect(await picker.count()).toBe(0);
  const id = await tab.sessionId();
  const { session } = await tab.ask<{ session: { session_id: string } }>(id);
  const sql = `UPDATE chat_sessions SET model = 'gone/model' WHERE session_id = $1`;
  await site.runtime.db.query(sql, [session.session_id]);
  await tab.send('two');
  await tab.button('Choose another model').click();
  await expect.poll(() => picker.evaluate((element) => element === document.activeElement), WAIT).toBe(true);
  await picker.selectOption('openai/plain');
  await tab.expectAccessible();
  await tab.button('Retry').click();
  await answered('two');
  await tab.page.reload();
  await tab.send('three');
  await answered('three');
  await expect.poll(() => picker.count(), WAIT).toBe(0);
});
