// Questions of the agent in the chat page: tool calls that ask, are carried out by another page, or are made by a subagent.
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { compactPast } from '../../tools/test-kit/long-past.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type Tab, type TestSite } from '../../tools/test-kit/page.ts';

/** The commands that ran. */
const ran: string[] = [];

const run = defineTool({
  name: 'run',
  description: 'Runs a command.',
  input: z.object({ command: z.string(), folder: z.string().optional() }),
  permission: ({ command }) => command,
  execute({ command }) {
    ran.push(command);
    return { ran: command };
  },
});

const locate = defineTool({
  name: 'locate',
  description: 'Asks the page where the user is.',
  input: z.object({}),
  output: z.object({ place: z.string() }),
});

const editText = defineTool({
  name: 'edit_text',
  description: 'Changes a text.',
  input: z.object({ path: z.string(), old_string: z.string(), new_string: z.string() }),
  execute: () => ({}),
});

const item = z.object({ name: z.string(), note: z.object({ for: z.string() }) });
const order = defineTool({
  name: 'order',
  description: 'Orders.',
  input: z.object({ items: z.array(item) }),
  execute: () => ({}),
});

const permissions = [
  { permission: 'run', pattern: '*', action: 'ask' },
  { permission: 'run', pattern: 'rm *', action: 'ask', pinned: true },
  { permission: 'write_file', pattern: '*', action: 'ask' },
  { permission: 'edit_text', pattern: '*', action: 'ask' },
  { permission: 'order', pattern: '*', action: 'ask' },
] as const;
const boss = defineAgent({
  ...siteBuilder,
  tools: [...siteBuilder.tools, run, locate, editText, order],
  permissions: [...permissions],
  subagents: ['helper'],
});
const helper = defineAgent({
  ...{ id: 'helper', mode: 'subagent', description: 'Helps.', prompt: 'You help.', tools: [run, locate] },
  permissions: [{ permission: 'run', pattern: '*', action: 'ask' }],
});

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ agents: [boss, helper] });
  site.runtime.model.script(answer);
});

/** More than the page shows at once elsewhere. */
const ORDERED = Array.from({ length: 101 }, (_, n) => ({ name: `owl ${n}`, note: { for: `nest\u200E ${n}` } }));

/** The calls of the step that a message makes. */
function callsFor(text: string): ModelAction[] {
  const [word = '', ...rest] = text.split(' ');
  const command = rest.join(' ');
  switch (word) {
    case 'run':
      return command.split(' and ').map((each, n) => callTool(`call_${n}`, 'run', { command: each }));
    case 'write':
      return [callTool('call_1', 'write_file', { path: 'notes.txt', content: command.replaceAll('|', '\n') })];
    case 'project':
      return [callTool('call_1', 'build_and_deploy', { confirm_new_project: true })];
    case 'where':
      return [callTool('call_1', 'locate', {})];
    case 'hidden':
      return [
        callTool('call_1', 'run', { command: 'ls \u202Etxt.\u200Bexe', folder: 'my\u2066home', 'mo\u200Bde': 'fast' }),
      ];
    case 'edit':
      return [
        callTool('call_1', 'edit_text', { path: 'a\u200B.txt', old_string: 'one\ntwo\u200B', new_string: 'one\nzwei' }),
      ];
    case 'order':
      return [callTool('call_1', 'order', { items: ORDERED })];
    case 'delegate':
    case 'background':
      return [callTool('call_1', 'task', { agent: 'helper', prompt: command, background: word === 'background' })];
    default:
      return [];
  }
}

const held = new Map<string, PromiseWithResolvers<void>>();

/** A message is answered by its calls, then by a text. "hold …" waits for the test after the first words, "stay …" after the calls. */
async function* answer(request: ChatRequest): AsyncGenerator<ModelAction> {
  const text = lastUserText(request);
  const turn = request.messages.slice(request.messages.findLastIndex(({ role }) => role === 'user'));
  const calls = callsFor(text.replace(/^(?:hold|stay) /, ''));
  const outcomes = turn.filter(({ role }) => role === 'tool').length;
  if (outcomes === 0 && text.startsWith('hold ')) {
    yield say('Let me see. ');
    await held.get(text)?.promise;
  }
  if (outcomes < calls.length) return yield* calls.slice(outcomes);
  if (text.startsWith('stay ')) await held.get(text)?.promise;
  const isResult = JSON.stringify(turn[0]).includes('Result of ');
  yield say(`That was ${isResult ? 'the result' : text}.`);
}

