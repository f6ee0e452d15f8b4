import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { REHEARSAL_MODEL } from '../../agent/scripted/rehearsal-model.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { fail, hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { listExecutions } from '../../worker/replay/history.ts';

// The console in a real browser, over sessions of a real worker.

const HTML = '<img src=x onerror="window.ran = true"><script>window.ran = true</script>';

let site: TestSite;
/** What the agent is told; another text makes another prompt. */
let prompt = 'You build sites.';
beforeAll(async () => {
  site = await startSite({ agents: [{ ...siteBuilder, prompt: () => prompt }] });
  site.runtime.model.script((request) => {
    const text = lastUserText(request);
    if (text === 'hang') return [say('words'), hang()];
    return text.includes('<img') ? [fail(400, { message: HTML })] : [say(`You said: ${text}.`)];
  });
});

/** Has messages answered for the user of a new tab, and returns its session. */
async function talked(tab: Tab, texts: readonly string[], model?: string): Promise<string> {
  const context = tab.page.context();
  // The first response makes the tab a user.
  await eventually(async () => expect(await context.cookies()).toHaveLength(1));
  const post = (path: string, data: object) => context.request.post(new URL(path, tab.page.url()).href, { data });
  const { session } = (await (await post('/api/sessions', {})).json()) as {
    session: { session_id: string };
  };
  const { session_id: id } = session;
  for (const [at, text] of texts.entries()) {
    const message = { id: `m${at}`, role: 'user', parts: [{ type: 'text', text }] };
    await post('/api/chat', { id, messages: [message], ...(model && { model }) });
    prompt += '\nAnother line.';
  }
  return id;
}

/** Every variant in which the page is looked at. */
const VARIANTS = [
  { scheme: 'light', size: { width: 1280, height: 800 } },
  { scheme: 'dark', size: { width: 360, height: 740 } },
] as const;

async function expectAccessible(tab: Tab): Promise<void> {
  for (const { scheme, size } of VARIANTS) {
    await tab.page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await tab.page.setViewportSize(size);
    await tab.expectAccessible();
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(size.width);
  }
}

