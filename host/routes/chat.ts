import type { UIMessageChunk } from 'ai';
import { z } from 'zod';
import type { PerdureClient } from '../../client/client.ts';
import type { CallResponse, OpenCall, RefusedResponse, Responded } from '../../client/send/call-answers.ts';
import type { Submitted } from '../../client/send/submission.ts';
import type { Attributes } from '../../domain/attributes.ts';
import { PerdureError } from '../../domain/errors.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import {
  answeredMessage,
  chatBody,
  LEFT_OUT,
  respondedMessage,
  shownCall,
  sessionRef,
  userMessage,
} from '../../wire/requests.ts';
import { type Api, events } from '../api/api.ts';
import { expiryOf } from '../api/expiry.ts';
import type { RequestContext, RouteParts } from '../context.ts';
import { loggedProblem } from '../http/problem.ts';
import { type BodyLimit, tooLarge } from '../http/read-body.ts';
import { readTranscript } from '../http/read-transcript.ts';
import { dataLine, eventStream } from '../streams/event-stream.ts';

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

const DESCRIPTION =
  'The server stores the transcript and reads only the last entry of `messages`; unknown fields are ignored, because ' +
  'the AI SDK may send more. An `id` that is not a `ses_` id is an alias of a session of the caller; its first ' +
  'use opens the session, with `agent` if that is given. Sending a message again (same id and parts; metadata and model are not compared) ' +
  'resumes its stream: for a failed run the stored answer and its error, for a cancelled one an abort. With the ' +
  '`messageId` of a user message, the message replaces that one. `regenerate-message` answers the last message again. ' +
  'Both end the run in flight, drop what is queued and hide what came later. If the last message is an answer, its parts in ' +
  'state `approval-responded`, `output-available` and `output-error` respond to the tool call that waits: an approval once, a ' +
  'rejection, or the outcome of a call that the page carries out. The stream is then what is new to the page: what follows, and the ' +
  'outcomes of calls of that step that it shows as open (`input-available`, `approval-requested`).';

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
      description: DESCRIPTION,
      command: 'submit',
      params: {},
      body: chatBody,
      readBody: (request) => readTranscript(request, chatBody, limits),
      responses: { 200: STREAM },
      errors: [
        'SessionNotFound',
        'MessageNotFound',
        'MessageConflict',
        'ChildSession',
        'NotUserMessage',
        'MessageHidden',
        'TooMany',
        'TooManyAnswers',
        'AgentNotConfigured',
        'ModelNotConfigured',
        'ModalityNotSupported',
        'NotWaiting',
      ],
    },
    async (c, { user, body }) => {
      const say = respondingOf(client, user, body, limits.kept) ?? sayingOf(client, user, body, c.get('attributes'));
      // Before accepting the message: its sender must be able to read the answer.
      const release = readers.admit(user, 'chat');
      const submitted = await say().catch((error: unknown) => {
        release();
        throw inBody(error, body);
      });
      const { session_id: session, run_seq: run } = submitted;
      return answerStream(c, parts, {
        session,
        run,
        ...('after' in submitted && { after: submitted.after, given: submitted.given }),
        release,
      });
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
      const found = await client.runInFlight(user, params.id, { signal: c.req.raw.signal });
      if (found === undefined) return c.body(null, 204);
      return answerStream(c, parts, { ...found, release: readers.admit(user, 'chat') });
    },
  );
}

/** The error, with the fields of invalid input as the body names them. */
function inBody(error: unknown, body: ChatBody): unknown {
  if (!(error instanceof InvalidInputError)) return error;
  const isOfBody = error.errors.some(({ field }) => /^(?:agent|model)(?:$|\.)/.test(field));
  return isOfBody ? error : error.under(`messages[${body.messages.length - 1}]`);
}

/** What a page that responds to tool calls of an answer asks for; undefined: the last message is not an answer. */
function respondingOf(
  client: PerdureClient,
  user: string,
  body: ChatBody,
  limit: BodyLimit,
): (() => Promise<Responded>) | undefined {
  const last = body.messages.at(-1) as { role?: unknown } | null;
  if (last?.role !== 'assistant') return undefined;
  const { id, parts } = newestMessage(body, respondedMessage);
  const refused = tooLarge(`messages[${body.messages.length - 1}]`, limit);
  const shown = parts.flatMap((part) => {
    const { success, data } = shownCall.safeParse(part);
    return success ? [responseOf(data, refused)] : [];
  });
  return () => client.respond(user, body.id, id, shown);
}

function responseOf(
  part: z.output<typeof shownCall>,
  refused: PerdureError,
): CallResponse | RefusedResponse | OpenCall {
  const { toolCallId: tool_call_id } = part;
  switch (part.state) {
    case 'approval-responded':
      return { tool_call_id, ...part.approval };
    case 'output-available':
      // Of a preliminary one more may have come.
      return part.preliminary === true
        ? { tool_call_id, is_open: true }
        : { tool_call_id, output: part.output ?? null };
    case 'output-error':
      return { tool_call_id, error: part.errorText };
    case LEFT_OUT:
      return { tool_call_id, refused };
    case 'input-available':
    case 'approval-requested':
      return { tool_call_id, is_open: true };
  }
}

/** What the body asks for: a new message, another one in place of a stored one, or another answer. */
function sayingOf(
  client: PerdureClient,
  user: string,
  body: ChatBody,
  attributes: Attributes | undefined,
): () => Promise<Submitted> {
  const { model, messageId, agent } = body;
  if (body.trigger === 'regenerate-message') {
    const { id } = newestMessage(body, answeredMessage);
    const replaces = messageId === id ? null : messageId;
    // Never those of the last run: the caller may have fewer rights than then.
    return () => client.regenerate(user, body.id, id, { model, agent, replaces, attributes: attributes ?? {} });
  }
  const { id, parts, metadata } = newestMessage(body, userMessage);
  const submit = () => client.submit(user, body.id, { id, parts, metadata, model }, { open: true, agent, attributes });
  if (!messageId) return submit;
  return async () => {
    try {
      // The AI SDK gives the new message the id of the one that it replaces.
      const given = { id: id === messageId ? undefined : id, parts, metadata, model };
      return await client.edit(user, body.id, messageId, given, { agent, attributes });
    } catch (error) {
      const code = error instanceof PerdureError ? error.code : undefined;
      // An id that is not stored is that of a new message.
      if (code !== 'MessageNotFound' && code !== 'SessionNotFound') throw error;
      return submit();
    }
  };
}

/** The last message, the only one that is read: earlier ones are already stored. */
function newestMessage<T>(body: ChatBody, schema: z.ZodType<T>): T {
  const at = body.messages.length - 1;
  return parseInput(schema, body.messages[at], ['messages', at]);
}

function answerStream(
  c: RequestContext,
  { client, log, closing }: RouteParts,
  {
    session,
    run,
    release,
    ...from
  }: { session: string; run: number; release: () => void } & Partial<Pick<Responded, 'after' | 'given'>>,
): Response {
  const user = c.get('user');
  return eventStream<UIMessageChunk[]>({
    read: (signal) => client.followInBatches(user, session, run, { signal, ...from }),
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
