import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../agent/definition/define.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, fail, hang, say, think } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, type ModelScript } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';
import { patient } from '../../tools/test-kit/patient.ts';

let site: TestSite;
/** Writes state of the session and of everybody. */
const announce = defineTool({
  name: 'announce',
  description: 'Announces it.',
  input: z.object({ text: z.string() }),
  execute({ text }, { state }) {
    state.update({ announced: true, 'app:news': text });
    return text;
  },
});
beforeAll(async () => {
  site = await startSite({ agents: [{ ...siteBuilder, tools: [...siteBuilder.tools, announce] }] });
});

const script = (model: ModelScript) => site.runtime.model.script(model);

/** Scripts an answer that waits for the test after its first words. Returns the function that continues it. */
function inTwoParts(first: string, rest: string): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  script(async function* () {
    yield say(first);
    await promise;
    yield say(rest);
  });
  return resolve;
}

const answerTexts = (tab: Tab) => tab.answers.allInnerTexts();

describe('streaming', () => {
  it('H8 text is visible before the answer has ended', async () => {
    const goOn = inTwoParts('Once upon', ' a time.');
    const tab = await site.visit();
    await tab.send('A story');
    await tab.answers.getByText('Once upon', { exact: true }).waitFor();
    expect(await tab.conversation.getAttribute('aria-busy')).toBe('true');
    await expect.poll(() => tab.status.innerText(), WAIT).toBe('Working…');
    goOn();
    await tab.answers.getByText('Once upon a time.').waitFor();
    await tab.idle();
    expect(await tab.conversation.getAttribute('aria-busy')).toBe('false');
    await expect.poll(() => tab.status.innerText(), WAIT).toBe('');
  });

  it('R2 a reload while an answer is streaming continues it', async () => {
    const goOn = inTwoParts('Once upon', ' a time.');
    const tab = await site.visit();
    await tab.send('A story');
    await tab.answers.getByText('Once upon', { exact: true }).waitFor();
    await tab.page.reload();
    await tab.answers.getByText('Once upon', { exact: true }).waitFor();
    goOn();
    await tab.answers.getByText('Once upon a time.').waitFor();
    await tab.idle();
    expect(await answerTexts(tab)).toEqual(['Once upon a time.']);
    await tab.page.reload();
    await tab.answers.getByText('Once upon a time.').waitFor();
    expect(await answerTexts(tab)).toEqual(['Once upon a time.']);
  });

  it('R4 the stop button ends the answer in the page and at the model', async () => {
    script(() => [say('Once upon'), hang()]);
    const before = site.runtime.model.requests.length;
    const tab = await site.visit();
    await tab.send('A story');
    await tab.answers.getByText('Once upon').waitFor();
    const stopping = tab.page.waitForRequest('**/abort');
    await tab.button('Stop').click();
    expect((await stopping).postDataJSON()).toEqual({ message_id: expect.any(String) });
    await tab.idle();
    const request = await site.runtime.model.request(before);
    await request.ended;
    expect(request.end).toBe('client-closed');
    expect(await answerTexts(tab)).toEqual(['Once upon']);

    script(() => [say('Here I am.')]);
    await tab.send('Go on');
    await tab.answers.getByText('Here I am.').waitFor();
  });

  it('Q3 HTML in a user’s or a model’s text is shown as text', async () => {
    const html = '<img src="x" onerror="window.hacked = true"><script>window.hacked = true</script><b>bold</b>';
    script(() => [say(html)]);
    const tab = await site.visit();
    await tab.send(html);
    await tab.idle();
    await expect.poll(() => tab.conversation.getByText(html).count(), WAIT).toBe(2);
    expect(await tab.page.locator('main :is(img, script, b)').count()).toBe(0);
    expect(await tab.page.evaluate(() => 'hacked' in window)).toBe(false);
  });

  it('H8 an answer is rendered as Markdown, also while it is streaming', async () => {
    const goOn = inTwoParts(
      '# Owls\n\nThey are **very quiet',
      '** [birds](https://example.org/).\n\n```css\na{}\n```\n',
    );
    const tab = await site.visit();
    await tab.send('owls');
    await tab.answers.locator('strong', { hasText: 'very quiet' }).waitFor();
    expect(await answerTexts(tab)).toEqual([expect.not.stringContaining('*')]);
    goOn();
    const link = tab.answers.getByRole('link', { name: 'birds' });
    expect(await link.getAttribute('rel')).toContain('noopener');
    await tab.idle();
    await tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await tab.button('Copy').click();
    await tab.button('Copied').waitFor();
    expect((await tab.page.evaluate(() => navigator.clipboard.readText())).trim()).toBe('a{}');
  });

  it('H8 reasoning is collapsed, and a failed tool shows its error', async () => {
    script(({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? [say('There is no such file.')]
        : [think('Where could it be?'), callTool('call_1', 'read_file', { path: 'none.html' })],
    );
    const tab = await site.visit();
    await tab.send('read it');
    await tab.answers.getByText('There is no such file.').waitFor();
    const thought = tab.page.getByText('Where could it be?');
    expect(await thought.isVisible()).toBe(false);
    await tab.page.getByText(/^(?:Thought for|Reasoning)/).click();
    expect(await thought.isVisible()).toBe(true);
    expect(await tab.page.locator('.tool').innerText()).toMatch(/read_file\s+none\.html\s+failed\s+\S/);
  });
});

/** Expects that the first answer is the only one, and that no message waits for another. */
async function waitsForNothing(tab: Tab): Promise<void> {
  const waiting = tab.page.getByRole('list', { name: 'Waiting messages' });
  expect(await waiting.count()).toBe(0);
  await tab.page.reload();
  await tab.answers.getByText('Hm').waitFor();
  expect(await waiting.count()).toBe(0);
  await tab.button('Stop').click();
  await tab.idle();
  expect(await answerTexts(tab)).toEqual(['Hm']);
}

describe('queued messages', () => {
  it('W7 are queued at once, shown, and answered in order', async () => {
    const first = Promise.withResolvers<void>();
    script(async function* (request) {
      if (lastUserText(request) === 'one') {
        yield say('answer to ');
        await first.promise;
      } else yield say('answer to ');
      yield say(lastUserText(request));
    });
    const tab = await site.visit();
    await tab.send('one');
    await tab.answers.getByText('answer to', { exact: true }).waitFor();
    await tab.send('two');
    await tab.send('three');
    const waiting = tab.page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem');
    await expect
      .poll(() => waiting.allInnerTexts())
      .toEqual([expect.stringMatching(/^two\s+Queued/), expect.stringMatching(/^three\s+Queued/)]);
    await tab.page.reload();
    await expect.poll(() => waiting.count(), WAIT).toBe(2);
    first.resolve();
    await tab.answers.getByText('answer to three').waitFor();
    await tab.idle();
    // The answer to "two" may have begun and ended while the page joined that to "three": then it is read after it.
    await expect
      .poll(() => tab.page.locator('article').allInnerTexts(), WAIT)
      .toEqual(['one', 'answer to one', 'two', 'answer to two', 'three', 'answer to three']);
    expect(await waiting.count()).toBe(0);
  });

  it('W7 can be taken back into the input field', async () => {
    script(() => [say('Hm'), hang()]);
    const tab = await site.visit();
    await tab.send('one');
    await tab.answers.getByText('Hm').waitFor();
    await tab.send('two');
    await tab.page.getByText('Queued').waitFor();
    await tab.button('Edit waiting message').click();
    await tab.page.getByText('Queued').waitFor({ state: 'detached' });
    expect(await tab.page.getByLabel('Message', { exact: true }).inputValue()).toBe('two');
    await tab.button('Stop').click();
    await tab.idle();
    expect(await answerTexts(tab)).toEqual(['Hm']);
  });

  it('W7 is not taken into the input field if its answer begins first', async () => {
    const [first, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    script(async function* (request) {
      const text = lastUserText(request);
      if (text === 'one') yield say('Hm');
      if (text === 'one') await first.promise;
      yield say(`re: ${text}`);
    });
    const tab = await site.visit({ allowedErrors: /status of 409/ });
    await tab.page.route(/\/messages\/[^/]+$/, async (route) => {
      await begun.promise;
      await route.continue();
    });
    await tab.send('one');
    await tab.answers.getByText('Hm').waitFor();
    await tab.send('two');
    await tab.page.getByText('Queued').waitFor();
    await tab.button('Edit waiting message').click();
    expect(await tab.page.getByLabel('Message', { exact: true }).inputValue()).toBe('');
    first.resolve();
    await tab.answers.getByText('re: two').waitFor();
    begun.resolve();
    await tab.page.getByText('It is already being answered').waitFor();
    expect(await tab.page.getByLabel('Message', { exact: true }).inputValue()).toBe('');
  });

  it('W7 on its way is taken into the input field once it has arrived, and is not answered', async () => {
    script(() => [say('Hm'), hang()]);
    const tab = await site.visit();
    const arrival = Promise.withResolvers<void>();
    await tab.page.route(/\/messages$/, async (route) => {
      await arrival.promise;
      await route.continue();
    });
    await tab.send('one');
    await tab.answers.getByText('Hm').waitFor();
    const sends = tab.page.waitForRequest(/\/messages$/);
    await tab.send('two');
    await sends;
    await tab.button('Edit waiting message').click();
    await tab.page.getByText('Not sent yet, being taken back').waitFor();
    expect(await tab.button('Take back').isDisabled()).toBe(true);
    const field = tab.page.getByLabel('Message', { exact: true });
    expect(await field.inputValue()).toBe('');
    await tab.expectAccessible();
    arrival.resolve();
    await expect.poll(() => field.inputValue(), WAIT).toBe('two');
    await waitsForNothing(tab);
  });

  it.each([true, false])(
    'W7 without a response is taken into the input field and not answered; arrived: %s',
    async (arrives) => {
      script(() => [say('Hm'), hang()]);
      const tab = await site.visit({ allowedErrors: /ERR_FAILED|status of 404/ });
      await tab.page.route(
        /\/messages$/,
        async (route) => {
          if (arrives) await route.fetch();
          await route.abort();
        },
        arrives ? { times: 1 } : {},
      );
      await tab.send('one');
      await tab.answers.getByText('Hm').waitFor();
      await tab.send('two');
      await tab.page.getByText('Not sent yet: The server cannot be reached.').waitFor();
      await tab.button('Edit waiting message').click();
      await expect.poll(() => tab.page.getByLabel('Message', { exact: true }).inputValue(), WAIT).toBe('two');
      await waitsForNothing(tab);
    },
  );

  it('W7 that opens the session and has not arrived is taken into the input field', async () => {
    script(() => [say('Hm')]);
    const tab = await site.visit({ allowedErrors: /ERR_FAILED|status of 404/ });
    await tab.page.route('**/api/chat', (route) => route.abort());
    await tab.send('one');
    await tab.page.getByText('Not sent yet: The server cannot be reached.').waitFor();
    await tab.button('Edit waiting message').click();
    const field = tab.page.getByLabel('Message', { exact: true });
    await expect.poll(() => field.inputValue(), WAIT).toBe('one');
    await tab.page.unroute('**/api/chat');
    await field.press('Enter');
    await tab.answers.getByText('Hm').waitFor();
    await tab.idle();
    expect(await tab.page.locator('article').allInnerTexts()).toEqual(['one', 'Hm']);
  });

  it('W7 is taken into the input field once, also if the response to that is lost', async () => {
    script(() => [say('Hm'), hang()]);
    const tab = await site.visit({ allowedErrors: /ERR_FAILED/ });
    let asked = 0;
    await tab.page.route(/\/messages\/[^/]+$/, async (route) => {
      asked += 1;
      if (asked > 1) return route.continue();
      await route.fetch();
      return route.abort();
    });
    await tab.send('one');
    await tab.answers.getByText('Hm').waitFor();
    await tab.send('two');
    await tab.page.getByText('Queued').waitFor();
    await tab.button('Edit waiting message').click();
    const field = tab.page.getByLabel('Message', { exact: true });
    await expect.poll(() => field.inputValue(), WAIT).toBe('two');
    expect(asked).toBe(2);
    expect(await tab.page.getByText('Queued').count()).toBe(0);
    await tab.button('Stop').click();
    await tab.idle();
  });

  it('W7 stays queued if its conversation is left before the server has taken it back', async () => {
    script((request) => (lastUserText(request) === 'one' ? [say('Hm'), hang()] : [say('late')]));
    const tab = await site.visit({ allowedErrors: /status of 503/ });
    await tab.send('one');
    await tab.answers.getByText('Hm').waitFor();
    await tab.send('two');
    await tab.page.getByText('Queued').waitFor();
    const refused = Promise.withResolvers<void>();
    let asked = 0;
    await tab.page.clock.install();
    await tab.page.route(/\/messages\/[^/]+$/, async (route) => {
      asked += 1;
      await route.fulfill({ status: 503, json: { code: 'Unavailable', detail: 'no' } });
      refused.resolve();
    });
    await tab.button('Edit waiting message').click();
    await refused.promise;
    await tab.button('New chat').click();
    await tab.page.getByRole('heading', { name: 'New chat', level: 1 }).waitFor();
    await tab.page.locator('.session', { hasText: 'one' }).getByRole('link').first().click();
    await tab.page.getByText('Queued').waitFor();
    await tab.button('Edit waiting message').waitFor();
    await tab.page.clock.fastForward(60_000);
    await tab.button('Stop').click();
    await tab.answers.getByText('late').waitFor();
    expect(asked).toBe(1);
  });
});

describe('the status and errors', () => {
  it('R5 names the failed attempt and its reason, and disappears on success', async () => {
    let tries = 0;
    const retryAfter = Math.ceil(patient(3_000) / 1_000);
    script(() => (tries++ === 0 ? [fail(429, { retryAfter })] : [say('At last.')]));
    const tab = await site.visit();
    await tab.send('hello');
    const seen = tab.status.locator('[aria-hidden]');
    const told = /Attempt 1 failed: rate limited, retrying in (\d+) s\./i;
    await seen.getByText(told).waitFor();
    const [, seconds] = told.exec(await seen.innerText())!;
    // The wait has up to two seconds of jitter.
    expect(Number(seconds)).toBeLessThanOrEqual(retryAfter + 3);
    const read = await tab.status.ariaSnapshot();
    expect(Number(told.exec(read)?.[1])).toBeGreaterThanOrEqual(retryAfter);
    await expect.poll(async () => Number(told.exec(await seen.innerText())?.[1]), WAIT).toBeLessThan(Number(seconds));
    // Screen readers announce it once, not every second.
    expect(await tab.status.ariaSnapshot()).toBe(read);
    await tab.answers.getByText('At last.').waitFor();
    await tab.idle();
    await expect.poll(() => tab.status.innerText(), WAIT).toBe('');
  });

  it('R6 an error with advice is shown until the next message', async () => {
    script(() => [fail(401)]);
    const tab = await site.visit();
    await tab.send('hello');
    await tab.page.getByText(/key.*Send a message to go on\.$/).waitFor();
    await tab.idle();
    script(() => [say('Now I can.')]);
    await tab.send('and now?');
    await tab.answers.getByText('Now I can.').waitFor();
    await tab.idle();
    await expect.poll(() => tab.status.innerText(), WAIT).toBe('');
    expect(await tab.page.locator('article').allInnerTexts()).toEqual(['hello', 'and now?', 'Now I can.']);
  });

  it.each(['the first', 'a later'])('W7 %s message that cannot be sent is kept and sent again', async (which) => {
    script((request) => [say(`You said ${lastUserText(request)}.`)]);
    const tab = await site.visit({ allowedErrors: /ERR_FAILED/ });
    if (which === 'a later') {
      await tab.send('hello');
      await tab.answers.getByText('You said hello.').waitFor();
      await tab.idle();
    }
    const letThrough = await tab.cutOff();
    await tab.send('one');
    await tab.send('two');
    await tab.page.getByText('Not sent yet: The server cannot be reached.').first().waitFor();
    letThrough();
    await tab.answers.getByText('You said two.').waitFor();
    const said = await tab.page.locator('article').allInnerTexts();
    expect(said.slice(-4)).toEqual(['one', 'You said one.', 'two', 'You said two.']);
  });

  it('H2 a refusal is explained, and the message can be changed', async () => {
    const tab = await site.visit({ allowedErrors: /status of 413/ });
    await tab.send('x'.repeat(300_000));
    await tab.page.getByText(/^Not accepted: .*at most 262144 bytes/).waitFor();
    await tab.button('Edit waiting message').click();
    expect((await tab.page.getByLabel('Message', { exact: true }).inputValue()).length).toBe(300_000);
    script(() => [say('Better.')]);
    await tab.send('short');
    await tab.answers.getByText('Better.').waitFor();
  });
});

describe('a long conversation', () => {
  it('T8 shows its end first, and the rest on request', async () => {
    script((request) => [say(`re: ${lastUserText(request)}`)]);
    const tab = await site.visit();
    await tab.send('number 0');
    await tab.answers.getByText('re: number 0').waitFor();
    const id = await tab.sessionId();
    for (let number = 1; number <= 30; number++) {
      await tab.page.context().request.post(`${site.host.url}/api/sessions/${id}/messages`, {
        data: { id: `m-${number}`, text: `number ${number}` },
      });
    }
    await tab.answers.getByText('re: number 30').waitFor(WAIT);
    await tab.idle();
    await tab.page.reload();
    await tab.answers.getByText('re: number 30').waitFor(WAIT);
    const main = tab.page.getByRole('main');
    const top = () => main.evaluate((element) => element.scrollTop);
    await expect.poll(top, WAIT).toBeGreaterThan(0);
    expect(await tab.button('Jump to the latest').count()).toBe(0);
    // Scrolling up reads the page before, without moving what is shown; then that is scrolled to.
    await eventually(async () => {
      await main.evaluate((element) => element.scrollBy(0, -10_000));
      const first = (await tab.page.locator('article').allInnerTexts()).slice(0, 3);
      expect(first).toEqual(['number 0', 're: number 0', 'number 1']);
    });
    expect(await tab.button('Show earlier messages').count()).toBe(0);
    await tab.button('Jump to the latest').click();
    await expect.poll(() => tab.answers.getByText('re: number 30').isVisible(), WAIT).toBe(true);
    await tab.button('Jump to the latest').waitFor({ state: 'detached' });
    await tab.expectAccessible();
  });
});

describe('state', () => {
  it('K3 the panel shows the state of each scope, and every change at once, also by another session', async () => {
    script(() => [say('Hello.')]);
    const tab = await site.visit();
    const panel = tab.page.getByRole('region', { name: 'State' });
    const scope = (name: string) => panel.getByRole('region', { name }).locator('.value').allInnerTexts();
    await tab.button('State').click();
    await expect.poll(() => panel.getByText('nothing').count()).toBe(3);

    await tab.send('hello');
    await tab.idle();
    const change = async (of: Tab, delta: object) =>
      of.page.evaluate(
        async ([id, body]) => {
          const headers = { 'content-type': 'application/json' };
          return (await fetch(`/api/sessions/${id}/state`, { method: 'POST', headers, body })).status;
        },
        [await of.sessionId(), JSON.stringify(delta)] as const,
      );
    await change(tab, { stateDelta: { step: 'cart', 'user:theme': { dark: true } } });
    await expect.poll(() => scope('This session')).toEqual(['step\ncart']);
    await expect.poll(() => scope('All your sessions')).toEqual(['theme\n{"dark":true}']);

    const other = await tab.another();
    await other.send('hello');
    await other.idle();
    expect(await change(other, { stateDelta: { step: 'elsewhere', 'user:visits': 2 } })).toBe(200);
    await expect.poll(() => scope('All your sessions')).toEqual(['theme\n{"dark":true}', 'visits\n2']);
    await change(tab, { stateDeletions: ['step'] });
    await expect.poll(() => scope('This session')).toEqual([]);
    await tab.expectAccessible();
  });

  it('K3 the panel follows what a tool changes, and what changes for everybody', async () => {
    script((request) =>
      request.messages.at(-1)?.role !== 'tool' && lastUserText(request) === 'announce it'
        ? [callTool('call_1', 'announce', { text: 'closed on Monday' })]
        : [say('Done.')],
    );
    const tabs = [await site.visit(), await site.visit()] as const;
    const panel = (of: Tab) => of.page.getByRole('region', { name: 'State' });
    const shown = (of: Tab, scope: string) =>
      panel(of).getByRole('region', { name: scope }).locator('.value').allInnerTexts();
    for (const tab of tabs) {
      await tab.button('State').click();
      await tab.send('hello');
      await tab.idle();
      await expect.poll(() => panel(tab).getByText('nothing').count()).toBe(3);
    }
    const [tab, stranger] = tabs;
    await tab.send('announce it');
    await expect.poll(() => shown(tab, 'This session'), WAIT).toEqual(['announced\ntrue']);
    for (const each of tabs) {
      await expect.poll(() => shown(each, 'Everybody'), WAIT).toEqual(['news\nclosed on Monday']);
    }
    expect(await shown(stranger, 'This session')).toEqual([]);
    await tab.idle();
  });
});
