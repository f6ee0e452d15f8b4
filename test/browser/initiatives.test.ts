// Initiatives in the page: the list, and the board of one, with a whole system behind it.
import type { Locator } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { expectAccessible, isFocused, NARROW, press, WIDE } from '../../tools/test-kit/accessible.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { age, planned } from '../../tools/test-kit/initiative.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
import type { Initiative, InitiativeTask, InitiativeView, WorkSession } from '../../wire/initiative-views.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});

/** A user's initiative, its board in a tab, and another client of the same user. */
interface Shown {
  tab: Tab;
  id: string;
  user: string;
  /** POST below the initiative. */
  post<T>(path: string, data?: object): Promise<T>;
  read(): Promise<InitiativeView>;
}

async function show(body: object, options: { allowedErrors?: RegExp; viewport?: typeof WIDE } = {}): Promise<Shown> {
  const tab = await site.visit({ viewport: WIDE, ...options, at: '/i' });
  await tab.page.getByText('No initiatives yet.').waitFor();
  const { request } = tab.page.context();
  const send = async (path: string, data: object) => {
    const answer = await request.post(`${site.host.url}/api${path}`, { data });
    expect([answer.status(), await answer.text()]).toEqual([
      expect.toSatisfy((status) => status < 300),
      expect.anything(),
    ]);
    return answer.json() as Promise<never>;
  };
  const { initiative }: Initiative = await send('/initiatives', body);
  const id = initiative.initiative_id;
  await tab.page.goto(`${site.host.url}/i/${id}`);
  await tab.page.getByRole('heading', { level: 1, name: initiative.title }).waitFor();
  return {
    ...{ tab, id, user: initiative.user_id },
    post: (path, data = {}) => send(`/initiatives/${id}${path}`, data),
    read: async () => (await request.get(`${site.host.url}/api/initiatives/${id}`)).json() as Promise<InitiativeView>,
  };
}

/** Starts a work session, which takes and starts the next task. */
async function work({ post }: Shown, more: object = {}): Promise<{ task: InitiativeTask; work_session: string }> {
  const { session } = await post<{ session: WorkSession }>('/sessions', { agent: 'builder', ...more });
  const work_session = session.id;
  const task = await post<InitiativeTask>('/tasks/next', { work_session });
  await post(`/tasks/${task.task_id}/start`, { work_session });
  return { task, work_session };
}

const part = ({ page }: Tab, name: string) => page.getByRole('region', { name, exact: true });
const row = ({ page }: Tab, name: string) => page.locator('.task').filter({ hasText: name });
const status = (tab: Tab, words: string) => part(tab, 'Overview').locator('.tag').getByText(words, { exact: true });

async function blocked(shown: Shown, names: readonly string[], description = 'No credentials'): Promise<string> {
  const { phases } = await shown.read();
  const tasks = phases.flatMap(({ plans }) => plans.flatMap((plan) => plan.tasks));
  const blocked_tasks = tasks.filter(({ name }) => names.includes(name)).map(({ task_id }) => task_id);
  const answer = await shown.post<{ blocker: { id: string } }>('/blockers', {
    description,
    affects: ['Sign-in'],
    blocked_tasks,
  });
  return answer.blocker.id;
}

