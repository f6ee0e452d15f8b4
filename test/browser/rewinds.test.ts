// Going back in a conversation, undoing it, and what other pages and requests see of it.
import { beforeAll, expect, it } from 'vitest';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { fail, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
  site.runtime.model.script(answer);
});

/** An answer to "hold …" waits for it before it ends. */
let held: PromiseWithResolvers<void>;
/** How often each text was answered. */
const times = new Map<string, number>();

async function* answer(request: ChatRequest): AsyncGenerator<ModelAction> {
  const text = lastUserText(request);
  const nth = (times.get(text) ?? 0) + 1;
  times.set(text, nth);
  if (text.startsWith('fail') && nth === 1) {
    yield fail(401);
    return;
  }
  yield say(`answer ${nth}`);
  if (text.startsWith('hold')) await held.promise;
  yield say(` to ${text}`);
}

type Page = Tab['page'];

const textsOn = (page: Page) => page.locator('article').allInnerTexts();
const noteOn = (page: Page) => page.getByText('You have gone back here.');
const field = (page: Page) => page.getByLabel('Message', { exact: true });
const expectTyped = (tab: Tab, text: string) => expect.poll(() => field(tab.page).inputValue(), WAIT).toBe(text);
/** Messages with their first answers. */
const answered = (...asked: string[]) => asked.flatMap((text) => [text, `answer 1 to ${text}`]);

/** Sends a message and waits for its answer. */
async function said(tab: Tab, ...all: string[]): Promise<void> {
  for (const text of all) {
    await tab.send(text);
    await tab.answers.getByText(`to ${text}`, { exact: false }).last().waitFor();
    await tab.idle();
  }
}

/** Expects these messages, and that the last one was gone back to, or none. */
async function expectShown(page: Page, shown: string[], { isGoneBack }: { isGoneBack: boolean }): Promise<void> {
  await expect.poll(() => textsOn(page), WAIT).toEqual(shown);
  await expect.poll(() => noteOn(page).count(), WAIT).toBe(isGoneBack ? 1 : 0);
}

/** Before the page has drawn anything anew. */
const clickTwice = (button: Element) => {
  for (let nth = 0; nth < 2; nth += 1) (button as HTMLElement).click();
};

/** Holds the answer to the next reading of the session, and changes the cost in it. */
async function holdReading(tab: Tab): Promise<{ isHeld: () => boolean; release: () => Promise<void> }> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  let isNext = true;
  let isHeld = false;
  await tab.page.route(`**/api/sessions/${await tab.sessionId()}`, async (route) => {
    if (!isNext) return route.continue();
    isNext = false;
    const response = await route.fetch();
    const read = (await response.json()) as { chat: object };
    isHeld = true;
    await promise;
    await route.fulfill({ response, json: { ...read, chat: { ...read.chat, cost_usd: 1234 } } });
    await (await route.request().response())?.finished();
    arrived.resolve();
  });
  const release = async () => {
    resolve();
    await arrived.promise;
    // Time to show it.
    await tab.page.evaluate(async () => {
      for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    });
  };
  return { isHeld: () => isHeld, release };
}

it('X1 the user goes back to a message, undoes it, goes back again and sends another one in its place', async () => {
  const tab = await site.visit();
  await said(tab, 'left', 'right');
  await tab.button('Go back here').first().click();
  await expectShown(tab.page, ['left'], { isGoneBack: true });
  await expectTyped(tab, 'left');
  await tab.expectAccessible();
  // Its note is there after a reload, too.
  await tab.page.reload();
  await noteOn(tab.page).waitFor();
  await tab.button('Undo').click();
  await expectShown(tab.page, answered('left', 'right'), { isGoneBack: false });

  await tab.button('Go back here').last().click();
  await expectShown(tab.page, [...answered('left'), 'right'], { isGoneBack: true });
  await expectTyped(tab, 'right');
  await said(tab, 'straight on');
  await expectShown(tab.page, answered('left', 'straight on'), { isGoneBack: false });
  await tab.page.reload();
  await expectShown(tab.page, answered('left', 'straight on'), { isGoneBack: false });
});

