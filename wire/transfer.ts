import { z } from 'zod';
import { ID_PATTERN } from '../domain/command-table.ts';
import type { CompactionData, PruneData } from '../domain/compaction.ts';
import type { RefusedData } from '../domain/refusals.ts';
import { isFileUrl, metadata, URL_EXPECTED } from './requests.ts';

// Lines of an export. An import refuses what they do not describe.

const TIME_EXPECTED = 'a time such as 2026-01-01T00:00:00.000000Z';
const time = z
  .string(TIME_EXPECTED)
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$/, TIME_EXPECTED)
  .refine(isTime, TIME_EXPECTED);
const id = z.string('an id').regex(ID_PATTERN, 'an id of 1 to 64 letters, digits, _ and -');
function whole(least: number, most: number) {
  const expected = `a whole number from ${least} to ${most}`;
  return z.int(expected).min(least, expected).max(most, expected);
}

/** Sums of thousands of them stay safe integers. */
const count = whole(0, 1_000_000_000_000);
/** Whether a day exists: `Date` takes 30 February for 2 March, and Postgres has no year 0. */
function isTime(text: string): boolean {
  const at = Date.parse(text);
  const toSeconds = text.slice(0, '2026-01-01T00:00:00'.length);
  return !Number.isNaN(at) && !text.startsWith('0000') && new Date(at).toISOString().startsWith(toSeconds);
}

/** The next positions of a session, which are thousands, stay safe integers. */
const position = whole(1, 1_000_000_000_000);
const index = whole(0, 1_000_000);

export const exportedSession = z.strictObject({
  kind: z.literal('session', 'a line of kind "session"'),
  version: z.literal(1, 'version 1'),
  agent: z.string('the id of an agent').max(128),
  model: z.string().max(200).nullable(),
  metadata,
  created_at: time,
  updated_at: time,
  archived_at: time.nullable(),
  messages: count,
});

const usage = z.strictObject({ input: count, output: count, reasoning: count, cache_read: count, cache_write: count });
const modelCalls = z.array(z.looseObject({ usage: usage.optional(), cost_usd: z.number().min(0).max(1e9).optional() }));

export const exportedMessage = z.strictObject({
  kind: z.literal('message'),
  id,
  position,
  role: z.enum(['user', 'assistant']),
  metadata: z.looseObject({
    usage: usage.optional(),
    steps: modelCalls.optional(),
    discarded: modelCalls.optional(),
    hidden_by: z
      .strictObject({ cause: z.enum(['rewind', 'edit', 'compaction', 'cancelled']), id: z.string().max(200) })
      .optional(),
  }),
  hidden_at: time.nullable(),
  created_at: time,
  updated_at: time,
  run: z.enum(['finished', 'aborted', 'error']).nullable(),
});

export const exportedAttachment = z.strictObject({
  kind: z.literal('attachment'),
  id: z.string().regex(/^att_[0-9A-Za-z]{1,40}$/, 'the id of an attachment'),
  /** SHA-256. */
  digest: z.string().regex(/^[0-9a-f]{64}$/, '64 hexadecimal digits'),
  media_type: z.string().max(128, 'at most 128 characters'),
  filename: z.string().max(256, 'at most 256 characters').nullable(),
  /** In bytes. */
  size: whole(1, Number.MAX_SAFE_INTEGER),
  created_at: time,
});

/** More of the line before it: base64 of an attachment's bytes, or JSON of a part's data. */
export const exportedContent = z.strictObject({ kind: z.literal('content'), data: z.string() });

const TOOL_STATES = [
  ...['input-streaming', 'input-available', 'approval-requested', 'approval-responded'],
  ...['output-available', 'output-error', 'output-denied'],
] as const;

/** A data part that the code itself writes and depends on. */
const reserved = <T extends string, D extends z.ZodType>(type: T, data: D) =>
  z.strictObject({ type: z.literal(type), id: z.string().max(128).optional(), data });

const reservedParts = [
  reserved(
    'data-compaction',
    z.strictObject({
      summary: z.string(),
      tail_start_id: id,
      auto: z.boolean(),
      summary_tokens: count,
      turns: count,
      split: z.literal(true).optional(),
    } satisfies Record<keyof CompactionData, z.ZodType>),
  ),
  reserved(
    'data-prune',
    z.strictObject({
      outputs: z.array(z.strictObject({ tool_call_id: z.string().min(1).max(128), tokens: count })),
      tokens: count,
      auto: z.boolean(),
    } satisfies Record<keyof PruneData, z.ZodType>),
  ),
  reserved(
    'data-refused',
    z.strictObject({
      messages: z.array(id),
      whole: z.literal(true).optional(),
    } satisfies Record<keyof RefusedData, z.ZodType>),
  ),
  reserved('data-interrupted', z.strictObject({})),
] as const;

/** A part of the AI SDK's UIMessage, as far as the code depends on it. */
const uiPart = z.union(
  [
    z.looseObject({ type: z.enum(['text', 'reasoning']), text: z.string() }),
    // Other addresses would be fetched by a provider's package.
    z.looseObject({
      type: z.enum(['file', 'reasoning-file']),
      mediaType: z.string(),
      filename: z.string('a string').optional(),
      url: z.string().refine(isFileUrl, URL_EXPECTED),
    }),
    z.looseObject({
      type: z.literal('custom'),
      kind: z.string().regex(/^.+\..+$/, 'a kind such as "openai.compaction"'),
    }),
    z.looseObject({ type: z.enum(['step-start', 'source-url', 'source-document']) }),
    z.looseObject({
      type: z.string().regex(/^(?:tool-.+|dynamic-tool)$/),
      toolCallId: z.string().min(1).max(128),
      state: z.enum(TOOL_STATES),
    }),
    ...reservedParts,
    z.looseObject({ type: z.string().regex(/^data-(?!(?:compaction|prune|refused|interrupted)$).+$/) }),
  ],
  'a part of an AI SDK UIMessage',
);

export const exportedPart = z
  .strictObject({
    kind: z.literal('part'),
    id,
    message_id: z.string(),
    index,
    type: z.string().max(200),
    data: uiPart,
    tool_call_id: z.string().nullable(),
    tool_state: z.enum(TOOL_STATES).nullable(),
    created_at: time,
    updated_at: time,
  })
  .refine(({ type, data }) => type === data.type, { path: ['type'], message: 'the type of its data' })
  .refine(({ tool_call_id, data }) => tool_call_id === ((data as { toolCallId?: string }).toolCallId ?? null), {
    path: ['tool_call_id'],
    message: 'the toolCallId of its data',
  })
  .refine(
    ({ tool_call_id, tool_state, data }) =>
      tool_state === (tool_call_id === null ? null : (data as { state?: string }).state),
    {
      path: ['tool_state'],
      message: 'the state of its data',
    },
  );
