// The user's sessions beside the conversation: what is listed, found, renamed, archived and deleted, and the links to them.
import { beforeAll, describe, expect, it } from 'vitest';
import { isFocused, NARROW } from '../../tools/test-kit/accessible.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { fail, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ settings: { providerAttempts: 1 } });
  site.runtime.model.script((asked) => {
    const text = lastUserText(asked);
    if (text.startsWith('fail')) return [fail(401)];
    return [say(`Heard: ${text}, and rhubarb.${text.startsWith('long') ? '\n\nAnd so on.'.repeat(50) : ''}`)];
  });
});

async function said(tab: Tab, text: string): Promise<void> {
  await tab.send(text);
  await tab.answers.getByText(`Heard: ${text}`).last().waitFor();
  await tab.idle();
}

/** A request of the tab's user beside the page. */
async function request(tab: Tab, method: 'GET' | 'POST' | 'DELETE', path: string, data?: object) {
  const answer = await tab.page.context().request.fetch(`${site.host.url}/api${path}`, {
    method,
    ...(data && { data }),
  });
  return { status: answer.status(), body: (await answer.text()) || 'null' };
}

const names = (tab: Tab) => tab.sessions.locator('.session .name').allInnerTexts();
const search = (tab: Tab) => tab.page.getByRole('searchbox', { name: 'Search sessions' });
const menu = (tab: Tab) => tab.page.getByRole('menu');
const realId = async (tab: Tab) =>
  (await tab.ask<{ session: { session_id: string } }>(await tab.sessionId())).session.session_id;

