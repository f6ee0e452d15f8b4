import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, type ModelScript } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});

const script = (model: ModelScript) => site.runtime.model.script(model);
const answerTexts = (tab: Tab) => tab.answers.allInnerTexts();

it('S6 two tabs are two sessions, a duplicated tab too; a reload keeps the session', async () => {
  script((request) => [say(`You said ${lastUserText(request)}.`)]);
  const one = await site.visit();
  await one.send('one');
  await one.answers.getByText('You said one.').waitFor();

  const two = await one.another();
  await two.send('two');
  await two.answers.getByText('You said two.').waitFor();
  const copy = await one.another({ duplicate: true });
  await copy.page.getByText('Say what you want').waitFor();

  const ids = await Promise.all([one, two, copy].map((tab) => tab.sessionId()));
  expect(new Set(ids).size).toBe(3);
  await one.page.reload();
  await one.answers.getByText('You said one.').waitFor();
  expect(await one.sessionId()).toBe(ids[0]);
  expect(await answerTexts(two)).toEqual(['You said two.']);
});

it('S6 R5 a tab shows the sessions of all tabs live, can stop them, and shows one in place of its own or in a new tab', async () => {
  script(() => [say('Hm'), hang()]);
  const one = await site.visit();
  await one.send('a long story');
  await one.answers.getByText('Hm').waitFor();
  const two = await one.another();
  await two.row('a long story').getByText('working').waitFor();
  await two.send('a short one');
  await one.row('a short one').getByText('working').waitFor();
  await one.button('Stop: a short one').click();
  await two.idle();
  await one.row('a short one').getByText('working').waitFor({ state: 'detached' });
  await two.button('Stop: a long story').click();
  await one.idle();
  await two.row('a long story').getByText('working').waitFor({ state: 'detached' });
  expect(await two.button('Stop: a long story').count()).toBe(0);

  const link = two.row('a long story').getByRole('link');
  const own = two.row('a short one').getByRole('link');
  expect(await own.getAttribute('aria-current')).toBe('page');
  await link.click();
  await two.answers.getByText('Hm').waitFor();
  await two.page.getByRole('heading', { name: 'a long story', level: 1 }).waitFor();
  expect([await own.getAttribute('aria-current'), await link.getAttribute('aria-current')]).toEqual([null, 'page']);
  const named = await two.sessionId();
  expect(new URL(two.page.url()).pathname).toBe(`/s/${named}`);

  // The browser's own ways to another tab work as for every link: the page leaves such a click to it.
  await two.page.evaluate(() => {
    const note = (event: MouseEvent) => {
      document.body.dataset['left'] = String(!event.defaultPrevented);
      event.preventDefault();
    };
    window.addEventListener('click', note, { once: true });
  });
  await link.click({ modifiers: ['ControlOrMeta'] });
  expect(await two.page.locator('body').getAttribute('data-left')).toBe('true');
  expect(new URL(two.page.url()).pathname).toBe(`/s/${named}`);
  const three = await two.page.context().newPage();
  await three.goto(new URL((await link.getAttribute('href'))!, two.page.url()).href);
  await three.locator('article.assistant').getByText('Hm').waitFor();
  await three.reload();
  await three.locator('article.assistant').getByText('Hm').waitFor();

  // The tab still has its own session.
  await two.page.goBack();
  await two.page.getByRole('heading', { name: 'a short one', level: 1 }).waitFor();
  expect(await two.sessionId()).toMatch(/^tab_/);

  // The tab that held the connection for all of them has been closed.
  await one.page.close();
  await three.getByLabel('Message', { exact: true }).fill('go on');
  await three.keyboard.press('Enter');
  await two.row('a long story').getByText('working').waitFor();
});

it('S4 two pages of one session show the same text and phase, and of two publishes one shows the error', async () => {
  const calls = [
    callTool('call_1', 'build_and_deploy', { confirm_new_project: true }),
    callTool('call_2', 'todo_complete', { name: 'build' }),
  ];
  const rest = Promise.withResolvers<void>();
  script(async function* ({ messages }) {
    const call = calls[messages.filter(({ role }) => role === 'tool').length];
    if (call) {
      yield call;
      return;
    }
    yield say('It is');
    await rest.promise;
    yield say(' built.');
  });
  const one = await site.visit();
  await one.send('build');
  await one.answers.getByText('It is', { exact: true }).waitFor();
  const { session } = await one.ask<{ session: { session_id: string } }>(await one.sessionId());
  const storageState = await one.page.context().storageState();
  const at = `/s/${session.session_id}`;
  const two = await site.visit({ at, storageState, allowedErrors: /status of 409/ });
  await two.answers.getByText('It is', { exact: true }).waitFor();
  rest.resolve();
  for (const tab of [one, two]) {
    await tab.answers.getByText('It is built.').waitFor();
    await tab.inPhase('Verifying');
    await tab.idle();
  }
  expect(await two.conversation.innerText()).toBe(await one.conversation.innerText());

  await one.button('Revert').click();
  await two.inPhase('Building');
  await two.button('Cancel build').waitFor();
  expect(await two.button('Publish').count()).toBe(0);
  script(({ messages }) => [messages.at(-1)?.role === 'tool' ? say('Again.') : calls[1]!]);
  await two.send('once more');
  await one.inPhase('Verifying');
  await two.answers.getByText('Again.').waitFor();
  await two.idle();

  // Its command is under way when that of the other page arrives.
  const oneIsDone = Promise.withResolvers<void>();
  await two.page.route('**/publish', async (route) => {
    await oneIsDone.promise;
    await route.continue();
  });
  const sent = two.page.waitForRequest('**/publish');
  await two.button('Publish').click();
  await sent;
  await one.button('Publish').click();
  await one.inPhase('Done');
  oneIsDone.resolve();
  await two.page
    .getByRole('alert')
    .getByText(/"done" cannot take the event "publish"\. The phase above is/)
    .waitFor();
  await two.inPhase('Done');
});

