import type { Readable } from 'node:stream';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Progress } from '@modelcontextprotocol/sdk/types.js';
import type { McpTransport } from '../definition/mcp-server-definition.ts';
import type { CallResult } from './call-result.ts';
import {
  answerEnded,
  BrokenAnswerError,
  fetchWatched,
  MOST_MESSAGE_BYTES,
  TooLargeAnswerError,
} from './fetch-watched.ts';
import { loadMcpSdk, type McpSdk } from './load-mcp-sdk.ts';

/** A tool as its server lists it. */
export interface ListedTool {
  name: string;
  title?: string | undefined;
  description?: string | undefined;
  inputSchema: Record<string, unknown>;
  annotations?:
    | {
        readOnlyHint?: boolean | undefined;
        idempotentHint?: boolean | undefined;
        destructiveHint?: boolean | undefined;
      }
    | undefined;
}

/** What a server is told besides calls. */
export interface SessionEvents {
  /** The server's list of tools has changed. */
  listChanged(): void;
  /** A line that a server's process wrote to stderr. */
  stderr(line: string): void;
  /** The server asked for something that is refused, such as `sampling/createMessage`; told once of each. */
  refused(method: string): void;
  /** The connection is closed because the server sends too much. */
  flooded(reason: string): void;
}

export interface McpCallOptions {
  signal: AbortSignal;
  timeoutMs: number;
  onProgress: (progress: { progress: number; total?: number; message?: string }) => void;
}

/** Of a server's list of tools. */
const MOST_PAGES = 100;
const MOST_TOOLS = 1_000;
const MOST_LIST_CHARACTERS = 4 * 1024 ** 2;
/** Answers to a server's requests that it has not taken yet. */
const MOST_UNTAKEN = 100;
/** Requests of a server that the log names, for each connection. */
const MOST_REFUSALS_LOGGED = 10;
/** Of texts of a server that are shown or logged. */
const MOST_CHARACTERS = 1_000;
/** What has arrived is read within microtasks. */
const READ_MS = 100;

/** One connection to an MCP server, from its handshake until it is closed or lost. */
export class McpSession {
  /** Settles when the connection is closed or lost. */
  readonly closed: Promise<void>;
  private readonly sdk: McpSdk;
  private readonly client: Client;
  private hasEnded = false;

  private constructor(sdk: McpSdk, events: SessionEvents) {
    this.sdk = sdk;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    // Without capabilities: servers are told that there is neither sampling nor elicitation.
    this.client = new sdk.Client({ name: 'perdure', version: '1' }, { capabilities: {} });
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK's clients are no event targets
    this.client.onclose = () => {
      this.hasEnded = true;
      resolve();
    };
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- as above
    this.client.onerror = (error) => {
      // The SDK has given up the stream on which the server sends on its own.
      if (error.message.startsWith('Maximum reconnection attempts')) void this.close();
      // Of stdio; the SDK closes the connection.
      if (error.message.startsWith('ReadBuffer exceeded')) events.flooded(new TooLargeAnswerError().message);
    };
    const refused = new Set<string>();
    this.client.fallbackRequestHandler = ({ method: asked }) => {
      const method = asked.slice(0, MOST_CHARACTERS);
      if (!refused.has(method) && refused.size < MOST_REFUSALS_LOGGED) events.refused(method);
      if (refused.size < MOST_REFUSALS_LOGGED) refused.add(method);
      const message = `Perdure does not carry out ${method}: ask for what is needed in the tool's result`;
      return Promise.reject(new sdk.McpError(sdk.ErrorCode.MethodNotFound, message));
    };
    this.client.setNotificationHandler(sdk.ToolListChangedNotificationSchema, () => events.listChanged());
  }

  get isClosed(): boolean {
    return this.hasEnded;
  }

  /**
   * Connects to a server.
   * @param options.signal ends the attempt
   * @throws what went wrong; {DefinitionError} the SDK is not installed
   */
  static async open(
    transport: McpTransport,
    events: SessionEvents,
    { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
  ): Promise<McpSession> {
    const sdk = await loadMcpSdk();
    let isFlooded = false;
    const flooded = (reason: string) => {
      if (isFlooded) return;
      isFlooded = true;
      events.flooded(reason);
      stop(made);
    };
    const guarded = { ...events, flooded };
    const made = transportOf(sdk, transport, guarded);
    const session = new McpSession(sdk, guarded);
    try {
      await session.client.connect(made, { signal, timeout: timeoutMs });
    } catch (error) {
      await session.close();
      throw error;
    }
    return session;
  }

  /** All tools of the server. */
  async list(options: { signal: AbortSignal; timeoutMs: number }): Promise<ListedTool[]> {
    if (this.client.getServerCapabilities()?.tools === undefined) return [];
    const { signal, timeoutMs: timeout } = options;
    const tools: ListedTool[] = [];
    let characters = 0;
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const request = { method: 'tools/list' as const, params: cursor === undefined ? {} : { cursor } };
      // Not `listTools`, which compiles the schemas of outputs.
      const listed = await this.client.request(request, this.sdk.ListToolsResultSchema, { signal, timeout });
      tools.push(...listed.tools);
      characters += JSON.stringify(listed.tools).length;
      if (tools.length > MOST_TOOLS || characters > MOST_LIST_CHARACTERS)
        throw new Error(`the list of tools has more than ${MOST_TOOLS} tools or ${MOST_LIST_CHARACTERS} characters`);
      cursor = listed.nextCursor;
      if (cursor === undefined) return tools;
    }
    throw new Error(`the list of tools has more than ${MOST_PAGES} pages`);
  }

