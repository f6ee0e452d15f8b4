import { z } from 'zod';
import { byteLength } from './text.ts';

// What clients send over HTTP. Our own bodies refuse what they do not know; the AI SDK's shapes may carry more, which is
// not read. Every message here completes the sentence "<field>: expected …".

/** Most messages that a body of POST /chat may hold, though only the last is read. */
const MAX_MESSAGES = 2_000;
const MAX_PARTS = 100;
const MAX_REASON = 2_000;

export const ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;
const ID_EXPECTED = 'an id of 1 to 64 letters, digits, _ and -';
const MODEL_EXPECTED = 'a model such as "openai/gpt-5", or { provider_id, model_id }';

const id = z.string(ID_EXPECTED).regex(ID_PATTERN, ID_EXPECTED);
const json = z.record(z.string(), z.unknown(), 'an object');

const modelString = z.string(MODEL_EXPECTED).max(200, MODEL_EXPECTED);

/** `provider/model`, or its parts as an object; always given on as `provider/model`. */
export const modelRef = z.union(
  [
    modelString.regex(/^[^/\s]+\/\S+$/, MODEL_EXPECTED),
    z
      .object(
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
  metadata: json.optional(),
});

export const submitBody = z
  .strictObject({
    id: id.optional(),
    text: z.string('a string').optional(),
    parts: userParts.optional(),
    metadata: json.optional(),
    model: modelRef.nullish(),
  })
  .refine((body) => (body.text === undefined) !== (body.parts === undefined), {
    path: ['text'],
    message: 'either text or parts',
  });

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
function isAlias(text: string): boolean {
  return text !== '' && byteLength(text) <= MAX_ALIAS_BYTES && !/\p{Cc}/u.test(text);
}

/** What DefaultChatTransport sends. */
export const chatBody = z.looseObject({
  id: z.string(CHAT_ID_EXPECTED).refine(isAlias, CHAT_ID_EXPECTED),
  messages: z
    .array(z.unknown(), 'an array of messages')
    .min(1, 'at least one message')
    .max(MAX_MESSAGES, `at most ${MAX_MESSAGES} messages (only the last one is read)`),
  trigger: z.enum(['submit-message', 'regenerate-message'], '"submit-message" or "regenerate-message"').optional(),
  messageId: z.string('the id of a message').nullish(),
  model: modelRef.nullish(),
});

const reason = z.string('a string').max(MAX_REASON, `at most ${MAX_REASON} characters`).nullish();

export const emptyBody = z.strictObject({});
export const cancelBody = z.strictObject({ reason });
export const projectBody = z.strictObject({ project_id: id });
export const closeBody = z.strictObject({ abort: z.boolean('true or false').optional() });

const count = (most: number) =>
  z.coerce
    .number('a whole number')
    .int('a whole number')
    .min(1, 'a number from 1 on')
    .transform((limit) => Math.min(limit, most));
const flag = z.enum(['true', 'false'], 'true or false').transform((text) => text === 'true');

/** Default and greatest length of a page. */
const PAGE = 50;
const LONGEST_PAGE = 200;
const limit = count(LONGEST_PAGE).default(PAGE);

/** Text that a list is searched by. */
const term = z.string().regex(/^[^\0]{1,128}$/, 'at most 128 characters');

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
  after: z.coerce.number('a number').int('a whole number').min(0, 'a number from 0 on').default(0),
  limit,
});

/** The field of an issue as it is written: `messages[3].parts[0].text`. */
function fieldOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((field, key) => {
    if (typeof key === 'number') return `${field}[${key}]`;
    return field === '' ? String(key) : `${field}.${String(key)}`;
  }, '');
}

/** What an issue expected of which field. */
export function problemsOf(
  error: z.ZodError,
  prefix: readonly PropertyKey[] = [],
): { field: string; expected: string }[] {
  return error.issues.map((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return { field: fieldOf([...prefix, ...issue.path, issue.keys[0] ?? '']), expected: 'nothing of this name' };
    }
    return { field: fieldOf([...prefix, ...issue.path]) || 'body', expected: issue.message };
  });
}
