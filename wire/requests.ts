import { z } from 'zod';
import { ID_EXPECTED, ID_PATTERN } from '../domain/command-table.ts';
import { byteLength } from '../domain/text.ts';

// What clients send over HTTP. Our own bodies refuse what they do not know; the AI SDK's shapes may carry more, which is
// not read. Every message here completes the sentence "<field>: expected …".

const MAX_PARTS = 100;
const MAX_REASON = 2_000;

const WHOLE_NUMBER = 'a whole number of at most 9 digits';
const MODEL_EXPECTED = 'a model such as "openai/gpt-5", or { provider_id, model_id }';

export const id = z.string(ID_EXPECTED).regex(ID_PATTERN, ID_EXPECTED);
const json = z.record(z.string(), z.unknown(), 'an object');
/** Of sessions and messages alike; the caps are in bytes of JSON, so that no schema says them. */
const metadata = json.meta({ description: 'Any object. Names that only the system writes are left out of it.' });

export const idempotencyKey = id.meta({
  description: 'Of your own making. Sent again with it, a command is not carried out twice: it gets the same answer.',
});

const modelString = z.string(MODEL_EXPECTED).max(200, MODEL_EXPECTED);

/** `provider/model`, or its parts as an object; always given on as `provider/model`. */
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
/** Only content that comes along: an address would have the server fetch it, from wherever it points to. */
const DATA_URL =
  /^data:[\w.+-]+\/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*;base64,(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A part of a user message; what else stands in it is not kept. */
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

/** The last message of a chat body, where it is the user's. */
export const userMessage = z.object({
  id,
  role: z.literal('user'),
  parts: userParts,
  metadata: json.nullish(),
});

const MAX_ALIAS_BYTES = 128;
const CHAT_ID_EXPECTED = `the chat's id, 1 to ${MAX_ALIAS_BYTES} bytes with no control characters`;

/** True for what may name a chat: a session's id, or an alias of one. */
export function isAlias(text: string): boolean {
  return text !== '' && byteLength(text) <= MAX_ALIAS_BYTES && text.isWellFormed() && !/\p{Cc}/u.test(text);
}

const chatId = z
  .string(CHAT_ID_EXPECTED)
  .min(1, CHAT_ID_EXPECTED)
  .max(MAX_ALIAS_BYTES, CHAT_ID_EXPECTED)
  .refine(isAlias, CHAT_ID_EXPECTED);

/** A session in a path or a query. Whatever is no session is one that is not there, so this describes and judges not. */
export const sessionRef = chatId.meta({ description: "A session's `ses_` id, or an alias of one of the caller's own" });
export const messageRef = id.meta({ description: 'The id of a message' });
export const toolCallRef = z.string().min(1).max(128).meta({ description: 'The id of a tool call' });

/** What DefaultChatTransport sends. */
export const chatBody = z.looseObject({
  id: chatId,
  messages: z.array(z.unknown(), 'an array of messages').min(1, 'at least one message'),
  trigger: z.enum(['submit-message', 'regenerate-message'], '"submit-message" or "regenerate-message"').optional(),
  messageId: z.string('the id of a message').nullish(),
  model: modelRef.nullish(),
});

export const reason = z.string('a string').max(MAX_REASON, `at most ${MAX_REASON} characters`).nullish();

/** A number in a query, where everything is text. */
const wholeNumber = (least: number) =>
  z
    .string(WHOLE_NUMBER)
    .regex(/^\d{1,9}$/, WHOLE_NUMBER)
    .transform(Number)
    .refine((value) => value >= least, `a number from ${least} on`);
/** In the description it is what its text stands for. */
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

/** Default and greatest length of a page. */
const PAGE = 50;
const LONGEST_PAGE = 200;
const limit = wholeNumber(1)
  .transform((given) => Math.min(given, LONGEST_PAGE))
  .meta(describedAs({ ...whole(1), default: PAGE }, `Length of the page; more than ${LONGEST_PAGE} is ${LONGEST_PAGE}`))
  .default(PAGE);

/** Text that a list is searched by. */
const term = z.string().regex(/^[^\0]{1,128}$/, '1 to 128 characters');

/** Whose session, where the path does not say it. */
export const sessionQuery = z.object({
  session_id: z.string('the id of a session in the query').min(1, 'the id of a session in the query').max(128),
});

export const sessionsQuery = z.object({
  project: term.optional(),
  agent: term.optional(),
  parent: term.optional(),
  archived: flag.optional(),
  after: term.optional(),
  limit,
});

export const messagesQuery = z
  .object({ before: id.optional(), after: id.optional(), hidden: flag.default(false), limit })
  .refine((query) => query.before === undefined || query.after === undefined, {
    path: ['before'],
    message: 'either before or after',
  });

export const logQuery = z.object({
  after: wholeNumber(0)
    .meta(describedAs({ ...whole(0), default: 0 }, 'The seq of an entry'))
    .default(0),
  limit,
});