it('S4 a change from another client is shown', async () => {
  script((request) => [say(`You said ${lastUserText(request)}.`)]);
  const tab = await site.visit();
  await tab.send('hello');
  await tab.answers.getByText('You said hello.').waitFor();
  await tab.idle();
  const elsewhere = (path: string, body: unknown) =>
    tab.page.context().request.post(`${site.host.url}/api/sessions/${path}`, { data: body });
  const id = await tab.sessionId();
  expect((await elsewhere(`${id}/messages`, { id: 'm-elsewhere', text: 'from afar' })).status()).toBe(202);
  await tab.answers.getByText('You said from afar.').waitFor();
  expect((await elsewhere(`${id}/open`, { project_id: 'owls' })).status()).toBe(200);
  script(({ messages }) =>
    messages.at(-1)?.role === 'tool' ? [hang()] : [callTool('call_1', 'build_and_deploy', {})],
  );
  await elsewhere(`${id}/messages`, { id: 'm-build', text: 'build' });
  await tab.inPhase('Building');
  expect((await elsewhere(`${id}/cancel`, {})).status()).toBe(200);
  await tab.inPhase('Chatting');
  await tab.idle();
});

/** A tab that closed its stream in the middle of an answer. */
async function halfAStory(allowedErrors?: RegExp): Promise<{ tab: Tab; tellTheEnd: () => void }> {
  const rest = Promise.withResolvers<void>();
  script(async function* () {
    yield say('Once upon');
    await rest.promise;
    yield say(' a time.');
  });
  const tab = await site.visit({ ...(allowedErrors && { allowedErrors }) });
  await tab.send('A story');
  await tab.answers.getByText('Once upon', { exact: true }).waitFor();
  await becomes(tab, 'hidden');
  await eventually(async () => expect(await site.host.openStreams('chat', 'events')).toEqual([0, 0]));
  return { tab, tellTheEnd: rest.resolve };
}

const joining = ({ page }: Tab) => page.waitForResponse((response) => response.url().endsWith('/stream'));

it('R2 a hidden tab closes its answer’s stream, and follows it again once it is visible', async () => {
  const { tab, tellTheEnd } = await halfAStory();
  const follows = joining(tab);
  await becomes(tab, 'visible');
  expect((await follows).status()).toBe(202);
  tellTheEnd();
  await tab.answers.getByText('Once upon a time.').waitFor();
  await tab.idle();
  expect(await answerTexts(tab)).toEqual(['Once upon a time.']);
});

it('R2 if joining an answer fails, the page retries', async () => {
  const { tab, tellTheEnd } = await halfAStory(/status of 503/);
  await tab.page.route('**/stream', (route) => route.fulfill({ status: 503 }), { times: 1 });
  const fails = joining(tab);
  await becomes(tab, 'visible');
  expect((await fails).status()).toBe(503);
  expect((await joining(tab)).status()).toBe(202);
  tellTheEnd();
  await tab.answers.getByText('Once upon a time.').waitFor();
  expect(await answerTexts(tab)).toEqual(['Once upon a time.']);
});

it('R2 an answer that ends just before it can be joined is shown to its end', async () => {
  const { tab, tellTheEnd } = await halfAStory();
  const tooLate = joining(tab);
  await tab.page.route(
    '**/stream',
    async (route) => {
      tellTheEnd();
      await tab.idle();
      await route.continue();
    },
    { times: 1 },
  );
  await becomes(tab, 'visible');
  expect((await tooLate).status()).toBe(204);
  await tab.answers.getByText('Once upon a time.').waitFor();
  expect(await answerTexts(tab)).toEqual(['Once upon a time.']);
});

/** Sets the visibility, because tabs of a headless browser never become hidden. */
function becomes(tab: Tab, state: DocumentVisibilityState): Promise<void> {
  return tab.page.evaluate((now) => {
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => now });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);
}
