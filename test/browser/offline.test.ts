import { beforeAll, expect, it } from 'vitest';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});

it.each(['the first', 'a later'])('W7 %s message, typed while there is no server, survives a reload', async (which) => {
  site.runtime.model.script((request) => [say(`You said ${lastUserText(request)}.`)]);
  const tab = await site.visit({ allowedErrors: /ERR_FAILED/ });
  if (which === 'a later') {
    await tab.send('hello');
    await tab.answers.getByText('You said hello.').waitFor();
    await tab.idle();
  }
  const letThrough = await tab.cutOff();
  await tab.send('one');
  await tab.page.getByText('Not sent yet: The server cannot be reached.').waitFor();
  await tab.page.reload();
  letThrough();
  await tab.answers.getByText('You said one.').waitFor();
  const said = await tab.page.locator('article').allInnerTexts();
  expect(said.slice(-2)).toEqual(['one', 'You said one.']);
});

it('R2 a page that loses its host says so, keeps the typed text, and continues by itself when there is one again', async () => {
  const rest = Promise.withResolvers<void>();
  site.runtime.model.script(async function* (request) {
    if (lastUserText(request) !== 'a story') {
      yield say(`You said ${lastUserText(request)}.`);
      return;
    }
    yield say('Once upon');
    await rest.promise;
    yield say(' a time.');
  });
  const tab = await site.visit({
    allowedErrors: /net::ERR_/,
  });
  await tab.send('a story');
  await tab.answers.getByText('Once upon', { exact: true }).waitFor();
  const comeBack = site.host.goAway();
  await tab.status.getByText('The connection is lost.').waitFor();
  await tab.send('and then');
  await tab.page
    .getByText('Not sent yet: The server cannot be reached. It will be sent again until it arrives.')
    .waitFor();
  rest.resolve();
  await comeBack();
  await tab.answers.getByText('You said and then.').waitFor();
  await tab.idle();
  const said = await tab.page.locator('article').allInnerTexts();
  expect(said).toEqual(['a story', 'Once upon a time.', 'and then', 'You said and then.']);
  await expect.poll(() => tab.status.innerText(), WAIT).toBe('');
});

it('W7 a message typed on an offline device is sent when it is online again', async () => {
  site.runtime.model.script((request) => [say(`You said ${lastUserText(request)}.`)]);
  const tab = await site.visit({ allowedErrors: /ERR_INTERNET_DISCONNECTED/ });
  await tab.page.context().setOffline(true);
  await tab.send('hello');
  await tab.page.getByText('Not sent yet: This device is offline.').waitFor();
  await tab.page.context().setOffline(false);
  await tab.answers.getByText('You said hello.').waitFor();
});

it('W7 a message typed on an offline device is taken into the input field at once', async () => {
  site.runtime.model.script((request) => [say(`You said ${lastUserText(request)}.`)]);
  const tab = await site.visit({ allowedErrors: /ERR_INTERNET_DISCONNECTED/ });
  const field = tab.page.getByLabel('Message', { exact: true });
  await tab.send('good morning');
  await tab.answers.getByText('You said good morning.').waitFor();
  await tab.idle();
  await tab.page.context().setOffline(true);
  for (const text of ['hello', 'good night']) {
    await tab.send(text);
    await tab.page.getByText('Not sent yet').last().waitFor();
    await tab.button('Edit waiting message').last().click();
    await expect.poll(() => field.inputValue(), WAIT).toBe(text);
  }
  await tab.page.context().setOffline(false);
  await field.press('Enter');
  await tab.answers.getByText('You said good night.').waitFor();
  await tab.idle();
  expect(await tab.answers.allInnerTexts()).toEqual(['You said good morning.', 'You said good night.']);
});
