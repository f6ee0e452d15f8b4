// Many visible windows of one browser, which has six HTTP/1.1 connections to the host.
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';

/** Each answer goes on when the test lets it; `stop` never does. */
let rest: PromiseWithResolvers<void>;
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
  site.runtime.model.script(async function* (request) {
    const text = lastUserText(request);
    yield say(`You said ${text}`);
    if (text.endsWith('stop')) yield hang();
    await rest.promise;
    yield say('.');
  });
});

function hold(): void {
  const held = Promise.withResolvers<void>();
  rest = held;
  onTestFinished(() => held.resolve());
}

async function begins(tab: Tab, text: string): Promise<void> {
  await tab.send(text);
  await tab.answers.getByText(`You said ${text}`, { exact: true }).waitFor();
}

async function windows(count: number): Promise<[Tab, ...Tab[]]> {
  const tabs: [Tab, ...Tab[]] = [await site.visit()];
  while (tabs.length < count) tabs.push(await tabs[0].another());
  return tabs;
}

it('S6 R4 ten windows show their answers as they grow, Stop in the last one arrives, and an eleventh is loaded', async () => {
  hold();
  const tabs = await windows(10);
  for (const [at, tab] of tabs.entries()) await begins(tab, at === 9 ? '9 stop' : String(at));
  // All at once, over one connection.
  await eventually(async () => expect(await site.host.openStreams('multiplex', 'chat', 'events')).toEqual([1, 10, 10]));
  await tabs[9]!.button('Stop').click();
  await tabs[9]!.idle();
  const eleventh = await tabs[0].another();
  await begins(eleventh, 'the eleventh');

  // Those that are closed, or crash, are read no more; the others go on.
  await tabs[4]!.page.close();
  await crash(tabs[5]!);
  await eventually(async () => expect(await site.host.openStreams('multiplex', 'chat', 'events')).toEqual([1, 8, 9]));
  rest.resolve();
  for (const at of [0, 1, 2, 3, 6, 7, 8]) await tabs[at]!.answers.getByText(`You said ${at}.`).waitFor();
  await eleventh.answers.getByText('You said the eleventh.').waitFor();
  for (const tab of tabs.filter((_tab, at) => at !== 4 && at !== 5)) await tab.idle();
});

async function crash({ page }: Tab): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const crashed = page.waitForEvent('crash');
  session.send('Page.crash').catch(() => {});
  await crashed;
}

it('R2 if the worker that holds the connection dies, the windows go on, with another one', async () => {
  hold();
  const [one, two] = await windows(2);
  await begins(one, 'one');
  await begins(two!, 'two');
  const session = await site.browser.newBrowserCDPSession();
  const { targetInfos } = await session.send('Target.getTargets');
  const workers = targetInfos.filter(({ type }) => type === 'shared_worker');
  expect(workers).toHaveLength(1);
  await session.send('Target.closeTarget', { targetId: workers[0]!.targetId });
  await eventually(async () => expect(await site.host.openStreams('multiplex', 'chat', 'events')).toEqual([1, 2, 2]));
  rest.resolve();
  await one.answers.getByText('You said one.').waitFor();
  await two!.answers.getByText('You said two.').waitFor();
});

it.each([
  ['has no shared workers', 'delete globalThis.SharedWorker'],
  ['refuses them', 'globalThis.SharedWorker = class { constructor() { throw new Error("refused") } }'],
  [
    'cannot load them',
    'const Own = SharedWorker; globalThis.SharedWorker = class extends Own { constructor() { super("/none.js"); } }',
  ],
  ['refuses locks', 'if (navigator.locks) navigator.locks.request = () => Promise.reject(new Error("refused"))'],
  // The page waits for 3 s.
  [
    'waits for them in vain',
    'const own = setTimeout; globalThis.setTimeout = (run, ms, ...more) => own(run, ms === 3000 ? 0 : ms, ...more)',
  ],
  ['speaks HTTP/2', 'performance.getEntriesByType = () => [{ nextHopProtocol: "h2" }]'],
])('S6 three windows of a browser that %s have connections of their own', async (_what, script) => {
  hold();
  const first = await site.visit();
  await first.page.context().addInitScript(script);
  await first.page.reload();
  const tabs = [first, await first.another(), await first.another()];
  rest.resolve();
  for (const [at, tab] of tabs.entries()) {
    await tab.send(String(at));
    await tab.answers.getByText(`You said ${at}.`).waitFor();
    await tab.idle();
  }
  await begins(tabs[2]!, 'again stop');
  await tabs[2]!.button('Stop').click();
  await tabs[2]!.idle();
  // Not that of the page before it was loaded again.
  await eventually(async () => expect(await site.host.openStreams('multiplex', 'events')).toEqual([0, 3]));
});
