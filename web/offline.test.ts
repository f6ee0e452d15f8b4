import { beforeAll, expect, it } from 'vitest';
import { say } from '../test/support/model-actions.ts';
import { lastUserText } from '../test/support/model-server.ts';
import { startSite, type TestSite } from '../test/support/page.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
}, 60_000);

it.each(['the first', 'a later'])('W7 %s message, typed while there is no server, outlives a reload', async (which) => {
  site.runtime.model.script((request) => [say(`You said ${lastUserText(request)}.`)]);
  const tab = await site.visit({ mayComplain: /ERR_FAILED/ });
  if (which === 'a later') {
    await tab.send('hello');
    await tab.answers.getByText('You said hello.').waitFor();
    await tab.idle();
  }
  await tab.page.route('**/api/**', (route) => route.abort());
  await tab.send('one');
  await tab.page.getByText('Not sent yet: The server cannot be reached.').waitFor();
  await tab.page.reload();
  await tab.page.unroute('**/api/**');
  await tab.answers.getByText('You said one.').waitFor();
  const said = await tab.page.locator('article').allInnerTexts();
  expect(said.slice(-2)).toEqual(['one', 'You said one.']);
});