describe('a board', () => {
  it('H12 I1 shows position, tasks with who does them, decisions, and the way from a chat and back to its transcript', async () => {
    const plan = planned([['Menu', 'Prices'], ['Publish']], 'A tea room');
    const shown = await show(plan, { allowedErrors: /net::ERR_FAILED/ });
    const { tab, id, post } = shown;
    await post('/state', { next_action: 'Write the menu' });
    await post('/decisions', { context: 'Pages', decision: 'Plain HTML', reason: 'No build', kind: 'technology' });
    const opened = await tab.page.context().request.post(`${site.host.url}/api/sessions`, {
      data: { metadata: { initiative_id: id } },
    });
    const { session } = (await opened.json()) as { session: { session_id: string } };
    await work(shown, { session_id: session.session_id, working_on: 'The menu' });

    await part(tab, 'Overview').getByText('Phase 1 of 2: phase 1 · Plan 1: plan · Wave 1 · Menu').waitFor();
    await part(tab, 'Overview').getByText('Write the menu').waitFor();
    await row(tab, 'Menu').getByText('builder · session-001').waitFor();
    expect(await row(tab, 'Menu').getAttribute('aria-current')).toBe('step');
    await row(tab, 'Menu').getByText('In progress').waitFor({ state: 'attached' });
    expect(await row(tab, 'Prices').innerText()).toContain('Open');
    // The phases to come are folded.
    expect(await row(tab, 'Publish').count()).toBe(0);
    await tab.page.locator('summary', { hasText: '2. phase 2' }).click();
    await row(tab, 'Publish').waitFor();
    await tab.button('In progress 1').click();
    expect(await tab.page.locator('.task').count()).toBe(1);
    await part(tab, 'Decisions').getByText('Plain HTML').waitFor();
    await part(tab, 'Decisions').getByText('Why').click();
    await part(tab, 'Decisions').getByText('No build').waitFor();

    const toChat = tab.page.context().waitForEvent('page');
    await part(tab, 'Work sessions').getByRole('link', { name: 'Transcript of session-001' }).click();
    const chat = await toChat;
    const toBoard = tab.page.context().waitForEvent('page');
    await chat.getByRole('link', { name: 'Initiative board' }).click();
    await (await toBoard).getByRole('heading', { level: 1, name: 'A tea room' }).waitFor();
    // A server that is away, or has a newer page, has no code of the board: the conversation stays.
    await chat.route('**/assets/board-panel-*', (route) => route.abort());
    await chat.getByRole('button', { name: 'Board of the initiative', exact: true }).click();
    const panel = chat.getByRole('region', { name: 'Board of the initiative' });
    await panel.getByText('The board could not be loaded. Reload the page.').waitFor();
    await chat.getByRole('main', { name: 'Conversation' }).waitFor();
    await chat.unroute('**/assets/board-panel-*');
    await chat.reload();
    await panel.getByRole('heading', { name: 'A tea room' }).waitFor();
    await panel.getByText('Plain HTML').waitFor();
    expect(await chat.title()).toBe('Perdure');
  });

  it('H12 I6 I7 shows how work sessions have ended: handed off at which share of their context, or crashed', async () => {
    const shown = await show(planned([['one', 'two']]));
    const { tab, id, post } = shown;
    const { work_session } = await work(shown);
    await post(`/sessions/${work_session}/end`, { context_usage: 0.62, handoff_reason: 'Context limit reached' });
    const item = (name: string) =>
      part(tab, 'Work sessions')
        .locator('li[data-status]')
        .filter({ has: tab.page.getByRole('heading', { name }) });
    const expectShown = async (name: string, texts: readonly string[]) => {
      for (const text of texts) await item(name).getByText(text).waitFor();
    };
    await expectShown('session-001', [
      ...['ended', '62% of its context', 'More than half of the context was used'],
      ...['Handed off because', 'Context limit reached'],
    ]);
    await work(shown);
    await expectShown('session-002', ['at work']);
    await age(site.runtime.db, id, '1 day');
    // The supervisor looks at what is due after every change.
    await post('/decisions', { context: 'c', decision: 'd', reason: 'r' });
    await expectShown('session-002', ['crashed', 'Agent unresponsive, task reset']);
    await row(tab, 'one').getByText('Open').waitFor({ state: 'attached' });
    await work(shown);
    await expectShown('session-003', ['at work', 'Resuming from session-002 crash']);
  });

  it('H12 I3 follows what others change, also while the connection was lost', async () => {
    const shown = await show(planned([['one', 'two'], ['three']]), { allowedErrors: /net::ERR_/ });
    const { tab, id, user, post } = shown;
    const done = part(tab, 'Overview').getByRole('progressbar');
    expect(await done.getAttribute('value')).toBe('0');
    const { task, work_session } = await work(shown);
    await row(tab, 'one').getByText('In progress').waitFor({ state: 'attached' });
    await post(`/tasks/${task.task_id}/complete`, { work_session, note: 'It was easy' });
    await row(tab, 'one').getByText('It was easy').waitFor();
    await expect.poll(() => done.getAttribute('value'), WAIT).toBe('25');
    await expect.poll(() => row(tab, 'two').getAttribute('aria-current'), WAIT).toBe('step');

    const comeBack = site.host.goAway();
    await tab.status.getByText('The connection is lost.').waitFor();
    await row(tab, 'two').waitFor();
    await site.host.client.initiatives.addDecision(user, id, { context: 'c', decision: 'Made meanwhile', reason: 'r' });
    await comeBack();
    await part(tab, 'Decisions').getByText('Made meanwhile').waitFor();
    await tab.status.getByText('The connection is lost.').waitFor({ state: 'detached' });
  });

  it('I4 shows what a resume misses, and accepts it with a note', async () => {
    const shown = await show(planned([['one']]));
    const { tab, post, read } = shown;
    await post('/state', { resume_context: { files_modified_this_session: ['src/none.ts'] } });
    await post('/resume');
    const review = part(tab, 'Review required');
    await review.getByText('src/none.ts').waitFor();
    await review.getByRole('button').click();
    await review.getByLabel('Why is that all right?').fill('It was a draft');
    // Flagged while somebody writes: that is not what the note is about.
    await post('/state', { resume_context: { files_modified_this_session: ['src/none.ts', 'src/late.ts'] } });
    await post('/resume');
    await review.getByText('src/late.ts').waitFor();
    await review.getByRole('button', { name: 'Accept', exact: true }).click();
    await review.getByText('src/none.ts').waitFor({ state: 'detached' });
    await review.getByText('src/late.ts').waitFor();
    // The list may change before the form closes.
    await review.getByRole('button', { name: 'Accept what is missing' }).click();
    await review.getByLabel('Why is that all right?').fill('So was this');
    await review.getByRole('button', { name: 'Accept', exact: true }).click();
    await review.waitFor({ state: 'detached' });
    expect((await read()).initiative.review).toBeNull();
  });
});

