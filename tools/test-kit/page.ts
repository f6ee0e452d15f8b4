// The chat page in a real browser, with a whole system behind it.
import path from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { type AgentDefinition, manifestRules, usesPhases } from '../../agent/definition/define.ts';
import type { Identify } from '../../host/context.ts';
import { staticPage } from '../../host/http/static-page.ts';
import { buildPage } from '../scripts/build-page.ts';
import { startBrowser, WAIT, watchErrors } from './browser.ts';
import { eventually } from './eventually.ts';
import { startHost, type TestHost } from './host.ts';
import { type RuntimeOptions, startRuntime, type TestRuntime } from './runtime.ts';

/** A system with a browser for its page. */
export interface TestSite {
  runtime: TestRuntime;
  host: TestHost;
  browser: Browser;
  /** A new user with a browser context of their own, whose console must have no errors at the end of the test. */
  visit(options?: VisitOptions): Promise<Tab>;
}

/** The browser context, the path of the page, and console errors that are allowed. */
type VisitOptions = BrowserContextOptions & { at?: string; allowedErrors?: RegExp };

interface SiteOptions {
  /** The models that the host offers; default: those of test hosts. */
  models?: readonly string[];
  /** The first is the one of the page's sessions. */
  agents?: readonly AgentDefinition[];
  settings?: NonNullable<RuntimeOptions['settings']>;
  hooks?: NonNullable<RuntimeOptions['hooks']>;
  /** The bucket of attachments; unset: they are in Postgres. */
  s3?: NonNullable<RuntimeOptions['s3']>;
  /** Unset: the host trusts the user header. */
  identify?: Identify;
}

/** Starts everything and stops it after the file. Call it in a beforeAll. */
export async function startSite({ identify, models, ...options }: SiteOptions = {}): Promise<TestSite> {
  const [runtime, browser] = await Promise.all([startRuntime(options), startBrowser(), buildPage()]);
  const local = identify === undefined;
  const page = await staticPage(path.resolve('web/dist'), { local });
  const { databaseUrl, temporal, workspaces } = runtime;
  const parts = { page, ...(identify && { identify }) };
  const [own, ...others] = options.agents ?? [];
  const known = own && {
    agents: [own, ...others].map(({ id }) => id) as [string, ...string[]],
    modelOf: (id: string) => options.agents?.find((agent) => agent.id === id)?.model,
    rules: manifestRules(own),
    usesPhases: usesPhases(own),
  };
  const host = await startHost({
    databaseUrl,
    temporal,
    workspaces,
    local,
    parts,
    ...(models && { models }),
    ...(options.s3 && { clientOptions: { s3: options.s3 } }),
    ...known,
  });
  const visit: TestSite['visit'] = async ({ at = '/', allowedErrors, ...contextOptions } = {}) => {
    const context = await browser.newContext(contextOptions);
    context.setDefaultTimeout(WAIT.timeout);
    const checks: (() => void)[] = [];
    onTestFinished(async () => {
      await context.close();
      for (const check of checks) check();
    });
    context.on('page', (opened) => checks.push(watchErrors(opened, allowedErrors)));
    return Tab.open(context, new URL(at, host.url).href);
  };
  return { runtime, host, browser, visit };
}

/** A tab with the page. */
export class Tab {
  readonly page: Page;
  private readonly url: string;

  private constructor(page: Page, url: string) {
    this.page = page;
    this.url = url;
  }

  static async open(context: BrowserContext, url: string): Promise<Tab> {
    const page = await context.newPage();
    await page.goto(url);
    return new Tab(page, url);
  }

  /** Another tab of the same user; a duplicate gets a copy of this tab's sessionStorage. */
  async another({ duplicate = false } = {}): Promise<Tab> {
    const context = this.page.context();
    if (!duplicate) return Tab.open(context, this.url);
    const copy = await this.page.evaluate(() => Object.entries(sessionStorage));
    const page = await context.newPage();
    await page.addInitScript((items) => {
      if (sessionStorage.length === 0) for (const [key, value] of items) sessionStorage[key] = value;
    }, copy);
    await page.goto(this.url);
    return new Tab(page, this.url);
  }

  async send(text: string): Promise<void> {
    const field = this.page.getByLabel('Message', { exact: true });
    // The sign-in form takes the focus from an empty field, and with it a text that is being filled in.
    await eventually(async () => {
      await field.fill(text);
      expect(await field.inputValue()).toBe(text);
    });
    await field.press('Enter');
  }

  /**
   * Blocks the page's requests to the API; the returned function unblocks them. The route is kept, because a request in
   * flight while a route is removed is lost.
   */
  async cutOff(): Promise<() => void> {
    let isOff = true;
    await this.page.route('**/api/**', (route) => (isOff ? route.abort() : route.continue()));
    return () => void (isOff = false);
  }

  button(name: string): Locator {
    return this.page.getByRole('button', { name, exact: true });
  }

  /** The user's sessions; on a narrow page only while the drawer is open. */
  get sessions(): Locator {
    return this.page.getByRole('navigation', { name: 'Sessions' });
  }

  /** A session in the list, without its branches. */
  row(name: string): Locator {
    return this.sessions.locator('.session').filter({ has: this.page.getByRole('link', { name }) });
  }

  /** Chooses from the menu of a session in the list. */
  async choose(name: string, action: string): Promise<void> {
    await this.row(name).getByRole('button', { name: 'More' }).click();
    await this.page.getByRole('menuitem', { name: action }).click();
  }

  /** The agent's messages. */
  get answers(): Locator {
    return this.page.locator('article.assistant');
  }

  get conversation(): Locator {
    return this.page.getByRole('log');
  }

  get status(): Locator {
    return this.page.getByRole('status');
  }

  /** Waits until the session is in a phase. */
  async inPhase(name: string): Promise<void> {
    await this.page.locator('.phases [aria-current=step]', { hasText: name }).waitFor();
  }

  /** Waits until no run is in flight. */
  async idle(): Promise<void> {
    await this.button('Stop').waitFor({ state: 'detached' });
  }

  /** Expects that axe finds no violations; the site that the agent built is not checked. */
  async expectAccessible(): Promise<void> {
    const axe = new AxeBuilder({ page: this.page }).exclude('iframe').options({ iframes: false, preload: false });
    const { violations } = await axe.analyze();
    const found = violations.map(({ id, help, nodes }) => ({
      id,
      help,
      at: nodes.map(({ target }) => target.join(' ')),
    }));
    expect(found).toEqual([]);
  }

  /** The session as the API returns it to the user. */
  async ask<T>(session: string): Promise<T> {
    const answer = await this.page.context().request.get(new URL(`/api/sessions/${session}`, this.url).href);
    return (await answer.json()) as T;
  }

  /** The session id or alias that the page uses. */
  sessionId(): Promise<string> {
    return this.page.evaluate(() => {
      const [, named] = /^\/s\/(.+)$/.exec(location.pathname) ?? [];
      return named ?? (JSON.parse(sessionStorage['perdure.session'] as string) as { id: string }).id;
    });
  }
}
