import { setTimeout as delay } from 'node:timers/promises';
import pTimeout from 'p-timeout';
import { canonicalJson } from '../../domain/canonical-json.ts';
import { type McpTransport, placeOf } from '../definition/mcp-server-definition.ts';
import type { CallResult } from './call-result.ts';
import { mcpFailure } from './mcp-failure.ts';
import { type McpCallOptions, type ListedTool, McpSession } from './mcp-session.ts';

/** Writes to the worker's log; it removes secrets. */
export interface McpLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface Options {
  /** Names of the server, for the log. */
  server: string;
  transport: McpTransport;
  /** Most time for connecting and listing the tools, in milliseconds. */
  connectMs: number;
  log: McpLog;
  /** Takes a list of tools, before it is used. */
  take(tools: readonly ListedTool[]): Promise<void>;
}

/** Pauses between attempts, each twice as long as the one before. */
const PAUSE_MS = { first: 250, longest: 30_000 };
/** A connection that is lost earlier than this counts as an attempt that failed. */
const STABLE_MS = 30_000;
/** Time between two lists, however often the server says that they change. */
const RELIST_MS = 1_000;

/** The connection to an MCP server: made again, with growing pauses, whenever it is lost. */
export class McpConnection {
  /** Settles when the first attempt has ended. */
  readonly tried: Promise<void>;
  private readonly options: Options;
  private readonly closing = new AbortController();
  private readonly ended: Promise<void>;
  private session: McpSession | undefined;
  private listed: readonly ListedTool[] | undefined;
  /** Settles with the end of the attempt under way, or of the next one. */
  private attempt = Promise.withResolvers<void>();
  /** A call needs the server: the next attempt comes sooner. */
  private wanted = new AbortController();
  private listing: Promise<void> | undefined;
  private listAgain = false;

  constructor(options: Options) {
    this.options = options;
    this.tried = this.attempt.promise;
    this.ended = this.keep();
  }

  get isConnected(): boolean {
    return this.session?.isClosed === false;
  }

  /** The newest list of tools; undefined: the server was never reached. */
  get tools(): readonly ListedTool[] | undefined {
    return this.listed;
  }

  /**
   * Calls a tool. A call that the server never got, or one that may be repeated, is sent once more over a new connection.
   * @throws {Error} saying for the model what went wrong; the signal's reason
   */
  async call(
    { tool, input, repeatable }: { tool: string; input: Record<string, unknown>; repeatable: boolean },
    options: McpCallOptions,
  ): Promise<CallResult> {
    for (let isFirst = true; ; isFirst = false) {
      const session = await this.connected(options.signal);
      try {
        return await session.call(tool, input, options);
      } catch (error) {
        options.signal.throwIfAborted();
        const failure = mcpFailure(error, { isClosed: session.isClosed, timeoutMs: options.timeoutMs });
        if (failure.kind === 'answered') throw new Error(`the MCP server ${failure.message}`, { cause: error });
        if (failure.kind === 'unsent') await session.close();
        if (isFirst && (failure.kind === 'unsent' || repeatable)) continue;
        throw new Error(failure.kind === 'unsent' ? AWAY : LOST, { cause: error });
      }
    }
  }

  async close(): Promise<void> {
    this.closing.abort();
    await this.session?.close();
    await this.ended;
  }

  /** The connection; without one, the next attempt's. @throws {Error} the server is away */
  private async connected(signal: AbortSignal): Promise<McpSession> {
    if (!this.isConnected) {
      this.wanted.abort();
      await pTimeout(this.attempt.promise, { milliseconds: Infinity, signal });
      signal.throwIfAborted();
    }
    if (this.session === undefined) throw new Error(AWAY);
    return this.session;
  }

  private async keep(): Promise<void> {
    const { signal } = this.closing;
    for (let failures = 0; !signal.aborted;) {
      this.session = await this.tryToOpen(failures === 0);
      const { attempt } = this;
      this.attempt = Promise.withResolvers();
      attempt.resolve();
      if (this.listAgain) this.relist();
      const since = this.session ? performance.now() : Infinity;
      await this.session?.closed;
      failures = performance.now() - since >= STABLE_MS ? 0 : failures + 1;
      this.noteLoss();
      await this.pause(PAUSE_MS.first * 2 ** Math.max(failures - 1, 0));
    }
    this.attempt.resolve();
  }