describe('a blocker', () => {
  it('I5 that stops everything calls for the user; bypassed after a lost answer it is bypassed once, then resolved', async () => {
    const shown = await show(planned([['one', 'two']], 'Held'), { allowedErrors: /net::ERR_FAILED/ });
    const { tab, read } = shown;
    const { page } = tab;
    await blocked(shown, ['one', 'two']);
    await status(tab, 'needs you').waitFor();
    await expect.poll(() => page.title(), WAIT).toBe('Needs you: Held – Perdure');
    await row(tab, 'one').getByRole('link', { name: 'block-001' }).waitFor();

    await page.route(
      '**/bypass',
      async (route) => {
        await route.fetch();
        await route.abort();
      },
      { times: 1 },
    );
    await tab.button('Bypass block-001').click();
    await page.getByLabel('Workaround', { exact: true }).fill('A test account');
    await page.getByLabel(/Tasks to add/).fill('Ask again\n\n  Take it out ');
    const form = page.getByRole('form', { name: 'Bypass block-001' });
    await form.getByRole('button', { name: 'Bypass' }).click();
    await form.getByRole('alert').getByText('The server cannot be reached.').waitFor();
    await form.getByRole('button', { name: 'Bypass' }).click();
    await form.waitFor({ state: 'detached' });
    await status(tab, 'active').waitFor();
    await row(tab, 'Take it out').waitFor();
    const { phases, blockers } = await read();
    expect(phases[0]!.plans[0]!.tasks.map(({ name }) => name)).toEqual(['one', 'two', 'Ask again', 'Take it out']);
    expect(blockers).toMatchObject([{ status: 'bypassed', workaround: 'A test account' }]);

    await tab.button('Resolve block-001').click();
    await page.getByLabel('How was it resolved?').fill('They came');
    await page.keyboard.press('Control+Enter');
    await part(tab, 'Blockers').getByText('Nothing is blocked.').waitFor();
    await part(tab, 'Blockers').getByText('1 resolved').click();
    await part(tab, 'Blockers').getByText('They came').waitFor();
    expect((await read()).blockers).toMatchObject([{ status: 'resolved', resolution: 'They came' }]);
  });

  it('I5 that is bypassed in another way after a lost answer has the later text', async () => {
    const shown = await show(planned([['one', 'two']]), { allowedErrors: /net::ERR_FAILED/ });
    const { tab, read } = shown;
    const { page } = tab;
    await blocked(shown, ['one']);
    await page.route(
      '**/bypass',
      async (route) => {
        await route.fetch();
        await route.abort();
      },
      { times: 1 },
    );
    await tab.button('Bypass block-001').click();
    const form = page.getByRole('form', { name: 'Bypass block-001' });
    const field = form.getByLabel('Workaround', { exact: true });
    await field.fill('A test account');
    await form.getByRole('button', { name: 'Bypass' }).click();
    await form.getByRole('alert').waitFor();
    await field.fill('Ask first');
    await form.getByRole('button', { name: 'Bypass' }).click();
    await form.waitFor({ state: 'detached' });
    expect((await read()).blockers).toMatchObject([{ status: 'bypassed', workaround: 'Ask first' }]);
  });

  it('I5 that was resolved elsewhere is not resolved twice, and what was typed stays', async () => {
    const shown = await show(planned([['one', 'two']]), { allowedErrors: /status of 409|ERR_FAILED/ });
    const { tab, post, read } = shown;
    const { page } = tab;
    await blocked(shown, ['one']);
    await tab.button('Resolve block-001').click();
    const form = page.getByRole('form', { name: 'Resolve block-001' });
    const field = form.getByLabel('How was it resolved?');
    await field.fill('Mine');
    await post('/blockers/block-001/resolve', { resolution: 'Theirs' });
    await form.getByText('It was resolved elsewhere meanwhile.').waitFor();
    expect(await field.inputValue()).toBe('Mine');
    await form.getByRole('button', { name: 'Discard' }).click();
    await form.waitFor({ state: 'detached' });

    // A page that was not told yet gets the refusal.
    await blocked(shown, ['two']);
    await tab.button('Resolve block-002').click();
    await page.route(`**/api/initiatives/*`, (route) => route.abort());
    await post('/blockers/block-002/resolve', { resolution: 'Theirs' });
    const second = page.getByRole('form', { name: 'Resolve block-002' });
    await second.getByLabel('How was it resolved?').fill('Mine');
    await second.getByRole('button', { name: 'Resolve' }).click();
    await second.getByRole('alert').getByText('The blocker is resolved already.').waitFor();
    expect((await read()).blockers.map(({ resolution }) => resolution)).toEqual(['Theirs', 'Theirs']);
  });
});