function hold(text: string): () => void {
  const gate = Promise.withResolvers<void>();
  held.set(text, gate);
  return gate.resolve;
}

/** In the page: the first event of a joined answer comes alone, and the others once no call is shown. */
function beginningAlone(): void {
  const fetched = window.fetch.bind(window);
  window.fetch = async (...request) => {
    const response = await fetched(...request);
    if (response.body === null || !response.url.endsWith('/stream')) return response;
    let isFirst = true;
    const split = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      async transform(bytes, controller) {
        const end = isFirst ? bytes.indexOf(10) + 2 : 0;
        controller.enqueue(bytes.subarray(0, end));
        if (isFirst) while (document.querySelector('.tool') !== null) await new Promise(requestAnimationFrame);
        isFirst = false;
        controller.enqueue(bytes.subarray(end));
      },
    });
    return new Response(response.body.pipeThrough(split), response);
  };
}

const question = (tab: Tab, name = 'run') => tab.page.getByRole('region', { name: `Permission for ${name}` });
const command = (tab: Tab, words: string) =>
  question(tab).getByRole('region', { name: 'Command' }).getByText(words, { exact: true });
const buttons = (tab: Tab) => question(tab).getByRole('button').allInnerTexts();

/** The session, opened in another context of the same user. */
async function sameSession(tab: Tab, allowedErrors?: RegExp): Promise<Tab> {
  const { session } = await tab.ask<{ session: { session_id: string } }>(await tab.sessionId());
  const storageState = await tab.page.context().storageState();
  return site.visit({ at: `/s/${session.session_id}`, storageState, ...(allowedErrors && { allowedErrors }) });
}