  /** Of attempts that fail one after another the first is logged. */
  private async tryToOpen(isFirst: boolean): Promise<McpSession | undefined> {
    const { server, transport, log } = this.options;
    const place = placeOf(transport);
    try {
      const session = await this.open();
      log.info({ server, place, tools: this.listed?.length }, 'connected to an MCP server');
      return session;
    } catch (error) {
      if (isFirst && !this.closing.signal.aborted)
        log.warn(
          { server, place, reason: errorReason(error) },
          'an MCP server cannot be reached: its tools are missing',
        );
      return undefined;
    }
  }

  private noteLoss(): void {
    const { server, transport, log } = this.options;
    if (this.session !== undefined && !this.closing.signal.aborted)
      log.warn({ server, place: placeOf(transport) }, 'the connection to an MCP server was lost');
    this.session = undefined;
  }

  /** Waits before the next attempt; briefly, if a call needs the server. */
  private async pause(ms: number): Promise<void> {
    const { signal } = this.closing;
    const wait = (rest: number, until: AbortSignal) => delay(rest, undefined, { signal: until }).catch(() => {});
    await wait(PAUSE_MS.first, signal);
    const rest = Math.min(ms, PAUSE_MS.longest) - PAUSE_MS.first;
    if (rest > 0) await wait(rest, AbortSignal.any([signal, this.wanted.signal]));
    this.wanted = new AbortController();
  }

  /** Connects, lists the tools and has them taken. */
  private async open(): Promise<McpSession> {
    const { transport, connectMs, server, log } = this.options;
    const deadline = AbortSignal.timeout(connectMs);
    const signal = AbortSignal.any([this.closing.signal, deadline]);
    const limits = { signal, timeoutMs: connectMs };
    const session = await McpSession.open(
      transport,
      {
        listChanged: () => this.relist(),
        stderr: (line) => log.debug({ server, line }, 'an MCP server wrote to stderr'),
        refused: (method) => log.warn({ server, method }, 'refused a request of an MCP server'),
        flooded: (reason) => log.warn({ server, reason }, 'an MCP server sends too much: its connection is closed'),
      },
      limits,
    );
    try {
      await this.list(session, limits);
    } catch (error) {
      await session.close();
      throw error;
    }
    return session;
  }

  /** @returns whether the list is another one than before */
  private async list(session: McpSession, limits: { signal: AbortSignal; timeoutMs: number }): Promise<boolean> {
    const tools = await session.list(limits);
    if (this.listed !== undefined && canonicalJson(tools) === canonicalJson(this.listed)) return false;
    await this.options.take(tools);
    this.listed = tools;
    return true;
  }

  /** Lists the tools again, once for all changes meanwhile. */
  private relist(): void {
    const { session, options } = this;
    // Also while a connection is made.
    if (session === undefined || this.listing !== undefined) {
      this.listAgain = true;
      return;
    }
    this.listAgain = false;
    const limits = { signal: this.closing.signal, timeoutMs: options.connectMs };
    this.listing = this.list(session, limits)
      .then((isNew) => {
        if (isNew) options.log.info({ server: options.server }, 'an MCP server has another list of tools');
      })
      .catch((error: unknown) => {
        if (!this.closing.signal.aborted)
          options.log.warn(
            { server: options.server, reason: errorReason(error) },
            'the tools of an MCP server were not listed again',
          );
      })
      .then(() => delay(RELIST_MS, undefined, { signal: this.closing.signal, ref: false }).catch(() => {}))
      .then(() => {
        this.listing = undefined;
        if (this.listAgain && !this.closing.signal.aborted) this.relist();
      });
  }
}

const AWAY = 'the MCP server cannot be reached now';
const LOST = 'the MCP server was lost while this ran, so its outcome is unknown';

/** The message of an error, and of its cause. */
export function errorReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return error.message + cause;
}
