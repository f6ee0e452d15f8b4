import { z } from 'zod';
import { isAlias, MAX_ALIAS_BYTES } from '../domain/alias.ts';
import { ATTACHMENT_URL, plainName } from '../domain/attachments.ts';
import { ID_EXPECTED, ID_PATTERN } from '../domain/command-table.ts';
import { MODEL_PATTERN, splitModelRef } from '../domain/model-ref.ts';
import { numberRange } from './numbers.ts';

// Schemas of HTTP requests. Our own bodies and queries refuse unknown fields; in AI SDK types they are ignored. Every
// message completes the sentence "<field>: expected …".

const MAX_PARTS = 100;
const MAX_REASON = 2_000;

const WHOLE_NUMBER = 'a whole number of at most 9 digits';
const MODEL_EXPECTED = 'a model such as "openai/gpt-5", or { provider_id, model_id }';
const CHOICE_EXPECTED = 'a model such as "openai/gpt-5", or { provider_id, model_id, variant? }';

export const id = z.string(ID_EXPECTED).regex(ID_PATTERN, ID_EXPECTED);
const json = z.record(z.string(), z.unknown(), 'an object');
/** Of sessions and messages. Their limits are in bytes of JSON, which a JSON schema cannot express. */
export const metadata = json.meta({ description: 'Any object. Keys reserved for the system are dropped.' });

export const idempotencyKey = id.meta({
  description:
    'Chosen by the caller. A command repeated with the same key is not carried out again and gets the same response; a ' +
    'change of state gets the state as it is now.',
});

const modelString = z.string(MODEL_EXPECTED).max(200, MODEL_EXPECTED);