describe('a question', () => {
  it('H8 H13 P3 shows the command and what is offered; allowed once, the call runs and the turn goes on', async () => {
    const tab = await site.visit();
    await tab.send('run ls -l');
    await command(tab, 'ls -l').waitFor();
    await tab.status.getByText('The agent waits for your answer.').waitFor();
    await expect.poll(() => tab.page.title(), WAIT).toBe('Waits for you – Perdure');
    expect(await buttons(tab)).toEqual(['Once', 'This session', 'Reject']);
    expect(ran).not.toContain('ls -l');
    await question(tab).getByRole('button', { name: 'Once' }).click();
    await tab.answers.getByText('That was run ls -l.').waitFor();
    await tab.idle();
    expect(ran.filter((each) => each === 'ls -l')).toHaveLength(1);
    await expect.poll(() => tab.page.title(), WAIT).toBe('Perdure');
    expect(await tab.answers.count()).toBe(1);
    await tab.page.locator('.tool summary').click();
    await tab.page.getByText('Allowed once.').waitFor();
  });

  it('H13 leaves the section of its call open, which was opened before the answer', async () => {
    const tab = await site.visit();
    const goOn = hold('stay run pwd');
    await tab.send('stay run pwd');
    await question(tab).waitFor();
    await tab.page.locator('.tool summary').click();
    await tab.page.locator('.tool').getByText('Input', { exact: true }).waitFor();
    // The page joins the answer once the call has run; of that the beginning comes alone, so that the call is not shown for a while.
    const ended = Promise.withResolvers<void>();
    await tab.page.route(/\/messages\?times=true$/, async (route) => {
      await ended.promise;
      await route.continue();
    });
    await tab.page.evaluate(beginningAlone);
    await question(tab).getByRole('button', { name: 'Once' }).click();
    const id = await tab.sessionId();
    await eventually(async () => {
      const { items } = await tab.ask<{ items: { parts: object[] }[] }>(`${id}/messages`);
      expect(items.at(-1)!.parts).toContainEqual(expect.objectContaining({ state: 'output-available' }));
    });
    ended.resolve();
    await tab.page.locator('.tool .state', { hasText: 'done' }).waitFor();
    await tab.page.getByText('Allowed once.').waitFor();
    goOn();
    await tab.answers.getByText('That was stay run pwd.').waitFor();
    await tab.idle();
    await tab.page.getByText('Allowed once.').waitFor();
  });

  it('H13 P3 rejected with a reason, the call does not run; the page shows why', async () => {
    const tab = await site.visit();
    await tab.send('run make coffee');
    await question(tab).getByLabel('Reason, for the agent').fill('we have tea');
    await tab.page.keyboard.press('Enter');
    await tab.answers.getByText('That was run make coffee.').waitFor();
    expect(await tab.page.locator('.tool').innerText()).toMatch(/refused\s+we have tea/);
    expect(ran).not.toContain('make coffee');
    const { items } = await tab.ask<{ items: { parts: object[] }[] }>(`${await tab.sessionId()}/messages`);
    expect(items.at(-1)!.parts).toContainEqual(
      expect.objectContaining({ state: 'output-denied', approval: expect.objectContaining({ reason: 'we have tea' }) }),
    );
  });

  it('H13 P3 of a pinned rule offers once and reject; calls of one step ask one after the other', async () => {
    const tab = await site.visit();
    await tab.send('run rm a and rm b');
    await command(tab, 'rm a').waitFor();
    expect(await buttons(tab)).toEqual(['Once', 'Reject']);
    await question(tab).getByRole('button', { name: 'Once' }).click();
    await command(tab, 'rm b').waitFor();
    expect(await question(tab).count()).toBe(1);
    await question(tab).getByRole('button', { name: 'Reject' }).click();
    await tab.answers.getByText('That was run rm a and rm b.').waitFor();
    expect(ran.filter((each) => each.startsWith('rm '))).toEqual(['rm a']);
  });

  it('H13 P3 about a file shows what changes in it', async () => {
    const tab = await site.visit();
    await tab.send('project');
    await tab.idle();
    const asked = question(tab, 'write_file');
    const once = asked.getByRole('button', { name: 'Once' });
    await tab.send('write one|two|three');
    await asked.getByRole('region', { name: 'Writes notes.txt' }).getByText('There is no such file yet.').waitFor();
    await expect.poll(() => asked.locator('ins').allTextContents(), WAIT).toEqual(['+one\n', '+two\n', '+three\n']);
    await once.click();
    await tab.answers.getByText('That was write one|two|three.').waitFor();
    await tab.idle();
    await tab.send('write one|zwei|three');
    const changes = asked.getByRole('region', { name: 'Changes in notes.txt' });
    await changes.locator('del', { hasText: '-two' }).waitFor();
    expect(await changes.locator('ins').allTextContents()).toEqual(['+zwei\n']);
    expect(await changes.locator('pre').textContent()).toContain(' one\n-two\n+zwei\n three');
    await asked.getByRole('button', { name: 'Always' }).click();
    await tab.answers.getByText('That was write one|zwei|three.').waitFor();
  });
});

describe('what is asked', () => {
  it('P3 H13 an old and a new text are shown as a diff', async () => {
    const tab = await site.visit();
    await tab.send('edit');
    const changes = question(tab, 'edit_text').getByRole('region', { name: String.raw`Changes in a\u200b.txt` });
    await changes.locator('ins').waitFor();
    expect(await changes.locator('del').allTextContents()).toEqual([String.raw`-two\u200b` + '\n']);
    expect(await changes.locator('ins').allTextContents()).toEqual(['+zwei\n']);
    await question(tab, 'edit_text').getByRole('button', { name: 'Reject' }).click();
    await tab.idle();
  });

  it('P3 H13 any other input is shown as JSON, of which nothing is collapsed', async () => {
    const tab = await site.visit();
    await tab.send('order');
    const input = question(tab, 'order').getByRole('group', { name: 'Input' });
    await input.getByText('items', { exact: true }).waitFor();
    expect(await input.locator('pre').allTextContents()).toEqual([
      JSON.stringify(ORDERED, null, 2).replaceAll('\u200E', String.raw`\u200e`),
    ]);
    expect(await input.locator('details, button').count()).toBe(0);
    await question(tab, 'order').getByRole('button', { name: 'Reject' }).click();
    await tab.idle();
  });

  it('P3 H13 characters that hide or reorder others are shown as escapes', async () => {
    const tab = await site.visit();
    await tab.send('hidden');
    const shown = String.raw`ls \u202etxt.\u200bexe`;
    await command(tab, shown).waitFor();
    const further = question(tab).getByRole('group', { name: 'Further input' });
    await further.getByText(String.raw`my\u2066home`).waitFor();
    expect(await further.locator('.name').allTextContents()).toEqual(['folder', String.raw`mo\u200bde`]);
    expect(await question(tab).locator('.note code').allTextContents()).toEqual(['run', shown]);
    expect(await tab.page.locator('.tool .brief').textContent()).toBe(String.raw`my\u2066home`);
    await question(tab).getByRole('button', { name: 'This session' }).click();
    await tab.idle();
    await tab.button('Permissions').click();
    await tab.button(`Revoke: run ${shown}`).waitFor();
    await tab.page.getByRole('region', { name: 'Permissions' }).getByText(shown, { exact: true }).waitFor();
  });
});

