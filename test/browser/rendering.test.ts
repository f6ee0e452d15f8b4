// How answers, tools and long conversations look; and that what a model writes runs nothing.
import type { Locator } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { expectAccessible, WIDE } from '../../tools/test-kit/accessible.ts';
import { WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, type ModelAction, say, think } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startSite, type TestSite } from '../../tools/test-kit/page.ts';

/** Answers with what it is given. */
const show = defineTool({
  name: 'show',
  description: 'Shows.',
  input: z.object({ what: z.string(), path: z.string().optional(), content: z.string().optional() }),
  repeatable: true,
  execute: ({ what }) => OUTPUTS[what]!,
});

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WICKED_IMAGE = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="top.hacked = true"><script>top.hacked = true</script><image href="https://evil.example/svg.png"/></svg>',
)}`;
const OUTPUTS: Record<string, z.core.util.JSONType> = {
  table: [
    { name: 'Barn owl', grams: 430 },
    { name: 'Eagle owl', grams: 2800 },
  ],
  tree: { owls: { barn: { colour: 'white' } }, count: 2 },
  image: `data:image/png;base64,${PIXEL}`,
  wicked: WICKED_IMAGE,
  diff: '--- a/owls.txt\n+++ b/owls.txt\n@@ -1 +1 @@\n-one owl\n+two owls\n',
};

let site: TestSite;
beforeAll(async () => {
  const prompt = 'Answer.';
  site = await startSite({
    agents: [defineAgent({ id: 'site-builder', description: 'Answers.', mode: 'primary', prompt, tools: [show] })],
  });
  site.runtime.model.script(answer);
});

const DIAGRAM = '```mermaid\nflowchart LR\n  Night --> Owl\n  Owl --> Mouse\n```\n';
const RICH = [
  'Energy is $E = mc^2$, for $5 each.\n\n\\[ \\int_0^1 x \\, dx = \\frac{1}{2} \\]\n',
  '```ts\nconst owl: string = "barn"; // quiet\n```\n',
  DIAGRAM,
  'הינשוף שקט: $a < b$.\n',
  'It ends.',
].join('\n');

const WICKED = [
  '[a](javascript:window.hacked=true) [b](data:text/html,<script>window.hacked=true</script>) ![c](https://evil.example/c.png)',
  '<svg onload="window.hacked=true"><script>window.hacked=true</script></svg><iframe src="https://evil.example"></iframe>',
  '$\\href{javascript:window.hacked=true}{d}$ and $\\includegraphics{https://evil.example/e.png}$ and',
  '$\\htmlStyle{position: fixed; background: url(https://evil.example/f.png)}{g}$ $\\rule{9999em}{9999em}$\n',
  '$$\n\\frac{\\a}\n$$\n',
  '$$\n\\def\\a{\\a\\a}\\a\n$$\n',
  `$$\n\\def\\a#1{${'#1'.repeat(900)}}\\a{${'x'.repeat(900)}}\n$$\n`,
  '```mermaid\n%%{init: {"securityLevel": "loose", "htmlLabels": true, "themeCSS": "* { background: url(https://evil.example/h.png) }"}}%%\nflowchart LR\n  A["<img src=x onerror=top.hacked=true>"] --> B\n  click A "javascript:top.hacked=true"\n  click B call alert()\n```\n',
  '```mermaid\nthis is no diagram\n```\n',
  `\`\`\`cpp\n${`${'a'.repeat(499)}\n`.repeat(200)}\`\`\`\n`,
  'All of it is text.',
].join('\n');

const PART = `${'Owls are quiet birds. '.repeat(6)}\n\n`;
const LONG = Array.from({ length: 350 }, (_, n) => `## Part ${n}\n\n${PART}`).join('');
const thought = Promise.withResolvers<void>();
const more = Promise.withResolvers<void>();
const rest = Promise.withResolvers<void>();