it('X1 two rewinds are undone one by one, also after a reload, and a message replaces the one that is left', async () => {
  held = Promise.withResolvers();
  const tab = await site.visit();
  await said(tab, 'one', 'two', 'three');
  const onThree = [...answered('one', 'two'), 'three'];
  const goBackTwice = async () => {
    await tab.button('Go back here').last().press('Enter');
    await expectShown(tab.page, onThree, { isGoneBack: true });
    await tab.button('Go back here').first().press('Enter');
    await expectShown(tab.page, ['one'], { isGoneBack: true });
  };
  await goBackTwice();
  await expectTyped(tab, 'one');
  await tab.button('Undo').press('Enter');
  await expectShown(tab.page, onThree, { isGoneBack: true });
  await expectTyped(tab, '');
  await expect.poll(() => field(tab.page).evaluate((each) => each === document.activeElement), WAIT).toBe(true);
  await tab.page.reload();
  await expectShown(tab.page, onThree, { isGoneBack: true });
  await tab.button('Undo').click();
  await expectShown(tab.page, answered('one', 'two', 'three'), { isGoneBack: false });

  await goBackTwice();
  await tab.button('Undo').click();
  await expectShown(tab.page, onThree, { isGoneBack: true });
  await tab.send('hold it');
  // Replaced at once, not only when all is read again.
  const begun = [...answered('one', 'two'), 'hold it', 'answer 1'];
  await expectShown(tab.page, begun, { isGoneBack: false });
  held.resolve();
  await tab.idle();
  await expectShown(tab.page, answered('one', 'two', 'hold it'), { isGoneBack: false });
  await tab.page.reload();
  await expectShown(tab.page, answered('one', 'two', 'hold it'), { isGoneBack: false });
});

it('X1 X4 clicking twice undoes one rewind, makes one branch and one new answer', async () => {
  const tab = await site.visit();
  await said(tab, 'uno', 'due');
  await tab.button('Go back here').last().click();
  await expectShown(tab.page, [...answered('uno'), 'due'], { isGoneBack: true });
  await tab.button('Go back here').first().evaluate(clickTwice);
  await expectShown(tab.page, ['uno'], { isGoneBack: true });
  await expectTyped(tab, 'uno');
  await tab.button('Undo').evaluate(clickTwice);
  await expectShown(tab.page, [...answered('uno'), 'due'], { isGoneBack: true });
  await tab.button('Undo').click();
  await expectShown(tab.page, answered('uno', 'due'), { isGoneBack: false });
  await tab.button('Branch here').last().evaluate(clickTwice);
  await tab.page.getByRole('link', { name: 'open it in another tab' }).waitFor();
  await tab.button('Answer again').last().evaluate(clickTwice);
  await expectShown(tab.page, [...answered('uno'), 'due', 'answer 2 to due'], { isGoneBack: false });
  const { session } = await tab.ask<{ session: { session_id: string } }>(await tab.sessionId());
  const { rows } = await site.runtime.db.query(
    'SELECT kind, count(*)::integer FROM session_events WHERE session_id = $1 GROUP BY kind',
    [session.session_id],
  );
  expect(Object.fromEntries(rows.map(({ kind, count }) => [kind as string, count as number]))).toMatchObject({
    ...{ rewind: 2, unrewind: 2, branch: 1, regenerate: 1 },
  });
});

it('X1 a rewind in another tab or by the API shows in this one, and so do its undoing and the message after it', async () => {
  const tab = await site.visit();
  await said(tab, 'north', 'south');
  const { session } = await tab.ask<{ session: { session_id: string } }>(await tab.sessionId());
  const other = await tab.page.context().newPage();
  await other.goto(new URL(`/s/${session.session_id}`, site.host.url).href);
  await expectShown(other, answered('north', 'south'), { isGoneBack: false });
  await other.getByRole('button', { name: 'Go back here' }).last().click();
  for (const page of [other, tab.page]) {
    await expectShown(page, [...answered('north'), 'south'], { isGoneBack: true });
  }
  expect(await field(tab.page).inputValue(), 'the text goes where it was asked for').toBe('');
  await tab.button('Undo').click();
  for (const page of [other, tab.page]) {
    await expectShown(page, answered('north', 'south'), { isGoneBack: false });
  }

  const { items } = await tab.ask<{ items: { id: string }[] }>(`${session.session_id}/messages`);
  const url = new URL(`/api/sessions/${session.session_id}/rewind`, site.host.url).href;
  const rewound = await tab.page.context().request.post(url, { data: { message_id: items[0]!.id } });
  expect(rewound.status()).toBe(200);
  for (const page of [other, tab.page]) await expectShown(page, ['north'], { isGoneBack: true });
  await said(tab, 'east');
  for (const page of [other, tab.page]) await expectShown(page, answered('east'), { isGoneBack: false });
});

