import type { UIMessageChunk } from 'ai';
import { z } from 'zod';
import { InvalidInput, parseInput } from '../../wire/input.ts';
import { chatBody, sessionRef, userMessage } from '../../wire/requests.ts';
import { type Api, events } from '../api.ts';
import type { RequestContext, RouteParts } from '../context.ts';
import { notSupported } from '../not-supported.ts';
import { loggedProblem } from '../problem.ts';
import { expiryOf } from '../expiry.ts';
import { dataLine, eventStream } from '../sse.ts';
import { readTranscript } from '../transcript.ts';

type ChatBody = z.output<typeof chatBody>;

const MAX_TRANSCRIPT_BYTES = 32 * 1024 ** 2;

/** Response header: the id of the streamed session. */
const SESSION_HEADER = 'x-perdure-session';

const STREAM = events(
  "A UI message stream of the AI SDK: each event's data is a UIMessageChunk in JSON, the last is `[DONE]`. The chunk " +
    '`start` carries `messageMetadata.session_id`; transient `data-status` parts report the place in the queue and ' +
    'retries. When the token expires, the last event is `expired` with a chunk of type `error`; the run continues.',
  {
    [SESSION_HEADER]: z.string().meta({ description: 'The `ses_` id of the session' }),
    'x-vercel-ai-ui-message-stream': z.literal('v1'),
  },
);

/** The protocol of the AI SDK's useChat: send a message and stream its answer; resume the stream after a reload. */
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
      summary: 'Send a message and stream its answer (DefaultChatTransport)',
      description:
        'The server stores the transcript and reads only the last entry of `messages`; unknown fields are ignored, because ' +
        'the AI SDK may send more. An `id` that is not a `ses_` id is an alias of a session of the caller; its first ' +
        'use opens the session. Sending a message again (same id and parts; metadata and model are not compared) ' +
        'resumes its stream: for a failed run the stored answer and its error, for a cancelled one an abort.',
      command: 'submit',
      params: {},
      body: chatBody,
      readBody: (request) => readTranscript(request, chatBody, limits),
      responses: { 200: STREAM },
      errors: ['SessionNotFound', 'MessageConflict', 'TooMany', 'ModelNotConfigured', 'NotSupported'],
    },
    async (c, { user, body }) => {
      const { id, parts: said, metadata } = newestMessage(body);
      if (body.messageId) await refuseEdit(parts, user, body.id, body.messageId);
      // Before accepting the message: its sender must be able to read the answer.
      const release = readers.admit(user, 'chat');
      const submitted = await client
        .submit(user, body.id, { id, parts: said, metadata, model: body.model }, { open: true })
        .catch((error: unknown) => {
          release();
          throw error instanceof InvalidInput ? error.under(`messages[${body.messages.length - 1}]`) : error;
        });
      return answerStream(c, parts, { session: submitted.session_id, run: submitted.run_seq, release });
    },
  );

  api.get(
    '/api/chat/:id/stream',
    {
      operationId: 'resumeChat',
      tag: 'Chat',
      summary: 'Resume the stream of the run in flight, from its first chunk',
      params: { id: sessionRef },
      responses: { 200: STREAM, 204: { description: 'No run is in flight' } },
      errors: ['SessionNotFound', 'TooMany'],
    },
    async (c, { user, params }) => {
      const found = await client.runInFlight(user, params.id);
      if (found === undefined) return c.body(null, 204);
      return answerStream(c, parts, { ...found, release: readers.admit(user, 'chat') });
    },
  );
}

/** The last message, the only one that is read: earlier ones are already stored. */
function newestMessage(body: ChatBody) {
  if (body.trigger === 'regenerate-message') throw notSupported('regenerating an answer');
  const at = body.messages.length - 1;
  const last = body.messages[at] as { role?: unknown } | null;
  if (last?.role === 'assistant') throw notSupported('answering an approval');
  return parseInput(userMessage, last, ['messages', at]);
}

/** A `messageId` that is stored means an edit, or an answer to an approval. */
async function refuseEdit({ client }: RouteParts, user: string, id: string, messageId: string): Promise<void> {
  const session = await client.findSession(user, id);
  if (session !== undefined && (await client.reads.hasMessage(session, messageId)))
    throw notSupported('editing a message');
}

function answerStream(
  c: RequestContext,
  { client, log, closing }: RouteParts,
  { session, run, release }: { session: string; run: number; release: () => void },
): Response {
  const user = c.get('user');
  return eventStream<UIMessageChunk[]>({
    read: (signal) => client.followInBatches(user, session, run, { signal }),
    write: (chunks) => chunks.map(dataLine).join(''),
    end: 'data: [DONE]\n\n',
    fail: (error) => dataLine({ type: 'error', errorText: loggedProblem(error, log, { session, run }).detail }),
    headers: { 'x-vercel-ai-ui-message-stream': 'v1', [SESSION_HEADER]: session },
    closing,
    // The AI SDK ignores event names, so it sees an error, not the end of the answer.
    expiry: expiryOf(c, ({ detail }) => ({ type: 'error', errorText: detail })),
    onOver: release,
  });
}