async function* answer(request: ChatRequest): AsyncGenerator<ModelAction> {
  const text = lastUserText(request);
  const isFirst = request.messages.at(-1)?.role === 'user';
  if (text === 'rich') {
    yield think('What do ');
    await thought.promise;
    yield* [think('they like?'), say(RICH)];
  } else if (text === 'wicked') yield isFirst ? callTool('c1', 'show', { what: 'wicked' }) : say(WICKED);
  else if (text === 'diagram') yield say(DIAGRAM);
  else if (text === 'long') {
    yield say(LONG);
    await more.promise;
    yield say('And then ');
    await rest.promise;
    for (let n = 0; n < 40; n++) yield say(`word${n} `);
  } else if (Object.hasOwn(OUTPUTS, text)) {
    const input = { what: text, path: 'page.html', content: '<h1>Owls</h1>' };
    yield isFirst ? callTool('c1', 'show', input) : say('Shown.');
  } else yield say(`You said ${text}.`);
}

it('H8 an answer has formulas, coloured code, a diagram and right-to-left text; its reasoning says how long it took', async () => {
  const tab = await site.visit({ viewport: WIDE });
  await tab.send('rich');
  await tab.page.getByText('Thinking…').waitFor();
  thought.resolve();
  await tab.answers.getByText('It ends.').waitFor();
  await tab.idle();
  const rich = async () => {
    await tab.answers.locator('.katex-display').waitFor();
    expect(await tab.answers.locator('.formula').count()).toBe(3);
    expect(await tab.answers.locator('.formula annotation').first().textContent()).toBe('E = mc^2');
    await tab.answers.getByText('for $5 each').waitFor();
    await tab.answers.locator('.hljs-keyword', { hasText: 'const' }).waitFor();
    await tab.answers.getByRole('img', { name: /flowchart/ }).waitFor();
    const hebrew = tab.answers.locator('p', { hasText: 'הינשוף שקט' });
    const directionOf = (place: Locator) => place.evaluate((element) => getComputedStyle(element).direction);
    expect(await directionOf(hebrew)).toBe('rtl');
    expect(await directionOf(hebrew.locator('.formula'))).toBe('ltr');
  };
  await rich();
  await tab.page.reload();
  await rich();
  await tab.page.getByText(/^Thought for /).waitFor();
  const image = tab.answers.getByRole('img', { name: /flowchart/ });
  expect((await image.boundingBox())!.width).toBeGreaterThan(50);
  await tab.page.getByText('Source of the diagram').click();
  await tab.answers.getByText('Night --> Owl').waitFor();
  await expectAccessible(tab);
});

it('Q3 links, images, SVG, formulas and diagrams of a model run nothing, and load nothing from elsewhere', async () => {
  const tab = await site.visit();
  const elsewhere: string[] = [];
  tab.page.context().on('request', (request) => {
    if (!request.url().startsWith(site.host.url) && !request.url().startsWith('data:')) elsewhere.push(request.url());
  });
  tab.page.on('dialog', (dialog) => elsewhere.push(dialog.message()));
  await tab.send('wicked');
  await tab.answers.getByText('All of it is text.').waitFor();
  await tab.idle();
  await tab.answers.getByText('\\frac{\\a}').waitFor();
  await tab.answers.getByText('\\def\\a{\\a\\a}\\a').waitFor();
  await tab.answers.getByText('\\def\\a#1{#1').waitFor();
  await tab.answers.getByText('This diagram cannot be drawn.').waitFor();
  await tab.answers.locator('.diagram img').waitFor();
  await tab.page.locator('.tool summary').click();
  await tab.page.locator('.tool img').waitFor();
  expect(await tab.answers.locator(':is(script, iframe, object, svg[onload], [onerror], [onload])').count()).toBe(0);
  const links = await tab.answers.locator('a').evaluateAll((found) => found.map((link) => link.getAttribute('href')));
  expect(links.filter((href) => href && !/^https?:/.test(href))).toEqual([]);
  // No formula is larger than its block.
  const sizes = await tab.answers.locator('.formula').evaluateAll((found) => found.map((each) => each.clientHeight));
  expect(Math.max(...sizes)).toBeLessThan(1_000);
  expect(await tab.page.evaluate(() => 'hacked' in window)).toBe(false);
  expect(elsewhere).toEqual([]);
});