  /**
   * Calls a tool. When the signal fires, the server is told to cancel.
   * @throws {BrokenAnswerError} the answer was lost; {TooLargeAnswerError}; the SDK's errors
   */
  async call(name: string, input: Record<string, unknown>, options: McpCallOptions): Promise<CallResult> {
    const { signal, timeoutMs, onProgress } = options;
    const broken = new AbortController();
    let canResume = false;
    let timer: NodeJS.Timeout | undefined;
    const ended = (error: unknown) => {
      if (error instanceof TooLargeAnswerError) broken.abort(error);
      timer = setTimeout(() => {
        if (!canResume) broken.abort(new BrokenAnswerError());
      }, READ_MS);
    };
    try {
      return await answerEnded.run(ended, () =>
        this.client.request(
          { method: 'tools/call', params: { name, arguments: input } },
          this.sdk.CallToolResultSchema,
          {
            signal: AbortSignal.any([signal, broken.signal]),
            timeout: timeoutMs,
            onprogress: (progress) => onProgress(reported(progress)),
            onresumptiontoken: () => (canResume = true),
          },
        ),
      );
    } catch (error) {
      if (broken.signal.aborted) throw broken.signal.reason as Error;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the connection; a server's process gets a few seconds to end by itself. */
  async close(): Promise<void> {
    await this.client.close().catch(() => {});
    this.client.onclose?.();
  }
}

function reported({ progress, total, message }: Progress) {
  return {
    progress,
    ...(total !== undefined && { total }),
    ...(message !== undefined && { message: message.slice(0, MOST_CHARACTERS) }),
  };
}

type Transport = Parameters<Client['connect']>[0];

function transportOf(sdk: McpSdk, transport: McpTransport, events: SessionEvents): Transport {
  if (transport.type === 'http') {
    const { url, headers } = transport;
    const http = new sdk.StreamableHTTPClientTransport(new URL(url), {
      ...(headers && { requestInit: { headers } }),
      fetch: fetchWatched,
    });
    return withBoundedAnswers(http, events);
  }
  const { command, args, env, cwd } = transport;
  const stdio = new sdk.StdioClientTransport({
    ...{ command, stderr: 'pipe', maxBufferSize: MOST_MESSAGE_BYTES },
    ...(args && { args }),
    ...(env && { env }),
    ...(cwd !== undefined && { cwd }),
  });
  const { stderr } = stdio;
  if (stderr) readLines(stderr as Readable, (line) => events.stderr(line));
  return withBoundedAnswers(stdio, events);
}

/** Closes the connection to a server that asks on and on and does not take the answers: they would fill this process's memory. */
function withBoundedAnswers(transport: Transport, events: SessionEvents): Transport {
  const send = transport.send.bind(transport);
  let untaken = 0;
  transport.send = async (message, options) => {
    if ('method' in message) return send(message, options);
    if (untaken === MOST_UNTAKEN) {
      events.flooded('requests whose answers it does not take');
    }
    if (untaken >= MOST_UNTAKEN) return;
    untaken += 1;
    await send(message, options).finally(() => (untaken -= 1));
  };
  return transport;
}

/** Ends a connection at once: a process that goes on sending while it is asked to end would keep this one busy. */
function stop(transport: Transport & { pid?: number | null }): void {
  try {
    if (transport.pid) process.kill(transport.pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
  transport.close().catch(() => {});
}

/** Calls `take` with each line; of a long one only with its beginning. */
function readLines(stream: Readable, take: (line: string) => void): void {
  let line = '';
  stream.setEncoding('utf8').on('data', (text: string) => {
    const [first = '', ...others] = text.split('\n');
    line = (line + first).slice(0, MOST_CHARACTERS);
    for (const next of others) {
      take(line);
      line = next.slice(0, MOST_CHARACTERS);
    }
  });
  stream.on('end', () => line !== '' && take(line));
}