describe('the list of sessions', () => {
  it('H8 is empty at first, then names each session; one is renamed, and named by its first message again', async () => {
    const tab = await site.visit();
    await tab.sessions.getByText('No sessions yet.').waitFor();
    await tab.page.getByRole('heading', { name: 'New chat', level: 1 }).waitFor();
    await said(tab, 'owls');
    await expect.poll(() => names(tab), WAIT).toEqual(['owls']);

    await tab.choose('owls', 'Rename');
    const dialog = tab.page.getByRole('dialog', { name: 'Rename the session' });
    await dialog.getByLabel('Title').fill('  The owl site ');
    await tab.page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => names(tab), WAIT).toEqual(['The owl site']);
    await tab.page.getByRole('heading', { name: 'The owl site', level: 1 }).waitFor();
    const { title } = await tab.ask<{ title: string }>(await tab.sessionId());
    expect(title).toBe('The owl site');

    await tab.choose('The owl site', 'Rename');
    await dialog.getByLabel('Title').fill('');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => names(tab), WAIT).toEqual(['owls']);
  });

  it('H8 what is written after “New chat” is for the new session, however slow the browser is', async () => {
    const tab = await site.visit();
    await said(tab, 'plain');
    await tab.page.evaluate(() => (navigator.locks.request = () => new Promise(() => {})));
    await tab.button('New chat').click();
    await said(tab, 'next');
    await expect.poll(() => names(tab), WAIT).toEqual(['next', 'plain']);
  });

  it('H8 a renaming that was cancelled while it was under way closes no other dialog', async () => {
    const tab = await site.visit();
    await said(tab, 'slow');
    await tab.button('New chat').click();
    await said(tab, 'next');
    const { promise: mayGoOn, resolve: goOn } = Promise.withResolvers<void>();
    await tab.page.route('**/rename', async (route) => {
      await mayGoOn;
      await route.continue();
    });
    const dialog = tab.page.getByRole('dialog', { name: 'Rename the session' });
    await tab.choose('slow', 'Rename');
    await dialog.getByLabel('Title').fill('renamed');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    await tab.choose('next', 'Rename');
    await dialog.getByLabel('Title').fill('half a title');
    goOn();
    // The list is hidden from screen readers while the dialog is open.
    await tab.page.locator('.session .name', { hasText: 'renamed' }).waitFor();
    expect(await dialog.getByLabel('Title').inputValue()).toBe('half a title');
  });

  it('H8 archives a session and takes that back, from the message and from the list of archived ones', async () => {
    const tab = await site.visit();
    await said(tab, 'tea');
    await tab.choose('tea', 'Archive');
    await tab.page.getByText('“tea” is archived.').waitFor();
    await tab.row('tea').waitFor({ state: 'detached' });
    const { chat } = await tab.ask<{ chat: { archived_at: string | null } }>(await tab.sessionId());
    expect(chat.archived_at).not.toBeNull();
    await tab.button('Undo').click();
    await tab.row('tea').waitFor();

    await tab.choose('tea', 'Archive');
    await tab.row('tea').waitFor({ state: 'detached' });
    await tab.sessions.getByText('Archived', { exact: true }).click();
    await tab.button('Put back: tea').click();
    await tab.row('tea').getByRole('button', { name: 'More' }).waitFor();
    await tab.sessions.getByText('Nothing is archived.').waitFor();
  });

  it('H8 T9 deletes a session only once that is confirmed, also the one that is shown', async () => {
    const tab = await site.visit({ allowedErrors: /status of 404/ });
    await said(tab, 'first');
    const first = await realId(tab);
    await tab.button('New chat').click();
    await said(tab, 'second');

    await tab.choose('first', 'Delete');
    const dialog = tab.page.getByRole('alertdialog', { name: 'Delete “first”?' });
    await dialog.getByText('This cannot be undone.').waitFor();
    expect(await isFocused(dialog.getByRole('button', { name: 'Keep it' }))).toBe(true);
    await tab.page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect((await request(tab, 'GET', `/sessions/${first}`)).status).toBe(200);

    await tab.choose('first', 'Delete');
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await tab.row('first').waitFor({ state: 'detached' });
    expect((await request(tab, 'GET', `/sessions/${first}`)).status).toBe(404);

    const before = await tab.sessionId();
    await tab.choose('second', 'Delete');
    await tab.button('Delete').click();
    await tab.page.getByText('Say what you want').waitFor();
    await tab.sessions.getByText('No sessions yet.').waitFor();
    expect(await tab.sessionId()).not.toBe(before);
    await said(tab, 'third');
  });

  it('H8 X4 shows branches under their parent, and no side chats', async () => {
    const tab = await site.visit();
    await said(tab, 'root');
    await tab.button('Branch here').last().click();
    await tab.page.getByRole('link', { name: 'open it in another tab' }).waitFor();
    const opened = await request(tab, 'POST', '/sessions', { metadata: { ephemeral: true, title: 'aside' } });
    expect(opened.status).toBe(201);
    const branches = tab.sessions.getByRole('list', { name: 'Branches of root' }).getByRole('listitem');
    await expect.poll(() => branches.count(), WAIT).toBe(1);
    expect(await names(tab)).toEqual(['root', 'root']);
  });

  it('R5 H8 says that a session was stopped by an error', async () => {
    const tab = await site.visit();
    await tab.send('fail now');
    await tab.row('fail now').getByText('stopped by an error').waitFor();
  });

  it('H8 that cannot be read says so, and tries again on request', async () => {
    let isOff = true;
    const tab = await site.visit({ allowedErrors: /status of 503/, at: '/favicon.svg' });
    let tries = 0;
    await tab.page.route('**/api/rendezvous', (route) => {
      tries += 1;
      return isOff ? route.fulfill({ status: 503 }) : route.continue();
    });
    await tab.page.goto(site.host.url);
    await tab.sessions.getByText('Your sessions cannot be listed right now.').waitFor();
    const before = tries;
    isOff = false;
    await tab.button('Try again').click();
    await tab.sessions.getByText('No sessions yet.').waitFor();
    expect(tries).toBeGreaterThan(before);
  });
});

