import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { ToolDefinition } from '../../agent/definition/define.ts';
import { REHEARSAL_MODEL } from '../../agent/scripted/rehearsal-model.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import type { SessionView } from '../../store/sessions.ts';
import { isFocused } from '../../tools/test-kit/accessible.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';

let site: TestSite;
/** Keeps the agent in the middle of its build. */
let building: Gate | undefined;
beforeAll(async () => {
  const tools = siteBuilder.tools.map((tool: ToolDefinition): ToolDefinition => ({
    ...tool,
    execute: async (...args) => {
      if (tool.name === 'write_file') await building?.pass();
      return tool.execute!(...args);
    },
  }));
  site = await startSite({ agents: [{ ...siteBuilder, tools, model: REHEARSAL_MODEL }] });
});

afterEach(() => building?.open());

describe('the page with the rehearsal model', () => {
  it('H6 goes from chatting to done', async () => {
    building = new Gate();
    const tab = await site.visit();
    await tab.inPhase('Chatting');
    expect(await tab.page.getByRole('region', { name: 'Preview' }).count()).toBe(0);
    await tab.send('Please build me a site about owls');

    await tab.answers.getByText('I am a rehearsal model').waitFor();
    await tab.inPhase('Building');
    expect(await tab.button('Stop').isVisible()).toBe(true);
    expect(await tab.button('Publish').count()).toBe(0);
    building.open();
    await tab.inPhase('Verifying');

    await tab.answers.getByText('The site is built').waitFor();
    await tab.idle();
    expect(await tab.page.locator('.tool').allInnerTexts()).toEqual([
      expect.stringMatching(/build_and_deploy\s+done/),
      expect.stringMatching(/write_file\s+index\.html\s+done/),
      expect.stringMatching(/todo_complete\s+build\s+done/),
    ]);
    await tab.page.locator('summary', { hasText: 'write_file' }).click();
    await tab.page.getByText('<h1>A site about owls</h1>').waitFor();

    await tab.button('Publish').click();
    await tab.inPhase('Done');
    expect(await tab.button('Publish').count()).toBe(0);
    const opening = tab.page.context().waitForEvent('page');
    await tab.page.getByRole('link', { name: 'Open the site' }).click();
    await (await opening).getByRole('heading', { name: 'A site about owls' }).waitFor();
  });

  it('H6 shows the built site in a sandboxed frame, and reloads it after each change', async () => {
    const tab = await site.visit({ viewport: { width: 1280, height: 800 } });
    const preview = tab.page.getByRole('region', { name: 'Preview' });
    await tab.send('Please build me a site about owls');
    const built = tab.page.frameLocator('iframe').getByRole('heading', { name: 'A site about owls' });
    await built.waitFor();
    await tab.idle();
    const frame = preview.locator('iframe');
    expect(await frame.getAttribute('sandbox')).toBe('allow-scripts');
    const src = await frame.getAttribute('src');

    const answer = await tab.page.context().request.get(`${site.host.url}/api/sessions/${await tab.sessionId()}`);
    const { session, chat } = (await answer.json()) as SessionView;
    const root = workspaceRoot(site.runtime.workspaces, { ...chat, ...session });
    await writeFile(path.join(root, 'index.html'), '<body><p><script src="/js/app.js"></script>');
    await mkdir(path.join(root, 'js'));
    await writeFile(path.join(root, 'js/app.js'), 'document.querySelector("p").textContent = `origin ${origin}`');
    await tab.button('Reload').click();
    await tab.page.frameLocator('iframe').getByText('origin null', { exact: true }).waitFor();
    expect(await frame.getAttribute('src')).not.toBe(src);
    expect(await tab.page.getByText('lead nowhere in this preview').count()).toBe(0);

    await tab.button('Close: Preview').click();
    expect(await frame.count()).toBe(0);
    await tab.page.reload();
    await tab.button('Preview').waitFor();
    expect(await frame.count()).toBe(0);
    await tab.button('Preview').click();
    await frame.waitFor();
  });

  it('H6 shows it without names below "localhost" too, and says that absolute paths do not work', async () => {
    const tab = await site.visit({ viewport: { width: 1280, height: 800 }, allowedErrors: /ERR_NAME_NOT_RESOLVED/ });
    await tab.page.route(/preview\.localhost/, (route) => route.abort('namenotresolved'));
    await tab.send('Please build me a site about owls');
    await tab.page.frameLocator('iframe').getByRole('heading', { name: 'A site about owls' }).waitFor();
    await tab.page.getByText('lead nowhere in this preview').waitFor();
  });

  it('S4 a revert goes back to building, a cancel to chatting', async () => {
    const tab = await site.visit();
    await tab.send('build a site');
    await tab.inPhase('Verifying');
    await tab.idle();
    await tab.button('Revert').click();
    await tab.inPhase('Building');
    await tab.button('Cancel build').click();
    await tab.button('Give up').click();
    await tab.inPhase('Chatting');
  });

  it('S6 another tab cannot stop an idle session, and cancels its build only after confirmation', async () => {
    const tab = await site.visit();
    await tab.send('build a site');
    await tab.inPhase('Verifying');
    await tab.idle();
    const other = await tab.another();
    await other.row('build a site').getByText('Verifying', { exact: true }).waitFor();
    expect(await other.button('Stop: build a site').count()).toBe(0);
    const sent: string[] = [];
    other.page.on('request', (request) => request.method() === 'POST' && sent.push(request.url()));
    for (const isConfirmed of [false, true]) {
      await other.choose('build a site', 'Cancel build');
      const dialog = other.page.getByRole('alertdialog', { name: 'Give up the build of “build a site”?' });
      await dialog.waitFor();
      expect(sent).toEqual([]);
      await dialog.getByRole('button', { name: isConfirmed ? 'Give up' : 'Keep it' }).click();
      await dialog.waitFor({ state: 'detached' });
    }
    await tab.inPhase('Chatting');
    expect(sent).toEqual([expect.stringMatching(/\/cancel$/)]);
  });

  it('H6 works on a phone, in dark mode, with the keyboard only', async () => {
    const tab = await site.visit({
      viewport: { width: 360, height: 640 },
      colorScheme: 'dark',
      hasTouch: true,
      isMobile: true,
    });
    // The field has the focus from the start; input before the page has loaded is lost.
    await tab.page.waitForFunction(() => document.activeElement?.tagName === 'TEXTAREA');
    await tab.page.keyboard.type('build a site about the longest-word-that-anybody-has-ever-written-without-a-space');
    await tab.page.keyboard.press('Enter');
    await tab.inPhase('Verifying');
    await tab.idle();
    const width = await tab.page.evaluate(() => document.documentElement.scrollWidth);
    expect(width).toBe(360);
    for (let i = 0; i < 20 && !(await isFocused(tab.button('Publish'))); i++)
      await tab.page.keyboard.press('Shift+Tab');
    await tab.page.keyboard.press('Enter');
    await tab.inPhase('Done');
  });
});