describe('STATE.md', () => {
  it('I2 is edited in the page; changes of others are shown, and kept beside it; a wrong line is named', async () => {
    const shown = await show(planned([['one']]), { allowedErrors: /status of (?:412|400)/ });
    const { tab, post, read } = shown;
    const { page } = tab;
    await page.getByText('Show and edit').click();
    const editor = page.getByRole('form', { name: 'STATE.md' });
    const field = editor.getByRole('textbox');
    const text = await field.inputValue();
    expect(text).toContain('task: "one"');
    await field.fill(text.replace(/next_action:.*/, 'next_action: Mine'));
    await post('/decisions', { context: 'c', decision: 'Made elsewhere', reason: 'r' });
    await part(tab, 'Decisions').getByText('Made elsewhere').waitFor();
    await editor.getByRole('button', { name: 'Save' }).click();
    await editor.locator('ins', { hasText: 'Made elsewhere' }).waitFor();
    expect(await field.inputValue()).toContain('next_action: Mine');
    await editor.getByRole('button', { name: 'Add my changes to that' }).click();
    await expect.poll(() => field.inputValue(), WAIT).toContain('Made elsewhere');
    const held = Promise.withResolvers<void>();
    await page.route('**/STATE.md', async (route) => {
      if (route.request().method() === 'PUT') await held.promise;
      await route.continue();
    });
    await editor.getByRole('button', { name: 'Save' }).click();
    // What is typed now would not be saved.
    await expect.poll(() => field.isEditable(), WAIT).toBe(false);
    held.resolve();
    await part(tab, 'Overview').getByText('Mine').waitFor();
    const { initiative, decisions } = await read();
    expect([initiative.next_action, decisions.map(({ decision }) => decision)]).toEqual(['Mine', ['Made elsewhere']]);

    // Unchanged, it is read again when the initiative has changed.
    await post('/state', { next_action: 'Theirs' });
    await expect.poll(() => field.inputValue(), WAIT).toContain('next_action: "Theirs"');
    await field.fill((await field.inputValue()).replace(/title:.*/, 'title: Another'));
    await editor.getByRole('button', { name: 'Save' }).click();
    await editor
      .getByRole('alert')
      .getByText(/Line \d+: expected title: no change/i)
      .waitFor();
    await editor.getByRole('button', { name: 'Discard changes' }).click();
    expect(await field.inputValue()).toContain('next_action: "Theirs"');
  });
});

const EVIL =
  '<img src="https://evil.invalid/x" onerror="window.ran=1"><script>window.ran=1</script> [a](javascript:window.ran=1) ![b](https://evil.invalid/y)';

