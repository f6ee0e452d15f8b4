import { SignJWT } from 'jose';
import { beforeAll, expect, it } from 'vitest';
import { REHEARSAL_MODEL } from '../../agent/scripted/rehearsal-model.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { tokenUser } from '../../host/auth/token-user.ts';
import type { Identify } from '../../host/context.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';

const SECRET = 'a secret of at least thirty-two bytes';
const NEXT_SECRET = 'the next secret, of thirty-two bytes and more';

let site: TestSite;
/** A token that the host accepts. */
let current: Identify;
beforeAll(async () => {
  site = await startSite({
    agents: [{ ...siteBuilder, model: REHEARSAL_MODEL }],
    identify: (request) => current(request),
  });
});

function tokenOf(user: string, secret: string, expiry = '5m'): Promise<string> {
  const claims = new SignJWT({ sub: user }).setProtectedHeader({ alg: 'HS256' }).setExpirationTime(expiry);
  return claims.sign(new TextEncoder().encode(secret));
}

it('H3 the page asks for a token, again if it is refused, and keeps unsent messages and typed text', async () => {
  current = tokenUser({ secret: SECRET });
  const tab = await site.visit({ allowedErrors: /status of 401/, viewport: { width: 1280, height: 800 } });
  const { page } = tab;
  const addresses: string[] = [];
  page.context().on('request', (request) => addresses.push(request.url()));
  const enter = async (token: string) => {
    await page.getByLabel(/access token/).fill(token);
    await tab.button('Enter').click();
  };
  const field = page.getByLabel('Message', { exact: true });

  await tab.send('build a site about owls');
  await page.getByText('Not sent yet: The server requires a token.').waitFor();
  await field.fill('half a message');
  await enter(await tokenOf('ada', NEXT_SECRET));
  await page.getByText('This token is wrong or has expired.').waitFor();
  await tab.expectAccessible();
  const token = await tokenOf('ada', SECRET);
  await enter(token);
  await tab.answers.getByText('The site is built').waitFor();
  await tab.inPhase('Verifying');
  await page.frameLocator('iframe').getByRole('heading', { name: 'A site about owls' }).waitFor();
  expect(await field.inputValue()).toBe('half a message');

  await page.reload();
  await tab.answers.getByText('The site is built').waitFor();
  expect(await page.evaluate(() => [document.cookie, localStorage.length, location.href])).toEqual([
    '',
    0,
    `${site.host.url}/`,
  ]);
  expect(addresses.filter((address) => address.includes(token))).toEqual([]);

  // The secret has changed, so the page's token is no longer valid.
  current = tokenUser({ secret: NEXT_SECRET });
  await tab.send('build one about cats');
  await page.getByText('This token is wrong or has expired.').waitFor();
  await page.getByText('Not sent yet').waitFor();
  await enter(await tokenOf('ada', NEXT_SECRET));
  await tab.page.locator('article.user').getByText('build one about cats').waitFor();
  await page.getByText('Not sent yet').waitFor({ state: 'detached' });
  await tab.idle();

  const panel = await tab.another();
  await panel.page.getByLabel(/access token/).fill(await tokenOf('eve', NEXT_SECRET));
  await panel.button('Enter').click();
  await panel.page.getByText('No sessions yet.').waitFor();
  // A connection for the windows of each token in use.
  await eventually(async () => expect(await site.host.openStreams('multiplex')).toEqual([2]));
});

it('H3 the page asks for another token when its token expires, and then reads what it missed', async () => {
  current = tokenUser({ secret: SECRET });
  const tab = await site.visit({ allowedErrors: /status of 401/ });
  const { page } = tab;
  const enter = async (expiry: string) => {
    await page.getByLabel(/access token/).fill(await tokenOf('bea', SECRET, expiry));
    await tab.button('Enter').click();
  };
  await enter('1s');
  await tab.send('build a site about bees');
  // Without any user action the page's streams end, and it reconnects.
  await page.getByText('This token is wrong or has expired.').waitFor();
  await enter('5m');
  await tab.answers.getByText('The site is built').waitFor();
  await tab.idle();
});

it('H3 S6 a link to a conversation is followed again once its owner has signed in', async () => {
  current = tokenUser({ secret: SECRET });
  const tab = await site.visit({ allowedErrors: /status of 40[14]/, viewport: { width: 1280, height: 800 } });
  const { page } = tab;
  const enter = async (user: string, secret: string) => {
    await page.getByLabel(/access token/).fill(await tokenOf(user, secret));
    await tab.button('Enter').click();
  };
  await enter('fay', SECRET);
  await tab.send('build a site about newts');
  await tab.answers.getByText('The site is built').waitFor();
  await tab.idle();
  const link = `${site.host.url}/s/${await tab.sessionId()}`;
  await page.evaluate(() => sessionStorage.clear());
  await page.goto(link);
  await enter('gil', SECRET);
  await page.getByText('This link leads to no conversation of yours.').waitFor();
  // The next request is refused, so the page asks again.
  current = tokenUser({ secret: NEXT_SECRET });
  await page.getByRole('searchbox', { name: 'Search sessions' }).fill('newts');
  await enter('fay', NEXT_SECRET);
  await tab.answers.getByText('The site is built').waitFor();
});