it('X1 what the page asked for before a rewind does not replace what it knows since', async () => {
  const tab = await site.visit();
  await said(tab, 'first');
  const { isHeld, release } = await holdReading(tab);
  // The page reads the session when a turn has ended.
  await said(tab, 'second');
  await expect.poll(isHeld, WAIT).toBe(true);
  await tab.button('Go back here').last().click();
  await expectShown(tab.page, [...answered('first'), 'second'], { isGoneBack: true });
  await release();
  await expectShown(tab.page, [...answered('first'), 'second'], { isGoneBack: true });
  expect(await tab.page.locator('.meter').getByText('$1234').count(), 'of the row').toBe(0);
});

it('X4 a branch at a user message has nothing to undo, also after a reload, and goes on', async () => {
  const tab = await site.visit();
  await said(tab, 'red', 'blue');
  await tab.button('Branch here').nth(2).click();
  const opening = tab.page.context().waitForEvent('page');
  await tab.page.getByRole('link', { name: 'open it in another tab' }).click();
  const branch = await opening;
  await expectShown(branch, [...answered('red'), 'blue'], { isGoneBack: false });
  await branch.reload();
  await expectShown(branch, [...answered('red'), 'blue'], { isGoneBack: false });
  await field(branch).fill('green');
  await branch.keyboard.press('Enter');
  await expectShown(branch, [...answered('red'), 'blue', ...answered('green')], { isGoneBack: false });
  await expectShown(tab.page, answered('red', 'blue'), { isGoneBack: false });
});

it('X1 after an error the user goes back to an earlier message, which waits for no turn', async () => {
  const tab = await site.visit();
  await tab.send('fail at once');
  await tab.page.locator('.turn-end[data-state=error]').waitFor();
  await tab.idle();
  await said(tab, 'before');
  await tab.send('fail, then back');
  await expect.poll(() => tab.page.locator('.turn-end[data-state=error]').count(), WAIT).toBe(2);
  await tab.button('Go back here').nth(1).click();
  await expectShown(tab.page, ['fail at once', 'before'], { isGoneBack: true });
  await tab.page.reload();
  await expectShown(tab.page, ['fail at once', 'before'], { isGoneBack: true });
  expect(await tab.page.getByText('Queued').count()).toBe(0);
  await said(tab, 'again');
  await expectShown(tab.page, ['fail at once', ...answered('again')], { isGoneBack: false });
});

it('X1 T10 the files of a message that was gone back to are those of the next one, until it is undone', async () => {
  const tab = await site.visit();
  const dot = { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(PIXEL, 'base64') };
  await tab.page.getByLabel('Files to attach', { exact: true }).setInputFiles([dot]);
  await tab.page.locator('.uploads [data-state=ready]').waitFor();
  await said(tab, 'look', 'and now');
  const files = tab.page.getByRole('list', { name: 'Files of the message' }).getByRole('listitem');
  await field(tab.page).fill('my own words');
  await tab.button('Go back here').last().click();
  await expectShown(tab.page, [...answered('look'), 'and now'], { isGoneBack: true });
  await tab.button('Go back here').first().click();
  await expectShown(tab.page, ['look'], { isGoneBack: true });
  await expect.poll(() => files.count(), WAIT).toBe(1);
  await expectTyped(tab, 'my own words\nlook');
  await tab.button('Undo').click();
  await expectShown(tab.page, [...answered('look'), 'and now'], { isGoneBack: true });
  await expect.poll(() => files.count(), WAIT).toBe(0);
  await expectTyped(tab, 'my own words');
});

it('X1 a new answer to the message that was gone back to leaves nothing to undo, also without the stream of events', async () => {
  const tab = await site.visit();
  await said(tab, 'before it');
  await tab.send('fail first');
  const retry = tab.button('Retry');
  await retry.waitFor();
  await tab.idle();
  await tab.button('Go back here').last().click();
  await expectShown(tab.page, [...answered('before it'), 'fail first'], { isGoneBack: true });
  // Asked for, and never answered.
  await tab.page.route('**/events', () => {});
  await tab.page.reload();
  await expectShown(tab.page, [...answered('before it'), 'fail first'], { isGoneBack: true });
  await retry.click();
  await expectShown(tab.page, [...answered('before it'), 'fail first', 'answer 2 to fail first'], {
    isGoneBack: false,
  });
});