it('Q3 texts of an initiative run nothing and load nothing', async () => {
  const plan = { name: EVIL, body: `# ${EVIL}\n\n${EVIL}`, tasks: [{ name: EVIL }, { name: 'last' }] };
  const shown = await show({ title: EVIL.slice(0, 200), phases: [{ name: EVIL, plans: [plan] }], next_action: EVIL });
  const { tab, post } = shown;
  const { page } = tab;
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).origin));
  const { task, work_session } = await work(shown, { working_on: EVIL, agent: EVIL });
  await post(`/tasks/${task.task_id}/complete`, { work_session, note: EVIL });
  await post(`/sessions/${work_session}/end`, { issues: [EVIL], handoff_reason: EVIL, notes: EVIL });
  await post('/decisions', { context: EVIL, decision: EVIL, reason: EVIL, alternatives_considered: [EVIL] });
  await blocked(shown, ['last'], EVIL);
  await post('/state', { resume_context: { open_questions: [EVIL] } });
  await page.getByText('What is planned').click();
  await part(tab, 'Decisions').getByText('Why').click();
  await page.getByText('Show and edit').click();
  await page.getByRole('form', { name: 'STATE.md' }).getByRole('textbox').waitFor();
  await part(tab, 'To resume').getByText('<img').waitFor();
  await page.locator('.plan .prose').getByText('<script>').first().waitFor();
  const found = await page.evaluate(() => ({
    ran: 'ran' in window,
    loaded: document.querySelectorAll('img, iframe, object, main script').length,
    links: [...document.querySelectorAll('a')].filter(({ href }) => href.startsWith('javascript:')).length,
  }));
  expect(found).toEqual({ ran: false, loaded: 0, links: 0 });
  expect(new Set(asked)).toEqual(new Set([site.host.url]));
  await page.goto(`${site.host.url}/i`);
  await page.getByRole('list', { name: 'Your initiatives' }).getByText('<img').first().waitFor();
  expect(await page.evaluate(() => 'ran' in window)).toBe(false);
});

describe('the way to a board', () => {
  it('H12 of somebody else, or of none, says so and offers the own ones', async () => {
    const { id } = await show(planned([['one']], 'Not yours'));
    const { tab } = await show(planned([['one']], 'My own'), { allowedErrors: /status of 404/ });
    for (const foreign of [id, 'ini_none']) {
      await tab.page.goto(`${site.host.url}/i/${foreign}`);
      await tab.page.getByRole('heading', { name: 'There is no such initiative' }).waitFor();
      await expectAccessible(tab);
    }
    expect(await tab.page.getByText('Not yours').count()).toBe(0);
    await tab.page.getByRole('link', { name: 'My own' }).click();
    await tab.page.getByRole('heading', { level: 1, name: 'My own' }).waitFor();
  });

  it('H12 is a list of pages, newest first; the chat loads none of its code', async () => {
    const tab = await site.visit();
    const code: string[] = [];
    tab.page.context().on('request', (request) => code.push(request.url()));
    await tab.page.reload();
    await tab.page.getByText('Say what you want').waitFor();
    expect(code.some((url) => url.endsWith('.js'))).toBe(true);
    expect(code.filter((url) => /\/assets\/initiatives/.test(url))).toEqual([]);
    const { request } = tab.page.context();
    const [one] = planned([['one']]).phases;
    for (let n = 1; n <= 51; n += 1) {
      await request.post(`${site.host.url}/api/initiatives`, { data: { title: `Number ${n}.`, phases: [one] } });
    }
    const opening = tab.page.context().waitForEvent('page');
    await tab.page.getByRole('link', { name: 'Initiatives' }).click();
    const list = await opening;
    const items = list.getByRole('list', { name: 'Your initiatives' }).getByRole('listitem');
    await list.getByRole('link', { name: 'Number 51.' }).waitFor();
    expect(await items.count()).toBe(50);
    expect(await items.first().innerText()).toContain('Number 51.');
    await list.getByRole('button', { name: 'Show older ones' }).click();
    await list.getByRole('link', { name: 'Number 1.', exact: true }).waitFor();
    expect(code.filter((url) => /\/assets\/initiatives/.test(url))).not.toEqual([]);
    // A change, here of the connection, reads as many again.
    await request.post(`${site.host.url}/api/initiatives`, { data: { title: 'Number 52.', phases: [one] } });
    await list.evaluate(() => window.dispatchEvent(new Event('online')));
    await list.getByRole('link', { name: 'Number 52.' }).waitFor();
    expect(await list.getByRole('link', { name: 'Number 2.', exact: true }).count()).toBe(1);
  });
});

