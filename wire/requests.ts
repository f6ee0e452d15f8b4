import { z } from 'zod';
import { isAlias, MAX_ALIAS_BYTES } from '../domain/alias.ts';
import { ID_EXPECTED, ID_PATTERN } from '../domain/command-table.ts';

// Schemas of HTTP requests. Our own bodies and queries refuse unknown fields; in AI SDK types they are ignored. Every
// message completes the sentence "<field>: expected …".

const MAX_PARTS = 100;
const MAX_REASON = 2_000;

const WHOLE_NUMBER = 'a whole number of at most 9 digits';
const MODEL_EXPECTED = 'a model such as "openai/gpt-5", or { provider_id, model_id }';

export const id = z.string(ID_EXPECTED).regex(ID_PATTERN, ID_EXPECTED);
const json = z.record(z.string(), z.unknown(), 'an object');
/** Of sessions and messages. Their limits are in bytes of JSON, which a JSON schema cannot express. */
const metadata = json.meta({ description: 'Any object. Keys reserved for the system are dropped.' });

export const idempotencyKey = id.meta({
  description:
    'Chosen by the caller. A command repeated with the same key is not carried out again and gets the same response.',
});

const modelString = z.string(MODEL_EXPECTED).max(200, MODEL_EXPECTED);

/** `provider/model`, or its parts as an object; the output is always `provider/model`. */
export const modelRef = z.union(
  [
    modelString.regex(/^[^/\s]+\/\S+$/, MODEL_EXPECTED),
    z
      .strictObject(
        {
          provider_id: modelString.regex(/^[^/\s]+$/, 'the name of a provider'),
          model_id: modelString.regex(/^\S+$/, 'the name of a model'),
        },
        MODEL_EXPECTED,
      )
      .transform((model) => `${model.provider_id}/${model.model_id}`),
  ],
  MODEL_EXPECTED,
);

const URL_EXPECTED = 'a data: URL in base64, such as data:image/png;base64,iVBORw0KGgo=';
/** Only embedded content: for other URLs the server would have to fetch from arbitrary addresses. */
const DATA_URL =
  /^data:[\w.+-]+\/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*;base64,(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A part of a user message. Other fields are dropped. */
export const userPart = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text'), text: z.string('a string') }),
    z.object({
      type: z.literal('file'),
      mediaType: z
        .string('a media type such as image/png')
        .regex(/^[\w.+-]+\/[\w.+*-]+/, 'a media type such as image/png'),
      filename: z.string('a string').max(256, 'at most 256 characters').optional(),
      url: z.string(URL_EXPECTED).regex(DATA_URL, URL_EXPECTED),
    }),
  ],
  'a part of type text or file',
);
const userParts = z.array(userPart, 'an array of parts').max(MAX_PARTS, `at most ${MAX_PARTS} parts`);

export const openBody = z.strictObject({
  agent: z.string('the id of an agent').max(128, 'the id of an agent').optional(),
  project_id: id.nullish(),
  model: modelRef.nullish(),
  workspace_root: z.string('a folder below the workspaces').min(1).max(1_024).nullish(),
  metadata: metadata.optional(),
});

export const submitBody = z
  .strictObject({
    id: id.optional(),
    text: z.string('a string').optional(),
    parts: userParts.optional(),
    metadata: metadata.optional(),
    model: modelRef.nullish(),
  })
  .refine((body) => (body.text === undefined) !== (body.parts === undefined), {
    path: ['text'],
    message: 'either text or parts',
  })
  .meta({ override: { oneOf: [{ required: ['text'] }, { required: ['parts'] }] } });

/** The last message of a chat body, if it is the user's. */
export const userMessage = z.object({
  id,
  role: z.literal('user'),
  parts: userParts,
  metadata: json.nullish(),
});

const CHAT_ID_EXPECTED = `the chat's id, 1 to ${MAX_ALIAS_BYTES} bytes with no control characters`;

const chatId = z
  .string(CHAT_ID_EXPECTED)
  .min(1, CHAT_ID_EXPECTED)
  .max(MAX_ALIAS_BYTES, CHAT_ID_EXPECTED)
  .refine(isAlias, CHAT_ID_EXPECTED);