it('X1 W7 a change ends the answer in flight and keeps the queue, which one that does not arrive leaves as it is', async () => {
  held = Promise.withResolvers();
  const tab = await site.visit({ allowedErrors: /ERR_FAILED/ });
  await said(tab, 'begin');
  await tab.send('hold on');
  await tab.answers.getByText('answer 1', { exact: true }).waitFor();
  await tab.send('then');
  const waiting = tab.page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem');
  await waiting.getByText('Queued').waitFor();
  const letThrough = await tab.cutOff();
  await tab.button('Answer again').first().click();
  await tab.page.getByRole('alert').getByText('The server cannot be reached.').waitFor();
  await expectShown(tab.page, [...answered('begin'), 'hold on', 'answer 1'], { isGoneBack: false });
  await waiting.getByText('Queued').waitFor();
  letThrough();
  await tab.button('Edit').first().click();
  await tab.page.getByLabel('Changed message').fill('begin anew');
  await tab.page.keyboard.press('Enter');
  await expectShown(tab.page, answered('begin anew', 'then'), { isGoneBack: false });
  expect(await waiting.count()).toBe(0);
  held.resolve();
});

it('X10 W7 what a change drops from the queue is sent again with the model that it was sent with', async () => {
  held = Promise.withResolvers();
  const tab = await site.visit();
  await said(tab, 'ahead');
  await tab.send('hold this');
  await tab.answers.getByText('answer 1', { exact: true }).waitFor();
  const picker = tab.page.getByLabel('Model');
  await picker.selectOption('openai/plain');
  await tab.send('with plain');
  await picker.selectOption('openai/sees');
  await tab.page.getByRole('list', { name: 'Waiting messages' }).getByText('Queued').waitFor();
  await tab.button('Edit').first().click();
  await tab.page.getByLabel('Changed message').fill('ahead, changed');
  await tab.page.keyboard.press('Enter');
  await expectShown(tab.page, answered('ahead, changed', 'with plain'), { isGoneBack: false });
  const asked = site.runtime.model.requests.filter(({ body }) => /changed|plain/.test(lastUserText(body)));
  expect(asked.map(({ body }) => body.model)).toEqual(['sees', 'plain']);
  held.resolve();
});

it.each(['Edit', 'Answer again'])('X1 W7 %s whose response is lost loses nothing of the queue', async (action) => {
  held = Promise.withResolvers();
  const tab = await site.visit({ allowedErrors: /ERR_FAILED/ });
  const [start, next] = [`start ${action}`, `next ${action}`];
  await said(tab, start);
  await tab.send('hold for it');
  await tab.answers.getByText(/^answer \d$/).waitFor();
  await tab.send(next);
  const waiting = tab.page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem');
  await waiting.getByText('Queued').waitFor();
  await tab.page.route('**/api/chat', async (route) => {
    await route.fetch();
    await route.abort();
  });
  await tab.button(action).first().click();
  if (action === 'Edit') {
    await tab.page.getByLabel('Changed message').fill(`${start}, changed`);
    await tab.page.keyboard.press('Enter');
  }
  const shown =
    action === 'Edit' ? answered(`${start}, changed`, next) : [start, `answer 2 to ${start}`, ...answered(next)];
  await expectShown(tab.page, shown, { isGoneBack: false });
  expect(await waiting.count()).toBe(0);
  held.resolve();
});

it('X1 a change that does not reach the server is kept in its form, and what was answered stays', async () => {
  const tab = await site.visit({ allowedErrors: /ERR_FAILED/ });
  await said(tab, 'ping', 'pong');
  const letThrough = await tab.cutOff();
  await tab.button('Answer again').last().click();
  await tab.page.getByRole('alert').getByText('The server cannot be reached.').waitFor();
  await expectShown(tab.page, answered('ping', 'pong'), { isGoneBack: false });
  await tab.button('Dismiss').click();
  await tab.button('Edit').first().click();
  const form = tab.page.getByLabel('Changed message');
  await form.fill('a better ping');
  await form.press('Enter');
  await tab.page.getByRole('alert').getByText('The server cannot be reached.').waitFor();
  expect(await form.inputValue()).toBe('a better ping');
  await expectShown(tab.page, answered('ping', 'pong').slice(1), { isGoneBack: false });
  letThrough();
  await form.press('Enter');
  await expectShown(tab.page, answered('a better ping'), { isGoneBack: false });
});