/** How many rows of tasks change in the document until a text is shown. */
async function rowsTouched(tab: Tab, until: Locator, change: () => Promise<unknown>): Promise<number> {
  await tab.page.evaluate(() => {
    const touched = new Set<Element>();
    Object.assign(window, { touched });
    new MutationObserver((records) => {
      for (const { target } of records) {
        const found = (target instanceof Element ? target : target.parentElement)?.closest('.task, .tasks');
        if (found) touched.add(found);
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  });
  await change();
  await until.waitFor({ state: 'attached' });
  return tab.page.evaluate(() => (window as unknown as { touched: Set<Element> }).touched.size);
}

it('I1 a board of 1,000 tasks renders only rows that have changed, and lays out only those in view', async () => {
  const names = Array.from({ length: 1_000 }, (_, n) => `Task number ${n}.`);
  const shown = await show(planned([names]));
  const { tab } = shown;
  expect(await tab.page.locator('.task').count()).toBe(1_000);
  const begun = row(tab, 'Task number 0.').getByText('In progress');
  const touched = await rowsTouched(tab, begun, () => work(shown));
  expect(touched).toBe(1);
  const skipped = (name: string) =>
    row(tab, name)
      .locator('.what')
      .evaluate((element) => !element.checkVisibility({ contentVisibilityAuto: true }));
  expect([await skipped('Task number 0.'), await skipped('Task number 999.')]).toEqual([false, true]);
  await row(tab, 'Task number 999.').scrollIntoViewIfNeeded();
  await expect.poll(() => skipped('Task number 999.'), WAIT).toBe(false);
});

describe('for everybody', () => {
  it('H12 is accessible, light and dark, wide and narrow: the list, a full board with its forms', async () => {
    const long = 'Averylongwordwithoutanyspaceinit'.repeat(10);
    const shown = await show(planned([['one', long], ['three']], 'A tea room'), { allowedErrors: /status of 412/ });
    const { tab, id, post } = shown;
    const { page } = tab;
    await post('/decisions', { context: long, decision: long, reason: long, alternatives_considered: [long] });
    const { work_session } = await work(shown, { working_on: long });
    await post(`/sessions/${work_session}/end`, {
      issues: [long],
      handoff_reason: 'Half of the context',
      context_usage: 0.6,
    });
    await blocked(shown, ['one'], long);
    await part(tab, 'Blockers')
      .getByRole('button', { name: /^Resolve/ })
      .click();
    await page.getByText('Why', { exact: true }).click();
    await page.getByText('Show and edit').click();
    await page.getByRole('form', { name: 'STATE.md' }).getByRole('textbox').waitFor();
    await expectAccessible(tab);
    await page.setViewportSize(NARROW);
    await row(tab, long.slice(0, 40)).waitFor();
    await page.goto(`${site.host.url}/i`);
    await page.locator(`a[href="/i/${id}"]`).waitFor();
    await expectAccessible(tab);
  });

  it('I5 H12 a blocker is resolved with the keyboard only, on a phone, and the focus stays near', async () => {
    const shown = await show(planned([['one', 'two']]), { viewport: NARROW });
    const { tab } = shown;
    const { page } = tab;
    await blocked(shown, ['one']);
    const jump = page.getByRole('link', { name: 'Blockers 1' });
    await jump.waitFor();
    await press(page, 'Tab', jump);
    await page.keyboard.press('Enter');
    await expect.poll(() => isFocused(part(tab, 'Blockers')), WAIT).toBe(true);
    await press(page, 'Tab', tab.button('Resolve block-001'));
    await page.keyboard.press('Enter');
    const field = page.getByLabel('How was it resolved?');
    await expect.poll(() => isFocused(field), WAIT).toBe(true);
    await page.keyboard.press('Escape');
    await expect.poll(() => isFocused(part(tab, 'Blockers')), WAIT).toBe(true);
    await press(page, 'Tab', tab.button('Resolve block-001'));
    await page.keyboard.press('Enter');
    await page.keyboard.type('It works');
    await press(page, 'Tab', page.getByRole('form').getByRole('button', { name: 'Resolve' }));
    await page.keyboard.press('Enter');
    await part(tab, 'Blockers').getByText('Nothing is blocked.').waitFor();
    await tab.status.getByText('block-001 is resolved.').waitFor({ state: 'attached' });
    await expect.poll(() => isFocused(part(tab, 'Blockers')), WAIT).toBe(true);
    const phase = page.locator('summary', { hasText: '1. phase 1' });
    await press(page, 'Tab', phase);
    await page.keyboard.press('Enter');
    await row(tab, 'one').waitFor({ state: 'detached' });
  });
});