describe('the search', () => {
  it('H8 finds sessions by title and messages by their words, which are marked; not those of side chats', async () => {
    const tab = await site.visit();
    await said(tab, 'a pie with apples');
    await tab.button('New chat').click();
    await said(tab, 'cake');
    const { body } = await request(tab, 'POST', '/sessions', { metadata: { ephemeral: true } });
    const { session } = JSON.parse(body) as { session: { session_id: string } };
    await request(tab, 'POST', `/sessions/${session.session_id}/messages`, { id: 'm1', text: 'apples, aside' });
    await eventually(async () => {
      const hits = JSON.parse((await request(tab, 'GET', '/search?q=aside')).body) as { items: unknown[] };
      expect(hits.items.length).toBeGreaterThan(0);
    });

    await search(tab).fill('apples');
    const messages = tab.sessions.getByRole('list', { name: 'Messages' }).getByRole('listitem');
    await expect.poll(() => messages.locator('mark').allInnerTexts(), WAIT).toEqual(['apples', 'apples']);
    expect(await messages.locator('.name').allInnerTexts()).toEqual(['a pie with apples', 'a pie with apples']);
    const named = tab.sessions.getByRole('list', { name: 'Sessions of this name' }).locator('.name');
    expect(await named.allInnerTexts()).toEqual(['a pie with apples']);
    await messages.first().getByRole('link').click();
    await tab.answers.getByText('Heard: a pie').waitFor();

    await search(tab).fill('kohlrabi');
    await tab.sessions.getByText('Nothing is found.').waitFor();
    await search(tab).press('Escape');
    await tab.row('cake').waitFor();
  });

  it('H8 T6 leads to a message in a conversation that does not scroll, which follows new answers as before', async () => {
    const tab = await site.visit();
    await said(tab, 'quinces');
    await search(tab).fill('"Heard: quinces"');
    await tab.sessions.getByRole('list', { name: 'Messages' }).getByRole('link').click();
    await tab.page.locator('[data-linked]').getByText('Heard: quinces').waitFor();
    const path = `/sessions/${await tab.sessionId()}/messages`;
    expect((await request(tab, 'POST', path, { id: 'm2', text: 'long' })).status).toBe(202);
    await tab.answers.getByText('Heard: long').waitFor();
    await tab.idle();
    const main = tab.page.getByRole('main');
    expect(await main.evaluate((outer) => outer.scrollHeight - outer.clientHeight)).toBeGreaterThan(500);
    const below = () => main.evaluate((outer) => outer.scrollHeight - outer.clientHeight - outer.scrollTop);
    await expect.poll(below, WAIT).toBeLessThan(48);
    expect(await tab.button('Jump to the latest').count()).toBe(0);
  });

  it('H8 T6 marks the messages that the conversation does not show any more', async () => {
    const tab = await site.visit();
    await said(tab, 'gooseberries');
    await said(tab, 'medlars');
    await tab.button('Go back here').last().click();
    await tab.page.getByText('Heard: medlars').waitFor({ state: 'detached' });
    await search(tab).fill('gooseberries or medlars');
    const hits = tab.sessions.getByRole('list', { name: 'Messages' }).getByRole('listitem');
    await expect.poll(() => hits.count(), WAIT).toBe(4);
    const hidden = hits.filter({ hasText: 'Hidden or summarized' });
    expect(await hidden.locator('mark').allInnerTexts()).toEqual(['medlars']);
    await tab.expectAccessible();
  });

  it('H8 that fails says why, and is repeated on request', async () => {
    const tab = await site.visit({ allowedErrors: /status of 503/ });
    await said(tab, 'plum');
    await tab.page.route('**/api/search?*', (route) => route.fulfill({ status: 503 }), { times: 1 });
    await search(tab).fill('rhubarb');
    await tab.sessions.getByRole('alert').getByText('The server cannot do that right now.').waitFor();
    await tab.button('Try again').click();
    await tab.sessions.locator('mark', { hasText: 'rhubarb' }).waitFor();
  });
});