describe('another tab', () => {
  it('H13 sees the question live and can answer; both go on with the stream', async () => {
    const goOn = hold('hold run date');
    const one = await site.visit();
    await one.send('hold run date');
    await one.answers.getByText('Let me see.').waitFor();
    const two = await sameSession(one);
    await two.answers.getByText('Let me see.').waitFor();
    goOn();
    for (const tab of [one, two]) await command(tab, 'date').waitFor();
    await question(two).getByRole('button', { name: 'Once' }).click();
    for (const tab of [one, two]) {
      await tab.answers.getByText('That was hold run date.').waitFor();
      await tab.idle();
      expect(await question(tab).count()).toBe(0);
    }
    expect(ran.filter((each) => each === 'date')).toHaveLength(1);
    expect(await two.conversation.innerText()).toBe(await one.conversation.innerText());
  });

  it.each([
    ['another answer', 'Once', 'it was decided "once"'],
    ['the end of the turn', 'Stop', 'aborted by the user'],
  ])('H13 that answers after %s is told how the wait has ended', async (after, button, how) => {
    const text = `run uptime after ${after}`;
    const one = await site.visit();
    await one.send(text);
    await question(one).waitFor();
    const two = await sameSession(one, /status of 409|ERR_FAILED/);
    // It still shows the question, because nothing reaches it.
    await two.page.route('**/events', (route) => route.abort());
    await two.page.reload();
    await question(two).waitFor();
    await one.button(button).click();
    await one.idle();
    await question(two).getByRole('button', { name: 'Reject' }).click();
    await two.page.getByRole('alert').getByText(how).waitFor();
    await question(two).waitFor({ state: 'detached' });
    const runs = button === 'Once' ? 1 : 0;
    if (runs > 0) await two.answers.getByText(`That was ${text}.`).waitFor();
    expect(ran.filter((each) => each === text.slice('run '.length))).toHaveLength(runs);
  });

  it('S6 R5 shows in its list that the session waits for a page, and not for the user', async () => {
    const one = await site.visit();
    await one.send('where');
    await one.page.locator('.tool .state', { hasText: 'waits for another page' }).waitFor();
    const two = await one.another();
    const row = two.row('where');
    await row.getByText('waits for another page').waitFor();
    expect(await row.getByText('waits for you').count()).toBe(0);
  });

  it('R5 S6 shows in its list that the session waits; a hidden tab shows it in its title', async () => {
    const goOn = hold('hold run who');
    const one = await site.visit();
    await one.page.clock.install();
    await one.page.reload();
    await one.send('hold run who');
    await one.answers.getByText('Let me see.').waitFor();
    const two = await one.another();
    const row = two.row('hold run who');
    await row.getByText('working').waitFor();
    await one.page.evaluate(() => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => 'hidden' });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    expect(await one.page.title()).toBe('Perdure');
    goOn();
    await row.getByText('waits for you').waitFor();
    await eventually(async () => {
      await one.page.clock.fastForward(15_000);
      expect(await one.page.title()).toBe('Waits for you – Perdure');
    });
  });
});