/** `provider/model`, or its parts as an object; the output is always `provider/model`. */
export const modelRef = z.union(
  [
    modelString.regex(MODEL_PATTERN, MODEL_EXPECTED),
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

interface Choice {
  provider_id: string;
  model_id: string;
  variant?: string | null | undefined;
}

/** The model of one turn, with one of its variants; the output is always the object. */
export const modelChoice = z.union(
  [
    modelString.regex(MODEL_PATTERN, CHOICE_EXPECTED).transform((ref): Choice => splitModelRef(ref)),
    z.strictObject(
      {
        provider_id: modelString.regex(/^[^/\s]+$/, 'the name of a provider'),
        model_id: modelString.regex(/^\S+$/, 'the name of a model'),
        variant: z.string('the name of a variant').max(64, 'the name of a variant').nullish(),
      },
      CHOICE_EXPECTED,
    ),
  ],
  CHOICE_EXPECTED,
);

/** A parsed choice of a model. */
export type ModelChoice = z.output<typeof modelChoice>;

export const URL_EXPECTED =
  'the URL of an attachment, or a data: URL in base64, such as data:image/png;base64,iVBORw0KGgo=';
/** Only embedded content: for other URLs the server would have to fetch from arbitrary addresses. */
const DATA_URL =
  /^data:[\w.+-]+\/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*;base64,(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Of a file part. */
const FILE_URL = new RegExp(`${ATTACHMENT_URL.source}|${DATA_URL.source}`);

/** Whether a text of any length is base64; a pattern that repeats a group runs out of its stack after 8 MiB. */
export function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

/** As `FILE_URL`, of any length. */
export function isFileUrl(url: string): boolean {
  const comma = url.indexOf(',');
  if (comma < 0) return ATTACHMENT_URL.test(url);
  return DATA_URL.test(url.slice(0, comma + 1)) && isBase64(url.slice(comma + 1));
}

/** A part of a user message. Other fields are dropped. */
export const userPart = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text'), text: z.string('a string') }),
    z.object({
      type: z.literal('file'),
      mediaType: z
        .string('a media type such as image/png')
        .regex(/^(?:$|[\w.+-]+\/[\w.+*-]+)/, 'a media type such as image/png')
        // Browsers know no type of most file names.
        .overwrite((type) => type || 'application/octet-stream')
        .meta({ description: 'Empty: application/octet-stream' }),
      filename: z.string('a string').max(256, 'at most 256 characters').overwrite(plainName).optional(),
      url: z.string(URL_EXPECTED).regex(FILE_URL, URL_EXPECTED),
    }),
  ],
  'a part of type text or file',
);
const userParts = z.array(userPart, 'an array of parts').max(MAX_PARTS, `at most ${MAX_PARTS} parts`);

const agentRef = z.string('the id of an agent').max(128, 'the id of an agent');

export const openBody = z.strictObject({
  agent: agentRef.optional(),
  project_id: id.nullish(),
  model: modelRef.nullish(),
  workspace_root: z.string('a folder below the workspaces').min(1).max(1_024).nullish(),
  metadata: metadata.optional(),
  headless: z
    .boolean('true or false')
    .optional()
    .meta({ description: 'Nobody can be asked: a tool call that needs an approval is denied' }),
});

const TITLE_EXPECTED = 'a title of 1 to 200 characters, or null';
export const renameBody = z.strictObject({
  title: z
    .string(TITLE_EXPECTED)
    .trim()
    .min(1, TITLE_EXPECTED)
    .max(200, TITLE_EXPECTED)
    .nullable()
    .meta({ description: 'null: the first line of the first message again' }),
});

export const submitBody = z
  .strictObject({
    id: id.optional(),
    text: z.string('a string').optional(),
    parts: userParts.optional(),
    metadata: metadata.optional(),
    model: modelChoice.nullish(),
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

/** One JSON-RPC message of an MCP client; the SDK checks the rest of it. */
export const mcpMessage = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: z.union([z.string(), z.int()]).optional(),
  method: z.string().optional(),
});

/** The last message of a chat body that asks for another answer to it. */
export const answeredMessage = z.object({ id, role: z.literal('user') });

const toolParts = z.array(z.unknown(), 'an array of parts').max(10_000, 'at most 10000 parts');

/** The last message of a chat body that responds to tool calls of an answer. */
export const respondedMessage = z.object({ id, role: z.literal('assistant'), parts: toolParts });

const approval = z.object({
  approved: z.boolean('true or false'),
  reason: z.string('a string').max(MAX_REASON, `at most ${MAX_REASON} characters`).optional(),
});

/** The state of a part whose output or error was left out, because the answer is too long. */
export const LEFT_OUT = 'output-left-out';

/** A part of it that shows a tool call. All others are ignored. */
export const shownCall = z.discriminatedUnion('state', [
  z.object({ state: z.literal('approval-responded'), toolCallId: z.string(), approval }),
  z.object({
    ...{ state: z.literal('output-available'), toolCallId: z.string(), output: z.unknown() },
    preliminary: z.unknown().optional(),
  }),
  z.object({ state: z.literal('output-error'), toolCallId: z.string(), errorText: z.string() }),
  z.object({ state: z.literal(LEFT_OUT), toolCallId: z.string() }),
  z.object({ state: z.enum(['input-available', 'approval-requested']), toolCallId: z.string() }),
]);

/** What a page gives as the outcome of a tool call. */
export const outputBody = z
  .strictObject({
    output: z.unknown().optional().meta({ description: 'Any JSON' }),
    error: z.string('a string').max(4_000, 'at most 4000 characters').optional(),
  })
  .refine((body) => (body.output === undefined) !== (body.error === undefined), {
    path: ['output'],
    message: 'either output or error',
  })
  .meta({ override: { oneOf: [{ required: ['output'] }, { required: ['error'] }] } });

const CHAT_ID_EXPECTED = `the chat's id, 1 to ${MAX_ALIAS_BYTES} bytes with no control characters`;

const chatId = z
  .string(CHAT_ID_EXPECTED)
  .min(1, CHAT_ID_EXPECTED)
  .max(MAX_ALIAS_BYTES, CHAT_ID_EXPECTED)
  .refine(isAlias, CHAT_ID_EXPECTED);

/** A session in a path or a query. Only for the description: an invalid id gets SessionNotFound. */
export const sessionRef = chatId.meta({ description: "A session's `ses_` id, or one of the caller's aliases" });
export const messageRef = id.meta({ description: 'The id of a message' });
export const attachmentRef = z.string().min(1).max(64).meta({ description: 'The id of an attachment' });
export const ruleRef = z.string().min(1).max(128).meta({ description: 'The id of a rule' });
export const toolCallRef = z.string().min(1).max(128).meta({ description: 'The id of a tool call' });
export const multiplexConnectionRef = z.string().min(1).max(64).meta({ description: 'The name of a connection' });
export const multiplexStreamRef = z
  .string()
  .min(1)
  .max(9)
  .meta({ description: 'The name of a stream of the connection' });

const MULTIPLEXED_EXPECTED = 'the name of a connection, a slash, and 1 to 9 digits that name the stream';

/** Which connection is to carry the response's stream, and under which name. */
export const multiplexedStream = z
  .string(MULTIPLEXED_EXPECTED)
  .regex(/^[\w-]{1,64}\/\d{1,9}$/, MULTIPLEXED_EXPECTED)
  .meta({
    description:
      'A connection of GET /api/multiplex and a name for the stream, as in `<connection>/1`. If the connection is at this host and ' +
      "the caller's own, it carries the stream, and the response is 202; otherwise the header has no effect.",
  });

/** The body that DefaultChatTransport sends. Unknown fields are ignored, because the AI SDK may send more. */
export const chatBody = z.looseObject({
  id: chatId,
  messages: z.array(z.unknown(), 'an array of messages').min(1, 'at least one message'),
  trigger: z.enum(['submit-message', 'regenerate-message'], '"submit-message" or "regenerate-message"').optional(),
  messageId: z.string('the id of a message').nullish(),
  agent: agentRef
    .nullish()
    .meta({ description: 'The agent of a new session. Of an existing one it must be the same.' }),
  model: modelChoice.nullish(),
});

export const reason = z.string('a string').max(MAX_REASON, `at most ${MAX_REASON} characters`).nullish();

/** Changes of a session's state; the names are those of Google ADK. Keys and values are checked by domain/state-changes.ts. */
export const stateBody = z.strictObject({
  stateDelta: json.optional().meta({ description: 'Values to set, by key' }),
  stateDeletions: z.array(z.string('a key'), 'an array of keys').optional().meta({ description: 'Keys to remove' }),
  stateIncrements: z
    .record(z.string(), z.number('a number'), 'an object')
    .optional()
    .meta({ description: 'Numbers to add to keys' }),
  versions: z
    .record(z.string(), z.int('a version').min(0), 'an object')
    .optional()
    .meta({
      description:
        'From an earlier response: the change is refused if a key that it sets or removes has another version now, or exists ' +
        'and is not named',
    }),
  lastUpdateTime: z
    .number('epoch seconds, from an earlier response')
    .min(0)
    .max(1e11)
    .optional()
    .meta({
      description:
        'Without `versions`: set and remove keys of the session only if it was not changed since, and otherwise only add ' +
        'keys. Keys with `user:` and `app:`, which other sessions change, can only be added',
    }),
});

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

/** Of an import. */
export const importQuery = z.strictObject({
  agent: agentRef
    .optional()
    .meta({ description: 'Instead of the agent of the export, which may not be configured here' }),
  model: modelString
    .regex(MODEL_PATTERN, 'a model such as "openai/gpt-5"')
    .optional()
    .meta({ description: 'Instead of the model of the export, which may not be configured here' }),
});

/** Of an upload. */
export const attachmentQuery = z.strictObject({
  filename: z
    .string('a name')
    .max(256, 'at most 256 characters')
    .optional()
    .meta({ description: 'The name of a file that is not in a form' }),
  agent: agentRef.optional().meta({ description: 'The agent of a session that the alias opens' }),
});

/** `after` is the id of the last session of the previous page. */
const sessionTerms = {
  project: term.optional(),
  agent: term.optional(),
  parent: term.optional(),
  after: term.optional(),
};
const SESSION_IDS = 'at most 200 ids of sessions, separated by commas';
const sessionIds = z
  .string(SESSION_IDS)
  .regex(/^[\w-]{1,128}(?:,[\w-]{1,128}){0,199}$/, SESSION_IDS)
  .meta({ description: `Only these: ${SESSION_IDS}` });
export const sessionsQuery = z.strictObject({
  ...sessionTerms,
  ids: sessionIds.optional(),
  archived: flag.optional(),
  limit,
});

const oneDirection = (query: { before?: unknown; after?: unknown }) =>
  query.before === undefined || query.after === undefined;
const EITHER = { path: ['before'], message: 'either before or after' };
export const messagesQuery = z
  .strictObject({
    before: id.optional(),
    after: id.optional(),
    hidden: flag.default(false),
    times: flag.default(false),
    limit,
  })
  .refine(oneDirection, EITHER);

const QUERY_EXPECTED = 'text to search for, 1 to 512 characters';
const searchText = z.string(QUERY_EXPECTED).regex(/^[^\0]{1,512}$/u, QUERY_EXPECTED);
/** Finding a match takes as long as its snippet. */
const HITS = 20;
const MAX_HITS = 50;
const cappedHits = (given: number) => Math.min(given, MAX_HITS);
export const searchQuery = z.strictObject({
  q: searchText.meta({ description: 'Words, "phrases in quotes", or, and -words that must not occur' }),
  limit: wholeNumber(1)
    .transform(cappedHits)
    .meta(
      describedAs({ ...whole(1), default: HITS }, `Number of matches; values above ${MAX_HITS} count as ${MAX_HITS}`),
    )
    .default(HITS),
});

/** A page of a list whose entries are named by their ids. */
export const page = z.strictObject({ after: term.optional(), limit });

export const logQuery = z.strictObject({
  after: wholeNumber(0)
    .meta(describedAs({ ...whole(0), default: 0 }, 'The `seq` of an entry'))
    .default(0),
  limit,
});

/** Of the console. */
export const consoleSessionsQuery = z.strictObject({
  all: flag.default(false).meta({ description: "All users' sessions, for those who may read them" }),
  user: term.optional().meta({ description: 'Of this user only, with `all`' }),
  after: term.optional(),
  limit,
});
export const numbersQuery = z.strictObject({
  range: numberRange.default('hour'),
  all: flag.default(false).meta({ description: "All users' sessions, for those who may read them" }),
  user: term.optional().meta({ description: 'Of this user only, with `all`' }),
});
export const pastQuery = z.strictObject({ limit });
export const turnsQuery = z.strictObject({
  before: wholeNumber(0)
    .meta(describedAs(whole(0), 'The `run_seq` of a turn'))
    .optional(),
  limit,
});

// The same for perdure/client, which is given values instead of texts.
const pageLength = z.int().min(1).transform(capped).default(PAGE);
export const sessionFilter = z.strictObject({
  ...sessionTerms,
  ids: sessionIds.transform((ids) => ids.split(',')).optional(),
  archived: z.boolean().default(false),
  limit: pageLength,
});
export const messageFilter = z
  .strictObject({
    before: z.string().optional(),
    after: z.string().optional(),
    hidden: z.boolean().default(false),
    times: z.boolean().default(false),
    limit: pageLength,
  })
  .refine(oneDirection, EITHER);
export const searchFilter = z.strictObject({
  q: searchText,
  limit: z.int().min(1).transform(cappedHits).default(HITS),
});
export const logFilter = z.strictObject({ after: z.int().min(0).default(0), limit: pageLength });
export const consoleSessionsFilter = z.strictObject({
  all: z.boolean().default(false),
  user: term.optional(),
  after: term.optional(),
  limit: pageLength,
});
export const numbersFilter = z.strictObject({
  range: numberRange.default('hour'),
  all: z.boolean().default(false),
  user: term.optional(),
});
export const pastFilter = z.strictObject({ limit: pageLength });
export const turnsFilter = z.strictObject({ before: z.int32().min(0).optional(), limit: pageLength });