describe('a link to a session', () => {
  it('H8 S6 shows it in any tab of the user, whose own sessions stay; back and forward work', async () => {
    const tab = await site.visit();
    await said(tab, 'linked');
    const id = await realId(tab);
    const other = await tab.another();
    await said(other, 'of the other tab');
    const own = await other.sessionId();
    await other.page.goto(`${site.host.url}/s/${id}`);
    await other.answers.getByText('Heard: linked').waitFor();
    await other.page.reload();
    await other.answers.getByText('Heard: linked').waitFor();
    await other.row('of the other tab').getByRole('link').click();
    await other.answers.getByText('Heard: of the other tab').waitFor();
    expect(await other.sessionId()).toBe(own);
    await other.page.goBack();
    await other.answers.getByText('Heard: linked').waitFor();
    await other.page.goForward();
    await other.answers.getByText('Heard: of the other tab').waitFor();

    await tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await tab.choose('linked', 'Copy link');
    await tab.page.getByText('The link is copied.').waitFor();
    expect(await tab.page.evaluate(() => navigator.clipboard.readText())).toBe(`${site.host.url}/s/${id}`);
  });

  it('H8 to a deleted session, another user’s or none says so, and offers the list', async () => {
    const owner = await site.visit();
    await said(owner, 'private');
    const foreign = await realId(owner);
    const tab = await site.visit({ allowedErrors: /status of 404/ });
    await said(tab, 'mine');
    const own = await realId(tab);
    for (const path of [`/s/${foreign}`, '/s/ses_nothing', '/s/%25%00']) {
      await tab.page.goto(site.host.url + path);
      await tab.page.getByText('This link leads to no conversation of yours.').waitFor();
      expect(await tab.page.content()).not.toContain('private');
    }
    await tab.expectAccessible();
    await tab.button('Find a session').click();
    await expect.poll(() => isFocused(search(tab)), WAIT).toBe(true);
    await tab.row('mine').getByRole('link').click();
    await tab.answers.getByText('Heard: mine').waitFor();

    // It is deleted elsewhere while it is shown.
    await tab.page.goto(`${site.host.url}/s/${own}`);
    await tab.answers.getByText('Heard: mine').waitFor();
    expect((await request(tab, 'DELETE', `/sessions/${own}`)).status).toBe(204);
    await tab.page.getByText('This link leads to no conversation of yours.').waitFor();
    await tab.page.reload();
    await tab.page.getByText('This link leads to no conversation of yours.').waitFor();
    await tab.page.getByRole('main').getByRole('button', { name: 'New chat' }).click();
    await said(tab, 'something new');
    expect(new URL(tab.page.url()).pathname).toBe('/');
  });
});

