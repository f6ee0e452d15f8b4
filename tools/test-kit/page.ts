// The chat page in a real browser, before a whole system.
import path from 'node:path';
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { afterEach, expect } from 'vitest';
import { AxeBuilder } from '@axe-core/playwright';
import type { AgentDefinition } from '../../agent/define.ts';
import { buildPage } from '../dev/build-page.ts';
import type { Identify } from '../../host/context.ts';
import { staticPage } from '../../host/static-page.ts';
import { startBrowser, watchErrors } from './browser.ts';
import { startHost, type TestHost } from './host.ts';
import { startRuntime, type TestRuntime } from './runtime.ts';

/** Everything that a user of the page needs. */
export interface TestSite {
  runtime: TestRuntime;
  host: TestHost;
  browser: Browser;
  /** A new user in a browser of their own. After the test it must have had nothing to complain of. */
  visit(options?: VisitOptions): Promise<Tab>;
}

/** What browser somebody comes with, to which address of the page, and of what it may complain. */
type VisitOptions = BrowserContextOptions & { at?: string; mayComplain?: RegExp };

interface SiteOptions {
  agents?: readonly AgentDefinition[];
  /** Unset: the host takes callers at their word. */
  identify?: Identify;
}

/** Brings everything up. Call it in a beforeAll; it is gone after the file. */
export async function startSite({ identify, ...options }: SiteOptions = {}): Promise<TestSite> {
  const [runtime, browser] = await Promise.all([startRuntime(options), startBrowser(), buildPage()]);
  const page = await staticPage(path.resolve('web/dist'), { local: identify === undefined });
  const { databaseUrl, temporal, workspaces } = runtime;
  const parts = { page, ...(identify && { identify }) };
  const host = await startHost({ databaseUrl, temporal, workspaces, parts });
  const contexts: BrowserContext[] = [];
  const checks: (() => void)[] = [];
  afterEach(async () => {
    for (const context of contexts.splice(0)) await context.close();
    for (const check of checks.splice(0)) check();
  });
  const visit: TestSite['visit'] = async ({ at = '/', mayComplain, ...contextOptions } = {}) => {
    const context = await browser.newContext(contextOptions);
    contexts.push(context);
    context.on('page', (opened) => checks.push(watchErrors(opened, mayComplain)));
    return Tab.open(context, new URL(at, host.url).href);
  };
  return { runtime, host, browser, visit };
}

/** A tab with the page in it, as its user sees it. */
export class Tab {
  readonly page: Page;
  private readonly url: string;

  private constructor(page: Page, url: string) {
    this.page = page;
    this.url = url;
  }

  static async open(context: BrowserContext, url: string): Promise<Tab> {
    const page = await context.newPage();
    page.setDefaultTimeout(25_000);
    await page.goto(url);
    return new Tab(page, url);
  }

  /** One more tab of the same user; as a duplicate it comes with a copy of this one's sessionStorage. */
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
    await this.page.getByLabel('Message', { exact: true }).fill(text);
    await this.page.keyboard.press('Enter');
  }

  /**
   * Cuts the page off from the API, from now on; answers how to let it through again. The route stays: a request that is
   * on its way while a route is taken away never arrives anywhere.
   */
  async cutOff(): Promise<() => void> {
    let isOff = true;
    await this.page.route('**/api/**', (route) => (isOff ? route.abort() : route.continue()));
    return () => void (isOff = false);
  }

  button(name: string): Locator {
    return this.page.getByRole('button', { name, exact: true });
  }

  /** What the agent has said, a message each. */
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

  /** Waits until nothing is in flight. */
  async idle(): Promise<void> {
    await this.button('Stop').waitFor({ state: 'detached' });
  }

  /** Expects that axe finds nothing that keeps people out. What the agent built is not ours to judge. */
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

  /** What the server answers the user about a session. */
  async ask<T>(session: string): Promise<T> {
    const answer = await this.page.context().request.get(new URL(`/api/sessions/${session}`, this.url).href);
    return (await answer.json()) as T;
  }

  /** The name under which the page asks for its session. */
  sessionId(): Promise<string> {
    return this.page.evaluate(() => (JSON.parse(sessionStorage['perdure.session'] as string) as { id: string }).id);
  }
}