describe('a session that waits', () => {
  it('R2 H13 keeps its question over a reload and a restart of the host', async () => {
    const tab = await site.visit({ allowedErrors: /net::ERR_/ });
    await tab.send('run whoami');
    await question(tab).waitFor();
    await tab.page.reload();
    await question(tab).waitFor();
    const comeBack = site.host.goAway();
    await tab.status.getByText('The connection is lost.').waitFor();
    await comeBack();
    await tab.status.getByText('The agent waits for your answer.').waitFor();
    expect(ran).not.toContain('whoami');
    await tab.send('and then');
    await tab.page.getByText('Queued').waitFor();
    await question(tab).getByRole('button', { name: 'Once' }).click();
    await tab.answers.getByText('That was run whoami.').waitFor();
    await tab.answers.getByText('That was and then.').waitFor();
    await tab.idle();
    expect(ran.filter((each) => each === 'whoami')).toHaveLength(1);
  });

  it('R4 can be stopped instead of answered', async () => {
    const tab = await site.visit();
    await tab.send('run sleep');
    await question(tab).waitFor();
    await tab.button('Stop').click();
    await tab.idle();
    await tab.page.locator('.tool').getByText('aborted by the user').waitFor();
    expect(await question(tab).count()).toBe(0);
  });

  it('P3 a call that a page carries out waits for another page, and is shown when that has given its output', async () => {
    const tab = await site.visit();
    await tab.send('where');
    await tab.page.locator('.tool .state', { hasText: 'waits for another page' }).waitFor();
    await tab.status.getByText('A tool call waits for another page').waitFor();
    expect(await tab.page.title()).toBe('Perdure');
    await tab.page.reload();
    await tab.page.locator('.tool .state', { hasText: 'waits for another page' }).waitFor();
    const id = await tab.sessionId();
    const { items } = await tab.ask<{ items: { parts: { toolCallId?: string }[] }[] }>(`${id}/messages`);
    const call = items.at(-1)!.parts.find(({ toolCallId }) => toolCallId !== undefined)!.toolCallId!;
    const url = `${site.host.url}/api/sessions/${id}/tool-outputs/${call}`;
    const given = await tab.page.context().request.post(url, { data: { output: { place: 'here' } } });
    expect(given.status()).toBe(200);
    await tab.answers.getByText('That was where.').waitFor();
    await tab.idle();
  });
});

describe('permission rules', () => {
  it('P3 H13 are listed by scope; those that answers made are revoked, those of the agent cannot', async () => {
    const tab = await site.visit();
    await tab.send('project');
    await tab.idle();
    await tab.button('Permissions').click();
    const rules = tab.page.getByRole('region', { name: 'Permissions' });
    const scope = (name: string) => rules.getByRole('region', { name });
    await scope('The agent').getByText('rm *').waitFor();
    await tab.send('run df and du');
    await command(tab, 'df').waitFor();
    await question(tab).getByRole('button', { name: 'This session' }).click();
    await scope('This session').getByText('df').waitFor();
    await command(tab, 'du').waitFor();
    await question(tab).getByRole('button', { name: 'Always' }).click();
    await scope('Its project').getByText('du').waitFor();
    expect(await rules.getByRole('button', { name: 'Revoke' }).allInnerTexts()).toEqual(['Revoke', 'Revoke']);
    await tab.idle();
    await tab.send('run df');
    await tab.answers.getByText('That was run df.').waitFor();
    await tab.idle();
    await tab.button('Revoke: run df').click();
    await scope('This session').getByText('no rules').waitFor();
    await tab.button('Revoke: run du').click();
    await scope('Its project').getByText('no rules').waitFor();
    await tab.send('run df');
    await question(tab).waitFor();
  });
});

describe('permission rules in other tabs', () => {
  const rules = (tab: Tab, scope: string) =>
    tab.page.getByRole('region', { name: 'Permissions' }).getByRole('region', { name: scope });

  it('P3 H13 are up to date in each, whether a tab of the session or of another one of the project makes or revokes them', async () => {
    const one = await site.visit();
    await one.send('project');
    await one.idle();
    const two = await sameSession(one);
    const other = await one.another();
    await other.send('hello');
    await other.idle();
    const session = async (tab: Tab) =>
      (await tab.ask<{ session: { session_id: string; project_id: string } }>(await tab.sessionId())).session;
    const { project_id } = await session(one);
    const url = `${site.host.url}/api/sessions/${(await session(other)).session_id}/open`;
    expect((await other.page.context().request.post(url, { data: { project_id } })).status()).toBe(200);
    for (const tab of [one, two, other]) await tab.button('Permissions').click();
    for (const tab of [one, two, other]) await rules(tab, 'Its project').getByText('no rules').waitFor();
    await one.send('run free and vmstat');
    await command(one, 'free').waitFor();
    await question(one).getByRole('button', { name: 'This session' }).click();
    await command(one, 'vmstat').waitFor();
    await question(one).getByRole('button', { name: 'Always' }).click();
    await one.idle();
    for (const tab of [one, two]) await rules(tab, 'This session').getByText('free').waitFor();
    for (const tab of [one, two, other]) await rules(tab, 'Its project').getByText('vmstat').waitFor();
    await two.button('Revoke: run free').click();
    await other.button('Revoke: run vmstat').click();
    for (const tab of [one, two]) await rules(tab, 'This session').getByText('no rules').waitFor();
    for (const tab of [one, two, other]) await rules(tab, 'Its project').getByText('no rules').waitFor();
  });
});

