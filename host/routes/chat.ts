import type { UIMessageChunk } from 'ai';
import type { z } from 'zod';
import { chatBody, userMessage } from '../../domain/wire.ts';
import { parseInput, readBody } from '../body.ts';
import type { App, RequestContext, RouteParts } from '../context.ts';
import { notYet } from '../not-yet.ts';
import { problemOf } from '../problem.ts';
import { dataLine, eventStream } from '../sse.ts';

type ChatBody = z.output<typeof chatBody>;

/** The header that names the session whose stream this is. */
const SESSION_HEADER = 'x-perdure-session';

/** What the AI SDK's useChat speaks: a message in, a UI message stream out, and the stream again after a reload. */
export function chatRoutes(app: App, parts: RouteParts): void {
  const { client, maxBodyBytes } = parts;

  app.post('/api/chat', async (c) => {
    c.set('command', 'submit');
    const user = c.get('user');
    const body = await readBody(c.req.raw, chatBody, maxBodyBytes);
    const message = newestMessage(body);
    if (body.messageId) await refuseEdit(parts, user, body.id, body.messageId);
    const submitted = await client.submit(user, body.id, { ...message, model: body.model }, { open: true });
    return answerStream(c, parts, submitted.session_id, submitted.run_seq);
  });

  app.get('/api/chat/:id/stream', async (c) => {
    const user = c.get('user');
    const session = await client.findSession(user, c.req.param('id'));
    const run = session === undefined ? undefined : await client.reads.currentRun(user, session);
    if (session === undefined || run === undefined) return c.body(null, 204);
    return answerStream(c, parts, session, run);
  });
}

/** The last message, which is the only one that is read: what came before it is stored here. */
function newestMessage(body: ChatBody) {
  if (body.trigger === 'regenerate-message') throw notYet('regenerating an answer');
  const at = body.messages.length - 1;
  const last = body.messages[at] as { role?: unknown } | null;
  if (last?.role === 'assistant') throw notYet('answering an approval');
  return parseInput(userMessage, last, ['messages', at]);
}

/** A stored message that is named is to be edited, or its approvals answered. */
async function refuseEdit({ client }: RouteParts, user: string, id: string, messageId: string): Promise<void> {
  const session = await client.findSession(user, id);
  if (session !== undefined && (await client.reads.hasMessage(session, messageId))) throw notYet('editing a message');
}

function answerStream(
  c: RequestContext,
  { client, metrics, log, closing }: RouteParts,
  session: string,
  run: number,
): Response {
  const user = c.get('user');
  return eventStream<UIMessageChunk[]>({
    read: (signal) => client.followInBatches(user, session, run, { signal }),
    write: (chunks) => chunks.map(dataLine).join(''),
    end: 'data: [DONE]\n\n',
    fail: (error) => {
      log.error({ err: error, session, run }, 'a stream failed');
      return dataLine({ type: 'error', errorText: problemOf(error).detail });
    },
    headers: { 'x-vercel-ai-ui-message-stream': 'v1', [SESSION_HEADER]: session },
    closing,
    onOver: metrics.streamOpened('chat'),
  });
}