describe('the sidebar', () => {
  it('H8 is a drawer on a phone, which closes when a session is chosen', async () => {
    const tab = await site.visit({ viewport: NARROW, hasTouch: true, isMobile: true });
    await said(tab, 'one');
    await tab.button('Show the sessions').tap();
    await tab.button('New chat').tap();
    await tab.page.getByText('Say what you want').waitFor();
    await tab.sessions.waitFor({ state: 'detached' });
    await said(tab, 'two');
    await tab.button('Show the sessions').tap();
    const drawer = tab.page.getByRole('dialog', { name: 'Sessions' });
    await drawer.waitFor();
    await tab.row('one').waitFor();
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(NARROW.width);
    await settled(tab);
    await tab.expectAccessible();
    await tab.row('one').getByRole('link').tap();
    await drawer.waitFor({ state: 'detached' });
    await tab.answers.getByText('Heard: one').waitFor();
    await tab.button('Show the sessions').tap();
    await tab.page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'detached' });
  });

  it('H8 can be hidden, which the browser remembers', async () => {
    const tab = await site.visit();
    await tab.button('Hide the sessions').click();
    await tab.sessions.waitFor({ state: 'detached' });
    await tab.page.reload();
    await tab.button('Show the sessions').click();
    await tab.sessions.waitFor();
    await tab.page.reload();
    await tab.sessions.waitFor();
  });

  it('H8 is used with the keyboard alone, by shortcuts that a dialog lists', async () => {
    const tab = await site.visit();
    const { keyboard } = tab.page;
    const field = tab.page.getByLabel('Message', { exact: true });
    await said(tab, 'north');
    await keyboard.press('Control+Shift+o');
    await tab.page.getByText('Say what you want').waitFor();
    await expect.poll(() => isFocused(field), WAIT).toBe(true);
    await said(tab, 'south');
    await tab.row('south').waitFor();
    // The list may hear later than the chat that the answer is over.
    await expect.poll(() => tab.row('south').getByRole('button', { name: 'Stop' }).count(), WAIT).toBe(0);

    await keyboard.press('Control+k');
    await expect.poll(() => isFocused(search(tab)), WAIT).toBe(true);
    await keyboard.press('ArrowDown');
    await keyboard.press('ArrowDown');
    expect(await isFocused(tab.row('north').getByRole('link'))).toBe(true);
    await keyboard.press('ArrowUp');
    expect(await isFocused(tab.row('south').getByRole('link'))).toBe(true);
    await keyboard.press('Tab');
    await keyboard.press('Enter');
    await menu(tab).waitFor();
    await keyboard.press('Escape');
    await menu(tab).waitFor({ state: 'detached' });
    expect(await isFocused(tab.row('south').getByRole('button', { name: 'More' }))).toBe(true);

    const dialog = tab.page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await keyboard.press('?');
    await dialog.getByText('Start a new chat').waitFor();
    await dialog.getByLabel('The key ? alone opens this').uncheck();
    await keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await keyboard.press('?');
    await keyboard.press('Control+/');
    await dialog.waitFor();
    expect(await dialog.count()).toBe(1);
    await keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await keyboard.press('Control+b');
    await tab.sessions.waitFor({ state: 'detached' });
    await keyboard.press('Control+b');
    await tab.sessions.waitFor();
    await keyboard.press('Shift+Escape');
    await expect.poll(() => isFocused(field), WAIT).toBe(true);
    await keyboard.type('?');
    expect(await field.inputValue()).toBe('?');
  });

  it('H8 is accessible in light, dark and high contrast: list, menu, question', async () => {
    const tab = await site.visit();
    await said(tab, 'plain');
    await tab.button('Branch here').last().click();
    await expect.poll(() => names(tab), WAIT).toEqual(['plain', 'plain']);
    await tab.button('New chat').click();
    await tab.send('fail here');
    await tab.row('fail here').getByText('stopped by an error').waitFor();
    await expectAccessible(tab, { colorScheme: 'light', contrast: 'more' }, { colorScheme: 'dark' });
    await expectAccessible(tab);
    await tab.row('fail here').getByRole('button', { name: 'More' }).click();
    await menu(tab).waitFor();
    await expectAccessible(tab);
    await tab.page.getByRole('menuitem', { name: 'Delete' }).click();
    await tab.page.getByRole('alertdialog').waitFor();
    await expectAccessible(tab);
  });

  it('H8 is accessible in light and in dark high contrast: dialogs, messages, search', async () => {
    const tab = await site.visit();
    await said(tab, 'plain');
    await tab.choose('plain', 'Rename');
    await tab.page.getByRole('dialog').waitFor();
    await expectAccessible(tab);
    await tab.button('Cancel').click();
    await tab.choose('plain', 'Archive');
    await tab.button('Undo').waitFor();
    await expectAccessible(tab);
    await search(tab).fill('rhubarb');
    await tab.sessions.locator('mark').first().waitFor();
    await expectAccessible(tab);
    await tab.page.keyboard.press('Control+/');
    await tab.page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await expectAccessible(tab);
  });
});

interface Media {
  colorScheme: 'light' | 'dark';
  contrast?: 'more';
}

/** Expects no accessibility violation with any of these settings. */
async function expectAccessible(tab: Tab, ...media: Media[]): Promise<void> {
  const checked: Media[] =
    media.length > 0 ? media : [{ colorScheme: 'light' }, { colorScheme: 'dark', contrast: 'more' }];
  for (const each of checked) {
    await tab.page.emulateMedia({ contrast: 'no-preference', ...each, reducedMotion: 'reduce' });
    await settled(tab);
    await tab.expectAccessible();
  }
}

/** Waits for transitions, whose colours are between two. */
async function settled(tab: Tab): Promise<void> {
  await tab.page.evaluate(() => Promise.all(document.getAnimations().map((each) => each.finished.catch(() => {}))));
}
