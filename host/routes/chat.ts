import type { UIMessageChunk } from 'ai';
import { z } from 'zod';
import { InvalidInput, parseInput } from '../../wire/input.ts';
import { chatBody, sessionRef, userMessage } from '../../wire/requests.ts';
import { type Api, events } from '../api.ts';
import type { RequestContext, RouteParts } from '../context.ts';
import { notYet } from '../not-yet.ts';
import { problemOf } from '../problem.ts';
import { expiryOf } from '../expiry.ts';
import { dataLine, eventStream } from '../sse.ts';
import { readTranscript } from '../transcript.ts';

type ChatBody = z.output<typeof chatBody>;

const MAX_TRANSCRIPT_BYTES = 32 * 1024 ** 2;

/** The header that names the session whose stream this is. */
const SESSION_HEADER = 'x-perdure-session';

const STREAM = events(
  "A UI message stream of the AI SDK: each event's data is a UIMessageChunk in JSON, the last is `[DONE]`. The chunk " +
    '`start` carries `messageMetadata.session_id`; a transient `data-status` part tells what the message waits for. ' +
    'When the token expires, the last event is called `expired` and is a chunk of type `error`; the run goes on.',
  {
    [SESSION_HEADER]: z.string().meta({ description: 'The `ses_` id of the session' }),
    'x-vercel-ai-ui-message-stream': z.literal('v1'),
  },
);

/** What the AI SDK's useChat speaks: a message in, a UI message stream out, and the stream again after a reload. */
export function chatRoutes(api: Api, parts: RouteParts): void {
  const { client, readers, maxBodyBytes, maxTranscriptBytes = MAX_TRANSCRIPT_BYTES } = parts;
  const limits = {
    whole: { bytes: maxTranscriptBytes, setting: 'PERDURE_MAX_TRANSCRIPT_BODY' },
    kept: { bytes: maxBodyBytes, setting: 'PERDURE_MAX_BODY' },
  };

  api.post(
    '/api/chat',
    {
      operationId: 'chat',
      tag: 'Chat',
      summary: 'Send a message and read its answer, as DefaultChatTransport does',
      description:
        'The transcript here is the truth: of `messages` only the last is read. An `id` that is not a `ses_` id is an ' +
        "alias of one of the caller's own sessions, made at first use. The same message again (same id and parts; " +
        'its metadata and model do not matter) joins the same stream: of a run that failed, the stored answer and its ' +
        'error; of one that was cancelled, an abort.',
      command: 'submit',
      params: {},
      body: chatBody,
      readBody: (request) => readTranscript(request, chatBody, limits),
      answers: { 200: STREAM },
      errors: ['SessionNotFound', 'MessageConflict', 'TooMany', 'ModelNotConfigured', 'NotSupported'],
    },
    async (c, { user, body }) => {
      const { id, parts: said, metadata } = newestMessage(body);
      if (body.messageId) await refuseEdit(parts, user, body.id, body.messageId);
      // Before the message is accepted, for its sender is to read the answer.
      const leave = readers.admit(user, 'chat');
      const submitted = await client
        .submit(user, body.id, { id, parts: said, metadata, model: body.model }, { open: true })
        .catch((error: unknown) => {
          leave();
          throw error instanceof InvalidInput ? error.under(`messages[${body.messages.length - 1}]`) : error;
        });
      return answerStream(c, parts, { session: submitted.session_id, run: submitted.run_seq, leave });
    },
  );

  api.get(
    '/api/chat/:id/stream',
    {
      operationId: 'resumeChat',
      tag: 'Chat',
      summary: 'The run in flight, from its first chunk and then live',
      params: { id: sessionRef },
      answers: { 200: STREAM, 204: { description: 'No run is in flight' } },
      errors: ['SessionNotFound', 'TooMany'],
    },
    async (c, { user, params }) => {
      const session = await client.findSession(user, params.id);
      const run = session === undefined ? undefined : await client.reads.currentRun(session);
      if (session === undefined || run === undefined) return c.body(null, 204);
      return answerStream(c, parts, { session, run, leave: readers.admit(user, 'chat') });
    },
  );
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
  { client, log, closing }: RouteParts,
  { session, run, leave }: { session: string; run: number; leave: () => void },
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
    // The AI SDK reads data lines only, whatever the event's name: for it this is an error, not the end of an answer.
    expiry: expiryOf(c, ({ detail }) => ({ type: 'error', errorText: detail })),
    onOver: leave,
  });
}
