// A model provider on loopback with OpenAI's chat completions API, scripted by a test. It records every request, and when
// the client disconnected.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ModelAction } from './model-actions.ts';
import { StreamedAnswer, WholeAnswer, type Answer } from './model-answer.ts';

/** The fields of a chat completions request that tests use. */
export type ChatRequest = {
  model: string;
  stream?: boolean;
  messages: ChatMessage[];
  tools?: { type: 'function'; function: { name: string; description?: string; parameters: unknown } }[];
  [other: string]: unknown;
};

export type ChatMessage = {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  content?: string | { type: string; text?: string }[] | null;
  tool_call_id?: string;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
};

/** A received request. Times are of `performance.now()`. */
export type RecordedRequest = {
  body: ChatRequest;
  headers: IncomingHttpHeaders;
  startedAt: number;
  /** When the connection or the answer ended. */
  endedAt: number | undefined;
  /** How it ended: the whole answer sent, closed by the client, or cut by the script. */
  end: 'answered' | 'client-closed' | 'cut' | undefined;
  /** Resolves when it has ended. */
  ended: Promise<void>;
};

/**
 * The model's response to a request. A script that is an async generator can wait for the test between its actions.
 * `index` counts the requests to this server from 0.
 */
export type ModelScript = (
  request: ChatRequest,
  index: number,
) => Iterable<ModelAction> | AsyncIterable<ModelAction> | Promise<Iterable<ModelAction>>;

/** A running model server. */
export type ModelServer = {
  /** For OPENAI_BASE_URL. */
  url: string;
  requests: RecordedRequest[];
  /** Replaces the script, from the next request on. */
  script(script: ModelScript): void;
  /** The request with this index, once it has been received. */
  request(index: number): Promise<RecordedRequest>;
  /** Also closes open connections. */
  close(): Promise<void>;
};

/** Starts a model server on a free port of the loopback interface, or on the given one. */
export async function startModelServer(first: ModelScript, port = 0): Promise<ModelServer> {
  const requests: RecordedRequest[] = [];
  const waiting: { index: number; resolve(request: RecordedRequest): void }[] = [];
  let current = first;

  const server = createServer((incoming, response) => {
    void serve(incoming, response).catch((error: unknown) => response.destroy(error as Error));
  });

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    if (incoming.method !== 'POST' || incoming.url !== '/v1/chat/completions') {
      response.writeHead(404).end();
      return;
    }
    const startedAt = performance.now();
    const body = JSON.parse(await readAll(incoming)) as ChatRequest;
    const recorded = record(body, incoming.headers, startedAt, response);
    const index = requests.push(recorded) - 1;
    for (const waiter of waiting) if (waiter.index === index) waiter.resolve(recorded);
    const answer = body.stream ? new StreamedAnswer(body.model, response) : new WholeAnswer(body.model, response);
    await act(await current(body, index), answer, recorded, response);
  }

  // A request on a connection that is being closed as idle would fail.
  server.keepAliveTimeout = 0;
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    script: (script) => void (current = script),
    request: async (index) =>
      requests[index] ?? new Promise<RecordedRequest>((resolve) => waiting.push({ index, resolve })),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * The text of the last user message of a request, by which scripts choose their actions. Messages in a row come as one: of its
 * text what follows the last empty line.
 */
export function lastUserText(request: ChatRequest): string {
  const content = request.messages.findLast((message) => message.role === 'user')?.content ?? '';
  const text = typeof content === 'string' ? content : content.map((part) => part.text ?? '').join('');
  return text.slice(text.lastIndexOf('\n\n') + 1).trimStart();
}

function record(body: ChatRequest, headers: IncomingHttpHeaders, startedAt: number, response: ServerResponse) {
  const recorded: RecordedRequest = {
    body,
    headers,
    startedAt,
    endedAt: undefined,
    end: undefined,
    ended: once(response, 'close').then(() => {
      recorded.endedAt = performance.now();
      recorded.end ??= response.writableFinished ? 'answered' : 'client-closed';
    }),
  };
  return recorded;
}

async function act(
  actions: Iterable<ModelAction> | AsyncIterable<ModelAction>,
  answer: Answer,
  recorded: RecordedRequest,
  response: ServerResponse,
): Promise<void> {
  for await (const action of actions) {
    if (response.destroyed) return;
    if (action.do === 'cut') {
      recorded.end = 'cut';
      // Flushes first: destroying the socket drops data that is not written yet.
      if (response.headersSent) await new Promise((resolve) => response.write(':\n\n', resolve));
      response.destroy();
    } else if (action.do === 'raw') {
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(action.text);
    } else if (action.do === 'hang') {
      await recorded.ended;
    } else if (action.do === 'fail') {
      const { status, headers, code, message } = action;
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify({ error: { message, type: 'scripted', param: null, code } }));
      return;
    } else {
      answer.add(action);
      if (response.writableNeedDrain) await Promise.race([once(response, 'drain'), recorded.ended]);
    }
  }
  if (!response.destroyed) answer.end();
}

async function readAll(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