/** A session in a path or a query. Only for the description: an invalid id gets SessionNotFound. */
export const sessionRef = chatId.meta({ description: "A session's `ses_` id, or one of the caller's aliases" });
export const messageRef = id.meta({ description: 'The id of a message' });
export const toolCallRef = z.string().min(1).max(128).meta({ description: 'The id of a tool call' });

/** The body that DefaultChatTransport sends. Unknown fields are ignored, because the AI SDK may send more. */
export const chatBody = z.looseObject({
  id: chatId,
  messages: z.array(z.unknown(), 'an array of messages').min(1, 'at least one message'),
  trigger: z.enum(['submit-message', 'regenerate-message'], '"submit-message" or "regenerate-message"').optional(),
  messageId: z.string('the id of a message').nullish(),
  model: modelRef.nullish(),
});

export const reason = z.string('a string').max(MAX_REASON, `at most ${MAX_REASON} characters`).nullish();

/** A number in a query string. */
const wholeNumber = (least: number) =>
  z
    .string(WHOLE_NUMBER)
    .regex(/^\d{1,9}$/, WHOLE_NUMBER)
    .transform(Number)
    .refine((value) => value >= least, `a number of at least ${least}`);
/** Describes a query parameter by its parsed type instead of text. */
const describedAs = (type: object, description?: string) => ({
  ...(description !== undefined && { description }),
  override: ({ jsonSchema }: { jsonSchema: object }) => {
    for (const name of ['enum', 'pattern', 'type']) Reflect.deleteProperty(jsonSchema, name);
    Object.assign(jsonSchema, type);
  },
});
const whole = (minimum: number) => ({ type: 'integer', minimum, maximum: 999_999_999 });
const flag = z
  .enum(['true', 'false'], 'true or false')
  .transform((text) => text === 'true')
  .meta(describedAs({ type: 'boolean' }));

/** Default page length. */
const PAGE = 50;
const MAX_PAGE = 200;
const capped = (given: number) => Math.min(given, MAX_PAGE);
const limit = wholeNumber(1)
  .transform(capped)
  .meta(
    describedAs({ ...whole(1), default: PAGE }, `Length of the page; values above ${MAX_PAGE} count as ${MAX_PAGE}`),
  )
  .default(PAGE);

/** Text that filters a list. */
const term = z.string().regex(/^[^\0]{1,128}$/, '1 to 128 characters');

/** The session of a route without one in its path. */
export const sessionQuery = z.strictObject({
  session_id: z.string('the id of a session in the query').min(1, 'the id of a session in the query').max(128),
});

/** `after` is the id of the last session of the previous page. */
const sessionTerms = {
  project: term.optional(),
  agent: term.optional(),
  parent: term.optional(),
  after: term.optional(),
};
export const sessionsQuery = z.strictObject({ ...sessionTerms, archived: flag.optional(), limit });

const oneDirection = (query: { before?: unknown; after?: unknown }) =>
  query.before === undefined || query.after === undefined;
const EITHER = { path: ['before'], message: 'either before or after' };
export const messagesQuery = z
  .strictObject({ before: id.optional(), after: id.optional(), hidden: flag.default(false), limit })
  .refine(oneDirection, EITHER);

export const logQuery = z.strictObject({
  after: wholeNumber(0)
    .meta(describedAs({ ...whole(0), default: 0 }, 'The `seq` of an entry'))
    .default(0),
  limit,
});

// The same for perdure/client, which is given values instead of texts.
const pageLength = z.int().min(1).transform(capped).default(PAGE);
export const sessionFilter = z.strictObject({
  ...sessionTerms,
  archived: z.boolean().default(false),
  limit: pageLength,
});
export const messageFilter = z
  .strictObject({
    before: z.string().optional(),
    after: z.string().optional(),
    hidden: z.boolean().default(false),
    limit: pageLength,
  })
  .refine(oneDirection, EITHER);
export const logFilter = z.strictObject({ after: z.int().min(0).default(0), limit: pageLength });