/** The session of the subagent that the newest answer has called. */
async function childOf(tab: Tab): Promise<string> {
  const at = `${await tab.sessionId()}/messages`;
  const { items } = await tab.ask<{ items: { parts: { output?: { session_id: string } }[] }[] }>(at);
  return items.at(-1)!.parts.find(({ output }) => output !== undefined)!.output!.session_id;
}

describe('the work of a subagent', () => {
  it('P4 is collapsed under its call, live when it is shown, and stays readable', async () => {
    const goOn = hold('hold thinking');
    const tab = await site.visit();
    await tab.send('delegate hold thinking');
    const work = tab.page.locator('.child');
    await work.locator('summary', { hasText: 'What the subagent does' }).waitFor();
    expect(await work.getByText('Let me see.').count()).toBe(0);
    await work.locator('summary').click();
    await work.getByText('Let me see.').waitFor();
    await work.getByText('The subagent works.').waitFor();
    expect(await work.getByText('That was').count()).toBe(0);
    goOn();
    await work.getByText('That was hold thinking.').waitFor();
    await tab.answers.getByText('That was delegate hold thinking.').waitFor();
    await tab.idle();
    await tab.page.reload();
    await work.locator('summary').click();
    await work.getByText('That was hold thinking.').waitFor();
    await work.getByText('The subagent has answered.').waitFor();
  });

  it('P4 X5 shows a summary as the session of the subagent does, with the turns that it stands for', async () => {
    const tab = await site.visit();
    await tab.send('delegate look around');
    await tab.answers.getByText('That was delegate look around.').waitFor();
    await tab.idle();
    const client = await site.runtime.db.connect();
    await compactPast(client, await childOf(tab), { turns: 1, every: 1, tail: 0 });
    client.release();
    const work = tab.page.locator('.child');
    await work.getByText('What the subagent does').click();
    await work.getByText('Summarized 1 earlier turn').click();
    await work.getByText('They talked.').waitFor();
    expect(await work.getByRole('article').count()).toBe(0);
    await work.getByRole('button', { name: 'Show the summarized messages' }).click();
    const shown = () => work.getByRole('article').allInnerTexts();
    await expect.poll(shown, WAIT).toEqual(['look around', 'That was look around.']);
  });

  it('H14 P4 says at its own URL what it is, and offers nothing that the server refuses', async () => {
    const tab = await site.visit();
    const ends = hold('hold on, subagent');
    await tab.send('background hold on, subagent');
    await tab.answers.getByText('That was background hold on, subagent.').waitFor();
    await tab.idle();
    const { session } = await tab.ask<{ session: { session_id: string } }>(await tab.sessionId());
    const storageState = await tab.page.context().storageState();
    const child = await site.visit({ at: `/s/${await childOf(tab)}`, storageState });
    await child.answers.getByText('Let me see.').waitFor();
    await child.page.getByText('A subagent works here.').waitFor();
    expect(await child.page.getByText('This is a branch.').count()).toBe(0);
    const link = child.page.getByRole('link', { name: 'Open the conversation that has called it' });
    expect(await link.getAttribute('href')).toBe(`/s/${session.session_id}`);
    expect(await child.page.getByRole('article', { name: 'Caller' }).allInnerTexts()).toEqual(['hold on, subagent']);
    expect(await child.page.locator('textarea, .picker').count()).toBe(0);
    await child.expectAccessible();
    await child.button('Stop').click();
    await child.page.getByText('You stopped the answer here.').waitFor();
    const offered = child.page.locator('.talk').getByRole('button');
    const names = () => offered.evaluateAll((all) => all.map((each) => each.ariaLabel ?? each.textContent));
    await expect.poll(names, WAIT).toEqual(['Show side by side', 'Copy message', 'Copy answer', 'Compact']);
    ends();
    const opened = await tab.page.request.post(new URL('/api/sessions', tab.page.url()).href, {
      data: { metadata: { task: 'of a user' } },
    });
    const { session: own } = (await opened.json()) as { session: { session_id: string } };
    const users = await site.visit({ at: `/s/${own.session_id}`, storageState });
    await users.page.locator('textarea').waitFor();
  });

  it('H14 P4 its call that waits for another page is named, and nobody is asked', async () => {
    const tab = await site.visit();
    await tab.send('delegate where');
    await tab.page.getByText('The subagent helper waits for another page, which carries out locate.').waitFor();
    await tab.status.getByText('A subagent waits for another page.').waitFor();
    expect(await tab.page.title()).toBe('Perdure');
    const id = await tab.sessionId();
    const { questions } = await tab.ask<{ questions: { tool_call_id: string }[] }>(`${id}/status`);
    const url = `${site.host.url}/api/sessions/${id}/tool-outputs/${questions[0]!.tool_call_id}`;
    const given = await tab.page.context().request.post(url, { data: { output: { place: 'here' } } });
    expect(given.status()).toBe(200);
    await tab.answers.getByText('That was delegate where.').waitFor();
    await tab.idle();
  });

  const WAYS = ['delegate', 'background'];
  it.each(WAYS)('H14 P4 a question of a subagent is answered in the conversation: %s', async (how) => {
    const tab = await site.visit();
    await tab.send(`${how} run free ${how}`);
    const asked = tab.page.locator('.child-question');
    await asked.getByText('The subagent helper asks:').waitFor();
    await command(tab, `free ${how}`).waitFor();
    await tab.status.getByText('A subagent waits for your answer.').waitFor();
    await expect.poll(() => tab.page.title(), WAIT).toBe('Waits for you – Perdure');
    const two = await sameSession(tab);
    await command(two, `free ${how}`).waitFor();
    expect(ran).not.toContain(`free ${how}`);
    await question(two).getByRole('button', { name: 'Once' }).click();
    for (const each of [tab, two]) {
      await each.answers
        .getByText(`That was ${how === 'background' ? 'the result' : `${how} run free ${how}`}.`)
        .waitFor();
      await each.idle();
      expect(await question(each).count()).toBe(0);
    }
    expect(ran.filter((each) => each === `free ${how}`)).toHaveLength(1);
    const results = tab.page.getByRole('article', { name: 'Subagent' });
    expect(await results.count()).toBe(how === 'background' ? 1 : 0);
  });

  it('P4 X1 the result of a subagent that an edit takes out of the queue comes again, and never as the user’s words', async () => {
    const tab = await site.visit();
    const [childEnds, turnEnds] = [hold('hold the child'), hold('hold the turn')];
    await tab.send('background hold the child');
    await tab.answers.getByText('That was background hold the child.').waitFor();
    await tab.idle();
    await tab.send('one');
    await tab.answers.getByText('That was one.').waitFor();
    await tab.idle();
    await tab.send('hold the turn');
    await tab.answers.getByText('Let me see.').waitFor();
    childEnds();
    const waiting = tab.page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem');
    // While an answer streams the page reads nothing else.
    await eventually(async () => {
      await tab.page.reload();
      await waiting.getByText('Result of').waitFor({ timeout: 1_000 });
    });
    expect(await waiting.getByRole('button', { name: 'Edit waiting message' }).count()).toBe(0);
    await tab.button('Edit').nth(1).click();
    await tab.page.getByLabel('Changed message').fill('uno');
    await tab.page.keyboard.press('Enter');
    await tab.answers.getByText('That was the result.').waitFor();
    turnEnds();
    await tab.idle();
    const said = tab.page.getByRole('article', { name: 'You' });
    await expect.poll(() => said.allInnerTexts(), WAIT).toEqual(['background hold the child', 'uno']);
    expect(await tab.page.getByRole('article', { name: 'Subagent' }).count()).toBe(1);
  });
});