/** Moves the focus by the keyboard until it is on this element. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab');
    if ((await page.evaluate(() => document.activeElement?.textContent)) === name) return;
  }
  throw new Error(`no way to ${name} by the keyboard`);
}

it('W6 the sessions of a user lead to the timeline of one, with its steps, tool calls and their workers', async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  await page.getByText('There are no sessions yet.').waitFor();
  await expectAccessible(tab);
  const id = await talked(tab, ['build a site about owls'], REHEARSAL_MODEL);
  await tab.button('Refresh').click();
  await page.getByRole('link', { name: id }).waitFor();
  await expectAccessible(tab);

  await page.getByRole('link', { name: id }).click();
  const turn = page.getByRole('region', { name: 'Steps and tool calls of turn 1' });
  await turn.getByRole('button', { name: 'write_file' }).waitFor();
  const names = await turn.locator('th[scope=row] button').allTextContents();
  expect(names.slice(0, 6)).toEqual(['Step 1', 'build_and_deploy', 'Step 2', 'write_file', 'Step 3', 'todo_complete']);
  const { rows } = await site.runtime.db.query<{ worker: string }>(
    'SELECT DISTINCT worker FROM work_log WHERE session_id = $1',
    [id],
  );
  expect(rows).toHaveLength(1);
  await expectAccessible(tab);

  // By the keyboard alone.
  await page.setViewportSize({ width: 1280, height: 800 });
  await tabTo(page, 'Step 1');
  await page.keyboard.press('Enter');
  await turn.getByText(rows[0]!.worker, { exact: true }).waitFor();
  await turn.getByText('tool-calls').waitFor();
  await expectAccessible(tab);
  await tabTo(page, 'Step 2');
  await page.keyboard.press('Space');
  expect(await turn.getByText('Ended by').count()).toBe(2);
});

it('W6 events and runs have views of their own, whose addresses can be passed on', async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  const id = await talked(tab, ['build a site about owls', 'and now?'], REHEARSAL_MODEL);
  await page.getByLabel('Session', { exact: true }).fill(id);
  await tab.button('Open').click();
  await page.getByRole('link', { name: 'Events' }).click();
  await page.getByRole('cell', { name: 'start_build: chatting → building' }).waitFor();
  await page.getByRole('cell', { name: 'todo_done_build: building → verifying' }).waitFor();
  await page.getByLabel('Data of event 1').click();
  await page.getByText('"agent": "site-builder"').waitFor();
  await expectAccessible(tab);

  await page.getByRole('link', { name: 'Runs and fences' }).click();
  const runs = page.getByRole('region', { name: 'Runs and fences' });
  await runs.getByRole('rowheader', { name: '2' }).waitFor();
  expect(await runs.getByText('finished').count()).toBe(2);
  expect(await page.getByRole('link', { name: 'Runs and fences' }).getAttribute('aria-current')).toBe('page');
  await expectAccessible(tab);
  const other = await tab.another();
  await other.page.goto(page.url());
  await other.page.getByRole('rowheader', { name: '2' }).waitFor();
});

it('W6 X3 the session as it stood after an event, from which a branch is opened', async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  const id = await talked(tab, ['build a site about owls', 'and now?'], REHEARSAL_MODEL);
  await page.goto(new URL(`/console?session=${id}&view=events`, page.url()).href);
  await page.getByRole('link', { name: 'todo_done_build: building → verifying' }).click();
  const past = page.getByRole('region', { name: /^As it stood after event/ });
  await past.getByText('verifying', { exact: true }).waitFor();
  await past.getByText('build a site about owls', { exact: true }).waitFor();
  expect(await past.getByText('and now?').count()).toBe(0);
  await expectAccessible(tab);
  await tab.button('Branch from here').click();
  await past.getByRole('status').getByRole('link').click();
  await page.getByText(id, { exact: true }).waitFor();
});

it('W6 P4 the prompt of a turn is shown by its sections, and compared with that of the turn before', async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  const id = await talked(tab, ['one', 'two']);
  await page.goto(new URL(`/console?session=${id}`, page.url()).href);
  const newest = page.getByRole('region', { name: /^Turn 2/ });
  await newest.getByText('System prompt').click();
  await newest.getByText('Agent', { exact: false }).first().click();
  await newest.getByText('You build sites.').first().waitFor();
  await expectAccessible(tab);
  await newest.getByLabel('Show what has changed since turn 1').check();
  await newest.locator('ins').getByText('+Another line.').first().waitFor();
  expect(await newest.getByText('unchanged').count()).toBe(4);
  await expectAccessible(tab);
});

it('Q3 what users, models and providers say runs nothing', async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  const id = await talked(tab, [HTML]);
  const rename = new URL(`/api/sessions/${id}/rename`, page.url()).href;
  await page.context().request.post(rename, { data: { title: HTML } });
  await page.reload();
  await page.getByText(HTML).waitFor();
  await page.goto(new URL(`/console?session=${id}`, page.url()).href);
  await page.getByText(HTML, { exact: true }).waitFor();
  await page.getByText('ProviderRejected').first().waitFor();
  await expectAccessible(tab);
  await page.goto(new URL(`/console?session=${id}&view=events`, page.url()).href);
  await page.getByLabel('Data of event 1').waitFor();
  for (const data of await page.locator('summary').all()) await data.click();
  await page.getByText('window.ran', { exact: false }).first().waitFor();
  expect(await page.evaluate(() => 'ran' in globalThis)).toBe(false);
  expect(await page.locator('main img, main script').count()).toBe(0);
});

it('Q3 a session of another user is said not to exist, and the list is offered', async () => {
  const [mine, other] = [
    await site.visit({ at: '/console' }),
    await site.visit({ at: '/console', allowedErrors: /404/ }),
  ];
  const id = await talked(mine, ['hello']);
  await other.page.goto(new URL(`/console?session=${id}`, other.page.url()).href);
  await other.page.getByRole('alert').getByText('There is no such session.').waitFor();
  await other.page.getByRole('link', { name: 'All sessions' }).click();
  await other.page.getByText('There are no sessions yet.').waitFor();
  // The console of the page's user knows no other users.
  expect(await other.page.getByLabel('User', { exact: true }).count()).toBe(0);
});

it('W5 W6 the histories of a session are replayed from its page', { timeout: patient(180_000) }, async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  const id = await talked(tab, ['hello']);
  await eventually(async () => {
    expect(await listExecutions(site.runtime.temporal, { limit: 1, workflowId: id })).toHaveLength(1);
  });
  await page.goto(new URL(`/console?session=${id}`, page.url()).href);
  await page.getByRole('link', { name: 'Replay' }).click();
  await page.getByText('Nobody has asked for a replay yet.').waitFor();
  await tabTo(page, 'Replay against the current code');
  await page.keyboard.press('Enter');
  const executions = page.getByRole('region', { name: 'Executions' });
  await executions.getByText('passed').waitFor({ timeout: patient(150_000) });
  await page.getByRole('status').getByText('All that were replayed passed').waitFor();
  await expectAccessible(tab);

  // As of a worker whose code differs.
  await site.runtime.db.query(
    `UPDATE replays SET result = jsonb_set(result, '{executions,0}',
       result #> '{executions,0}' || '{"outcome": "broke", "broke": "event 8 (TimerStarted): it differs"}') WHERE session_id = $1`,
    [id],
  );
  await page.reload();
  await executions.getByText('at event 8 (TimerStarted): it differs').waitFor();
  await page.getByRole('status').getByText('1 of 1 do not replay').waitFor();
  await expectAccessible(tab);
});

it('W6 numbers are shown as charts and as tables', async () => {
  const tab = await site.visit({ at: '/console', locale: 'en-GB' });
  const { page } = tab;
  await talked(tab, ['one', 'two', HTML]);
  await page.getByRole('link', { name: 'Numbers' }).click();
  const turns = page.getByRole('figure', { name: 'Turns', exact: true });
  await turns.getByText('Finished 2').waitFor();
  await turns.getByText('Failed 1').waitFor();
  const isDrawn = (canvas: SVGElement | HTMLElement) => {
    const { width, height } = canvas as HTMLCanvasElement;
    const pixels = (canvas as HTMLCanvasElement).getContext('2d')!.getImageData(0, 0, width, height).data;
    return pixels.some((value) => value !== 0);
  };
  await eventually(async () => expect(await turns.locator('canvas').evaluate(isDrawn)).toBe(true));
  await page.getByRole('figure', { name: 'Failed turns' }).getByText('ProviderRejected 1').waitFor();
  await page.getByRole('region', { name: 'Now' }).getByText('Workers', { exact: true }).waitFor();
  await expectAccessible(tab);
  await page.setViewportSize({ width: 1280, height: 800 });
  await tabTo(page, 'Turns as a table');
  await page.keyboard.press('Enter');
  await turns.getByRole('region', { name: 'Turns' }).getByRole('columnheader', { name: 'Aborted' }).waitFor();
  await expectAccessible(tab);

  await page.getByRole('link', { name: 'Last week' }).click();
  await turns.getByText('Finished 2').waitFor();
  expect(await page.getByRole('link', { name: 'Last week' }).getAttribute('aria-current')).toBe('page');
});

it('W6 events that come after all pages of the log were read are shown', async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  const id = await talked(tab, ['hello']);
  const { db } = site.runtime;
  const append = (kind: string, times: number) =>
    db.query(`SELECT append_event($1, $2, 'user', '{}', NULL) FROM generate_series(1, $3)`, [id, kind, times]);
  await append('many', 60);
  await page.goto(new URL(`/console?session=${id}&view=events`, page.url()).href);
  await tab.button('Later events').click();
  await tab.button('Later events').waitFor({ state: 'detached' });
  const log = page.getByRole('region', { name: 'Events' });
  await eventually(async () => expect(await log.getByText('many', { exact: true }).count()).toBe(60));
  await append('a late one', 1);
  await tab.button('Refresh').click();
  await log.getByText('a late one').waitFor();
  expect(await log.getByText('many', { exact: true }).count()).toBe(60);
});

it('W6 a session at work is read again while the page is visible, and one that is idle is not', async () => {
  const tab = await site.visit({ at: '/console' });
  const { page } = tab;
  const id = await talked(tab, []);
  const send = new URL(`/api/sessions/${id}/messages`, page.url()).href;
  await page.context().request.post(send, { data: { text: 'hang' } });
  await eventually(async () => expect((await tab.ask<{ status: { state: string } }>(id)).status.state).toBe('busy'));
  let readings = 0;
  page.on('response', (response) => void (readings += Number(new URL(response.url()).pathname.endsWith(id))));
  await page.clock.install();
  await page.goto(new URL(`/console?session=${id}`, page.url()).href);
  await page.getByText('busy', { exact: true }).waitFor();
  const hide = (isHidden: boolean) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, isHidden);
  const grows = async () => {
    const before = readings;
    await eventually(async () => {
      await page.clock.runFor(2_000);
      expect(readings).toBeGreaterThan(before);
    });
  };
  await grows();
  await hide(true);
  const hidden = readings;
  await page.clock.runFor(60_000);
  // One that was under way when it was hidden.
  expect(readings).toBeLessThanOrEqual(hidden + 1);
  await hide(false);
  await eventually(() => Promise.resolve(expect(readings).toBeGreaterThan(hidden)));
  await grows();
  await page.context().request.post(new URL(`/api/sessions/${id}/abort`, page.url()).href, { data: {} });
  await eventually(async () => {
    await page.clock.runFor(2_000);
    expect(await page.getByText('idle', { exact: true }).count()).toBe(1);
  });
  const idle = readings;
  await page.clock.runFor(60_000);
  expect(readings).toBeLessThanOrEqual(idle + 1);
});

it('W6 a slow server is asked once at a time; without a token, or for what is gone, it is not asked again', async () => {
  const tab = await site.visit({ at: '/console', allowedErrors: /status of 40[14]/ });
  const { page } = tab;
  const { request } = page.context();
  const id = await talked(tab, []);
  const url = new URL(`/api/sessions/${id}`, page.url()).href;
  await request.post(`${url}/messages`, { data: { text: 'hang' } });
  await eventually(async () => expect((await tab.ask<{ status: { state: string } }>(id)).status.state).toBe('busy'));
  const slow = Promise.withResolvers<void>();
  let [open, most] = [0, 0];
  await page.route('**/turns*', async (route) => {
    open += 1;
    most = Math.max(most, open);
    await slow.promise;
    open -= 1;
    await route.continue();
  });
  let isAsked = false;
  let readings = 0;
  await page.route(`**/api/console/sessions/${id}`, (route) => {
    readings += 1;
    return isAsked ? route.fulfill({ status: 401 }) : route.continue();
  });
  await page.clock.install();
  await page.goto(new URL(`/console?session=${id}`, page.url()).href);
  await page.getByText('busy', { exact: true }).waitFor();
  const passes = (isEnough: () => Promise<boolean> | boolean) =>
    eventually(async () => {
      await page.clock.runFor(2_000);
      expect(await isEnough()).toBe(true);
    });
  const stays = async () => {
    const before = readings;
    await page.clock.runFor(60_000);
    // One that was under way.
    expect(readings).toBeLessThanOrEqual(before + 1);
  };
  await passes(() => readings >= 4);
  slow.resolve();
  await page.getByRole('heading', { name: /^Turn 1/ }).waitFor();
  expect(most).toBe(1);

  isAsked = true;
  const token = page.getByLabel('This server requires an access token:');
  await passes(() => token.isVisible());
  await stays();
  await page.getByRole('heading', { name: /^Turn 1/ }).waitFor();
  isAsked = false;
  await token.fill('any');
  await token.press('Enter');
  const before = readings;
  await passes(() => readings > before + 1);

  await request.delete(url);
  await passes(() => page.getByText('There is no such session.').first().isVisible());
  await page.getByRole('heading', { name: /^Turn 1/ }).waitFor();
  await stays();
});

it('H8 the chat loads nothing of the console', async () => {
  const tab = await site.visit();
  const loaded = await tab.page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
  const assets = loaded.filter((name) => name.includes('/assets/'));
  expect(assets.length).toBeGreaterThan(0);
  expect(assets.filter((name) => name.includes('console'))).toEqual([]);
});