it('H8 what of an answer cannot be drawn is shown as text, and the page stays', async () => {
  const tab = await site.visit({ allowedErrors: /net::ERR_|dynamically imported module|Unable to preload CSS/ });
  await tab.page.route(/\/assets\/(?:highlighted|typeset|diagram)-/, (route) => route.abort());
  await tab.send('rich');
  await tab.answers.getByText('It ends.').waitFor();
  await tab.idle();
  await tab.answers.getByText('const owl: string = "barn"; // quiet').waitFor();
  await tab.answers.locator('code', { hasText: 'E = mc^2' }).waitFor();
  await tab.answers.getByText('Night --> Owl').waitFor();
  await tab.send('hello');
  await tab.answers.getByText('You said hello.').waitFor();
});

it('H8 a diagram whose frame cannot be loaded is shown by its source; the next one has another frame', async () => {
  const tab = await site.visit({ allowedErrors: /net::ERR_/ });
  await tab.page.clock.install();
  let isAway = true;
  await tab.page.route('**/diagram', (route) => (isAway ? route.abort() : route.continue()));
  await tab.send('diagram');
  await eventually(async () => {
    await tab.page.clock.fastForward(31_000);
    expect(await tab.answers.getByText('This diagram cannot be drawn.').count()).toBe(1);
  });
  await tab.answers.getByText('Night --> Owl').waitFor();
  isAway = false;
  await tab.send('diagram');
  await tab.answers.getByRole('img', { name: /flowchart/ }).waitFor();
});

it('H8 the input and output of a tool are read as a file, a table, a tree, an image or a diff', async () => {
  const tab = await site.visit({ viewport: WIDE });
  const shown = tab.answers.filter({ hasText: 'Shown.' });
  const opened = async (what: string) => {
    const newest = shown.nth(await shown.count());
    await tab.send(what);
    await newest.waitFor();
    await tab.idle();
    await newest.locator('.tool summary').filter({ hasText: 'show' }).click();
    const output = newest.getByRole('group', { name: 'Output' });
    await output.waitFor();
    return output;
  };
  const table = await opened('table');
  expect(await table.getByRole('row').allInnerTexts()).toEqual(['name\tgrams', 'Barn owl\t430', 'Eagle owl\t2800']);
  await tab.page.getByRole('group', { name: 'Input', exact: true }).locator('.hljs-name').first().waitFor();
  const tree = await opened('tree');
  await tree.getByText('barn').click();
  await tree.getByText('white').waitFor();
  const image = (await opened('image')).getByRole('img');
  await expect.poll(() => image.evaluate((element) => (element as HTMLImageElement).naturalWidth), WAIT).toBe(1);
  const diff = await opened('diff');
  await diff.locator('ins', { hasText: '+two owls' }).waitFor();
  await expectAccessible(tab);
});

it('H8 while an answer of 50 KB grows, only its last block is drawn again', async () => {
  expect(LONG.length).toBeGreaterThan(50_000);
  const tab = await site.visit();
  await tab.send('long');
  await tab.answers.getByRole('heading', { name: 'Part 349' }).waitFor();
  const known = await tab.page.evaluate(() => {
    const prose = document.querySelector('article.assistant .prose')!;
    const blocks = [...prose.children];
    const touched = new Set<number>();
    Object.assign(window, { touched });
    const onChange = (records: MutationRecord[]) => {
      for (const { target, removedNodes } of records) {
        if (target !== prose) touched.add(blocks.findIndex((block) => block.contains(target)));
        for (const node of removedNodes) touched.add(blocks.indexOf(node as Element));
      }
    };
    new MutationObserver(onChange).observe(prose, {
      childList: true,
      subtree: true,
      characterData: true,
      attributes: true,
    });
    return blocks.length;
  });
  more.resolve();
  await tab.answers.getByText('And then').waitFor();
  rest.resolve();
  await tab.answers.getByText('word39').waitFor();
  await tab.idle();
  const touched = await tab.page.evaluate(() => [...(window as unknown as { touched: Set<number> }).touched]);
  // -1 is the block that was not there before.
  expect(touched.filter((block) => block >= 0 && block < known - 1)).toEqual([]);
  expect(touched).toContain(-1);
});
