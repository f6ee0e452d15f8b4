// Files in the chat page: picked, pasted and dropped, uploaded, sent and shown.
import type { Response } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';

const file = (name: string, mimeType: string, content: string | Buffer) => ({
  name,
  mimeType,
  buffer: Buffer.from(content as string),
});
const dot = file('dot.png', 'image/png', Buffer.from(PIXEL, 'base64'));

let site: TestSite;
beforeAll(async () => {
  site = await startSite({});
  site.runtime.model.script(() => [say('I see.')]);
});

const files = (tab: Tab) => tab.page.getByRole('list', { name: 'Files of the message' }).getByRole('listitem');
const pick = (tab: Tab, ...picked: ReturnType<typeof file>[]) =>
  tab.page.getByLabel('Files to attach', { exact: true }).setInputFiles(picked);

/** Gives the page a text file as the browser does when a user drops or pastes it. */
async function give(tab: Tab, kind: 'drop' | 'paste', name: string): Promise<void> {
  await tab.page.evaluate(
    ([event, named]) => {
      const data = new DataTransfer();
      data.items.add(new File([`one,two,${named}`], named!, { type: 'text/csv' }));
      const common = { bubbles: true, cancelable: true };
      const given =
        event === 'drop'
          ? new DragEvent('drop', { ...common, dataTransfer: data })
          : new ClipboardEvent('paste', { ...common, clipboardData: data });
      document.querySelector('main')!.dispatchEvent(given);
      if (!given.defaultPrevented) throw new Error('the browser would open the file');
    },
    [kind, name],
  );
}

it('T10 H8 what is copied from a document or spreadsheet is pasted as text, and a copied picture or file is attached', async () => {
  const tab = await site.visit();
  await tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const field = tab.page.getByLabel('Message', { exact: true });
  const copy = (text: string | null) =>
    tab.page.evaluate(
      async ([words, pixel]) => {
        const bytes = Uint8Array.from(atob(pixel), (character) => character.codePointAt(0)!);
        const content = {
          'image/png': new Blob([bytes], { type: 'image/png' }),
          ...(words !== null && { 'text/plain': new Blob([words], { type: 'text/plain' }) }),
        };
        await navigator.clipboard.write([new ClipboardItem(content)]);
      },
      [text, PIXEL] as const,
    );
  await copy('one\ttwo');
  await field.press('ControlOrMeta+v');
  await expect.poll(() => field.inputValue()).toBe('one\ttwo');
  expect(await files(tab).count()).toBe(0);
  await copy(null);
  await field.press('ControlOrMeta+v');
  await eventually(async () => expect(await files(tab).count()).toBe(1));
  await copy('image.png');
  await field.press('ControlOrMeta+v');
  await eventually(async () => expect(await files(tab).count()).toBe(2));
  expect(await field.inputValue()).toBe('one\ttwo');
});

it('T10 files are picked, dropped and pasted, sent with the message, and shown, also after a reload', async () => {
  const tab = await site.visit();
  await pick(tab, dot);
  await give(tab, 'drop', 'dropped.csv');
  await give(tab, 'paste', 'pasted.csv');
  await eventually(async () => expect(await files(tab).count()).toBe(3));
  // An image without words of its own: the name stands beside it.
  await files(tab).locator('img').waitFor();
  const ready = files(tab).and(tab.page.locator('[data-state=ready]'));
  await eventually(async () => expect(await ready.count()).toBe(3));
  await tab.expectAccessible();
  await tab.page.getByLabel('Remove pasted.csv').click();
  const before = site.runtime.model.requests.length;
  await tab.send('What is this?');
  await tab.answers.getByText('I see.').waitFor();
  const sent = JSON.stringify(site.runtime.model.requests[before]!.body.messages.at(-1));
  expect(sent).toContain(`data:image/png;base64,${PIXEL}`);
  expect(sent).toContain('one,two');
  expect(sent).not.toContain('pasted.csv');
  expect(await files(tab).count()).toBe(0);
  await tab.conversation.getByRole('img', { name: 'dot.png' }).waitFor();
  await tab.page.reload();
  await tab.conversation.getByRole('img', { name: 'dot.png' }).waitFor();
  const downloading = tab.page.waitForEvent('download');
  await tab.button('Download dropped.csv').click();
  expect((await downloading).suggestedFilename()).toBe('dropped.csv');
  await tab.expectAccessible();
});

it('T10 a message may consist of a file, and one that is being uploaded holds it back', async () => {
  const tab = await site.visit();
  const { promise, resolve } = Promise.withResolvers<void>();
  await tab.page.route('**/attachments?*', async (route) => {
    await promise;
    await route.continue();
  });
  await pick(tab, dot);
  await tab.page.getByRole('progressbar', { name: 'Uploading dot.png' }).waitFor();
  expect(await tab.button('Send').isDisabled()).toBe(true);
  resolve();
  await tab.page.locator('.uploads [data-state=ready]').waitFor();
  await tab.button('Send').click();
  await tab.answers.getByText('I see.').waitFor();
});

it('T10 a file that is refused says why, and one that did not arrive can be tried again', async () => {
  const tab = await site.visit({ allowedErrors: /400|ERR_FAILED/ });
  await pick(tab, file('a.zip', 'application/zip', Buffer.from([0x50, 0x4b, 0x03, 0x04, 0xff, 0])));
  await tab.page.getByRole('alert').getByText('expected a PNG, JPEG, GIF or WebP image').waitFor();
  expect(await tab.button('Send').isDisabled()).toBe(true);
  await tab.page.getByLabel('Remove a.zip').click();
  const reconnect = await tab.cutOff();
  await pick(tab, dot);
  await tab.page.getByRole('alert').getByText('The server cannot be reached.').waitFor();
  reconnect();
  await tab.button('Try again').click();
  await tab.page.locator('.uploads [data-state=ready]').waitFor();
  await tab.send('Now?');
  await tab.answers.getByText('I see.').waitFor();
});

it('H3 a new visitor is one user, whatever the page asks for at first', async () => {
  const context = await site.browser.newContext();
  const users = new Set<string | null>();
  const answered: Promise<void>[] = [];
  const note = (response: Response) => {
    answered.push(response.headerValue('set-cookie').then((cookie) => void users.add(cookie)));
  };
  context.on('response', note);
  const page = await context.newPage();
  await page.goto(site.host.url);
  await page.getByLabel('Message', { exact: true }).waitFor();
  await page.waitForLoadState('load');
  await eventually(() => expect(answered.length).toBeGreaterThan(5));
  // Later responses have no headers to read when the context is closed.
  context.off('response', note);
  await Promise.all(answered);
  expect([...users].filter((cookie) => cookie !== null)).toHaveLength(1);
  await context.close();
});
