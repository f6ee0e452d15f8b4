import { z } from 'zod';
import { PerdureError } from '../../domain/errors.ts';
import { WAITS } from '../../domain/runs.ts';
import { MAX_TIMER_MS } from '../../domain/timer.ts';
import { id as messageId, mcpMessage } from '../../wire/requests.ts';
import { type Api, events } from '../api/api.ts';
import type { RequestContext, RouteParts } from '../context.ts';
import { byteStream } from '../http/byte-stream.ts';
import { loggedProblem } from '../http/problem.ts';
import { type AgentAnswer, askAgent, type Asker } from '../mcp/ask-agent.ts';
import { loadMcpServer } from '../mcp/load-mcp-server.ts';

/** MCP clients give up a request without news after a minute. */
const NEWS_MS = 10_000;

const DESCRIPTION =
  'One JSON-RPC message of a client of the Model Context Protocol (streamable HTTP, without sessions of its own). Each agent is ' +
  'a tool `ask_<agent>` with the input `{ message?, session?, message_id? }` and the result `{ session_id, message_id, text, ' +
  'state, waiting_for?, error? }`. While the turn runs, progress notifications say what happens, the first two the session and ' +
  'the message. A call that is cancelled or loses its connection does not end the turn: another call with `session`, ' +
  '`message_id` and without `message` waits for its answer.';

/** Agents as tools of MCP clients. */
export function mcpRoutes(api: Api, parts: RouteParts): void {
  api.post(
    '/mcp',
    {
      operationId: 'mcp',
      tag: 'Chat',
      summary: 'Agents as tools, for MCP clients',
      description: DESCRIPTION,
      params: {},
      body: mcpMessage,
      responses: {
        200: events('Each event is a JSON-RPC message; the last one is the response'),
        202: { description: 'A notification was taken' },
      },
      errors: ['TooMany', 'NotSupported'],
    },
    (c, { user, body }) => serve(c, parts, { user, message: body }),
  );
}

async function serve(
  c: RequestContext,
  parts: RouteParts,
  { user, message }: { user: string; message: z.output<typeof mcpMessage> },
): Promise<Response> {
  const sdk = await loadMcpServer();
  const release = message.method === 'tools/call' ? parts.readers.admit(user, 'mcp') : () => {};
  const over = new AbortController();
  const expiresAt = c.get('expiresAt');
  const end = (reason: PerdureError) => over.abort(reason);
  const expiry =
    expiresAt === undefined
      ? undefined
      : setTimeout(() => end(EXPIRED), Math.min(Math.max(expiresAt - Date.now(), 0), MAX_TIMER_MS));
  const asker = { client: parts.client, user, attributes: c.get('attributes') };
  const server = new sdk.McpServer({ name: 'perdure', version: '1' }, { capabilities: { tools: {} } });
  const signal = AbortSignal.any([over.signal, parts.closing]);
  for (const agent of parts.client.agents()) offer(server, agent, { asker, signal, parts });
  // Without sessions of its own, so that any host answers any request.
  const transport = new sdk.WebStandardStreamableHTTPServerTransport({});
  const close = () => {
    clearTimeout(expiry);
    release();
    end(GONE);
    void server.close();
  };
  try {
    await server.connect(transport);
    const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
    const request = new Request(c.req.url, { method: 'POST', headers });
    const response = await transport.handleRequest(request, { parsedBody: message });
    if (!response.ok) throw new PerdureError('BadRequest', 'expected one JSON-RPC message of an MCP client');
    if (response.body === null) close();
    return new Response(response.body && byteStream(response.body, close), response);
  } catch (error) {
    close();
    throw error;
  }
}

const EXPIRED = new PerdureError(
  'Unauthorized',
  'the token has expired: call again with the session, and another token',
);
const GONE = new PerdureError('Unavailable', 'the caller is gone');

type McpServer = InstanceType<Awaited<ReturnType<typeof loadMcpServer>>['McpServer']>;

/** Offers an agent as a tool. */
function offer(
  server: McpServer,
  { id, description }: { id: string; description: string | undefined },
  { asker, signal, parts }: { asker: Asker; signal: AbortSignal; parts: RouteParts },
): void {
  const config = {
    description: `${description ?? `Asks the agent "${id}".`} Keeps its conversations: pass the session_id of an answer as session to go on.`,
    inputSchema: {
      message: z
        .string()
        .min(1)
        .optional()
        .describe('What to say. Without it, waits for the answer to an earlier message of the session'),
      session: z.string().min(1).optional().describe('The session to go on with; without it, a new one is opened'),
      message_id: messageId
        .optional()
        .describe(
          'An id of your own for the message, so that the same call again does not ask twice. Without message: the message whose ' +
            'answer to wait for; without both, the newest one',
        ),
    },
    outputSchema: {
      session_id: z.string(),
      message_id: z.string(),
      text: z.string(),
      state: z.enum(['finished', 'aborted', 'cancelled', 'error', 'waiting']),
      waiting_for: z
        .object({
          for: z.enum([...WAITS, 'message']),
          tool: z.string().optional(),
          tool_call_id: z.string().optional(),
          session_id: z.string().optional(),
          agent: z.string().optional(),
        })
        .optional(),
      error: z.string().optional(),
    },
  };
  server.registerTool(
    `ask_${id}`,
    config,
    async ({ message, session, message_id }, { _meta, sendNotification, signal: cancelled }) => {
      const token = _meta?.progressToken;
      let progress = 0;
      let last = '';
      const say = (what: string) => {
        last = what;
        progress += 1;
        if (token === undefined) return;
        const params = { progressToken: token, progress, message: what };
        sendNotification({ method: 'notifications/progress', params }).catch(() => {});
      };
      const news = setInterval(() => say(last), NEWS_MS);
      try {
        const reading = { signal: AbortSignal.any([signal, cancelled]), say };
        return resultOf(await askAgent(asker, { agent: id, message, session, messageId: message_id }, reading));
      } catch (error) {
        const { code, detail } = loggedProblem(signal.aborted ? signal.reason : error, parts.log, { route: '/mcp' });
        return { isError: true, content: [{ type: 'text' as const, text: `${code}: ${detail}` }] };
      } finally {
        clearInterval(news);
      }
    },
  );
}

function resultOf(answer: AgentAnswer) {
  const { session_id, message_id, text, state, error } = answer;
  const said = error === undefined ? text : `${text}\n\n${error}`.trim();
  const wait = waitText(answer);
  const ending = state === 'waiting' ? `, waiting${wait}` : state === 'finished' ? '' : `, ${state}`;
  const also = state === 'waiting' || wait === '' ? '' : `; a subagent in the background waits${wait}`;
  return {
    content: [
      { type: 'text' as const, text: said },
      { type: 'text' as const, text: `[session ${session_id}, message ${message_id}${ending}${also}]` },
    ],
    structuredContent: { ...answer },
    ...(state === 'error' && { isError: true }),
  };
}

function waitText({ waiting_for: wait }: AgentAnswer): string {
  if (wait === undefined) return '';
  if (wait.for === 'message') return ' for another message';
  const call = `call ${wait.tool_call_id} of "${wait.tool}"${wait.agent === undefined ? '' : ` by the subagent "${wait.agent}"`}`;
  return wait.for === 'approval'
    ? ` for the user's approval of ${call}`
    : ` for the user's page, which carries out ${call}`;
}
