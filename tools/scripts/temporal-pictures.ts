// `npm run pictures`: runs two sessions on its own servers and takes the screenshots of Temporal's web UI for docs/operations.md:
// the list of sessions, a session's page, its history.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { parseConfig } from '../../config/config.ts';
import { createDatabase } from '../../dev/databases.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { migrate } from '../../migrations/migrate.ts';
import { launchChromium } from '../test-kit/chromium.ts';
import { callTool, hang, report, say } from '../test-kit/model-actions.ts';
import type { ModelScript } from '../test-kit/model-server.ts';
import { createNamespace } from '../test-kit/namespaces.ts';
import { TestSession } from '../test-kit/session.ts';
import { startSystem, type TestRuntime } from '../test-kit/system.ts';

const FOLDER = path.join(import.meta.dirname, '..', '..', 'docs', 'images');
/** The search of the list, in the syntax of its filters. */
const queryOf = (project: string) =>
  Object.entries({ User: 'ada', Project: project, Phase: 'building', Status: 'open' })
    .map(([name, value]) => `\`Perdure${name}\`="${value}"`)
    .join(' AND ');

/** Starts a build, writes a page, and stays in the middle of its third step. */
const building: ModelScript = (request) => {
  const since = request.messages.findLastIndex((message) => message.role === 'user');
  const tools = request.messages.slice(since).filter((message) => message.role === 'tool').length;
  const usage = report({ input: 1_200 + 300 * tools, output: 80 });
  if (tools === 0) return [callTool('call_1', 'build_and_deploy', { confirm_new_project: true }), usage];
  if (tools === 1) return [callTool('call_2', 'write_file', { path: 'index.html', content: '<h1>Hi</h1>' }), usage];
  return [say('Next comes the style sheet'), hang()];
};

async function play(runtime: TestRuntime): Promise<TestSession> {
  runtime.model.script(() => [say('hello'), report({ input: 900, output: 12 })]);
  const finished = await TestSession.open(runtime, { user: 'bob' });
  await finished.ended(await finished.send('hi'));
  const before = runtime.model.requests.length;
  runtime.model.script(building);
  const session = await TestSession.open(runtime);
  await session.send('a site');
  await runtime.model.request(before + 2);
  await session.send('and make it blue');
  return session;
}

async function picture(page: Page, url: string, name: string, until: (page: Page) => Locator): Promise<void> {
  await page.goto(url);
  await until(page).first().waitFor();
  await page.evaluate(() => document.fonts.ready.then(() => {}));
  await page.screenshot({ path: path.join(FOLDER, `${name}.png`) });
}

async function main(): Promise<void> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'perdure-pictures-'));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(scratch, { recursive: true, force: true }));
  const { dir } = parseConfig(process.env);
  const postgres = await startPostgres({ dir: path.join(scratch, 'postgres'), ephemeral: true });
  stack.defer(() => postgres.stop());
  const temporal = await startTemporal({ dir: scratch, cacheDir: dir });
  stack.defer(() => temporal.stop());
  const databaseUrl = await createDatabase(postgres.url, 'pictures');
  await migrate(databaseUrl);
  const servers = { databaseUrl, ...(await createNamespace(temporal.address)) };
  stack.defer(() => servers.client.connection.close());
  const runtime = await startSystem(servers);
  stack.defer(() => runtime.stop());
  const session = await play(runtime);
  const browser = await launchChromium();
  stack.defer(() => browser.close());
  await mkdir(FOLDER, { recursive: true });
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, colorScheme: 'light' });
  page.setDefaultTimeout(60_000);
  const list = `${temporal.uiUrl}/namespaces/${servers.namespace}/workflows`;
  const { runId } = await session.handle.describe();
  const { project_id: project } = await session.row();
  const one = `${list}/${session.id}/${runId}`;
  await picture(page, `${list}?query=${encodeURIComponent(queryOf(project ?? ''))}`, 'temporal-list', (at) =>
    at.getByText(session.id),
  );
  await picture(page, `${one}/user-metadata`, 'temporal-details', (at) =>
    // The UI shows a workflow's details in iframes.
    at.locator('iframe').last().contentFrame().getByText('last error'),
  );
  // An activity of its own, as it does not end; those of quick steps and calls are reported together.
  await picture(page, `${one}/timeline`, 'temporal-timeline', (at) => at.getByText('step 3'));
}

await main();
