import { z } from 'zod';
import { ACTORS } from '../domain/commands.ts';
import { ERROR_STATUS, type ErrorCode } from '../domain/errors.ts';
import { PHASES } from '../domain/phases.ts';

// Schemas of HTTP responses, for the OpenAPI document. Our own types have no other members; AI SDK types may have more.

const time = z.iso.datetime().meta({ description: 'ISO 8601, in UTC' });
const ownId = z.string();
const count = z.int().min(0);
const json = z.record(z.string(), z.unknown());

const pendingTool = z
  .object({
    tool_call_id: z.string(),
    name: z.string(),
    message_id: z.string(),
    step: count,
    started_at: z.string(),
  })
  .meta({ id: 'PendingTool', description: 'The tool call in flight; never its input.' });

export const sessionStatus = z
  .object({
    state: z.enum(['idle', 'busy', 'retrying', 'waiting', 'error']),
    attempt: count.optional(),
    message: z.string().optional(),
    started_at: z.number().optional().meta({ description: 'Epoch milliseconds' }),
    message_id: z.string().optional().meta({ description: 'The user message that is being answered' }),
  })
  .meta({ id: 'SessionStatus', description: 'The status of a session.' });

export const sessionView = z
  .object({
    session: z.object({
      session_id: ownId,
      user_id: z.string(),
      project_id: z.string().nullable(),
      phase: z.enum(PHASES),
      pending_tool: pendingTool.nullable(),
      cancel_token: z.string().nullable(),
      updated_at: time,
    }),
    chat: z.object({
      session_id: ownId,
      agent: z.string(),
      workspace_root: z.string().nullable(),
      model: z.string().nullable(),
      parent_id: z.string().nullable(),
      parent_message_id: z.string().nullable(),
      permissions: z.array(z.unknown()),
      metadata: json,
      prompt_tokens: count,
      completion_tokens: count,
      reasoning_tokens: count,
      cache_read: count,
      cache_write: count,
      total_tokens: count,
      cost_usd: z.number().nullable(),
      created_at: time,
      updated_at: time,
      closed_at: time.nullable(),
      archived_at: time.nullable(),
    }),
    status: sessionStatus,
  })
  .meta({ id: 'SessionView', description: "A session's state, its chat's settings and totals, and its status." });

const providerMetadata = json.optional();
const uiPart = z.union([
  z.looseObject({ type: z.literal('text'), text: z.string(), state: z.enum(['streaming', 'done']).optional() }),
  z.looseObject({ type: z.literal('reasoning'), text: z.string(), state: z.enum(['streaming', 'done']).optional() }),
  z.looseObject({
    type: z.literal('file'),
    mediaType: z.string(),
    url: z.string(),
    filename: z.string().optional(),
    providerMetadata,
  }),
  z.looseObject({ type: z.enum(['step-start', 'source-url', 'source-document']) }),
  z.looseObject({
    type: z.string().regex(/^(?:tool-.+|dynamic-tool)$/),
    toolCallId: z.string(),
    state: z.string().meta({ description: 'input-streaming, input-available, output-available, output-error, …' }),
    input: z.unknown().optional(),
    output: z.unknown().optional(),
    errorText: z.string().optional(),
  }),
  z.looseObject({ type: z.string().regex(/^data-.+$/), data: z.unknown().optional() }),
]);

/** An AI SDK UIMessage, usable as an initial message of `useChat`. */
export const uiMessage = z
  .object({
    id: z.string(),
    role: z.enum(['user', 'assistant', 'system']),
    metadata: z.looseObject({ session_id: ownId }),
    parts: z.array(uiPart),
  })
  .meta({ id: 'UIMessage', description: 'A UIMessage of the AI SDK, usable as an initial message of useChat.' });

export const logEntry = z
  .object({ seq: count, at: time, kind: z.string(), actor: z.enum(ACTORS), data: json })
  .meta({ id: 'LogEntry', description: "An entry of a session's event log." });

/** A page of a list; `next` is the cursor of the next page. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next: z.string().nullable().meta({ description: 'null: this is the last page' }),
  });
}

export const accepted = z
  .object({ message_id: z.string(), position: count.meta({ description: 'Number of messages ahead of it' }) })
  .meta({ id: 'Accepted' });

export const notRunAgain = z
  .object({
    message_id: z.string(),
    state: z.enum(['cancelled', 'error']),
    code: z.string().optional().meta({ description: 'Error code of a failed run' }),
  })
  .meta({ id: 'NotRunAgain', description: 'A message whose run was cancelled or failed. Send a new id to try again.' });

export const workspaceFiles = z.object({
  items: z.array(z.object({ path: z.string(), bytes: count, updated_at: time })),
  preview_url: z.string().nullable().meta({ description: 'URL that shows its index.html; null: no index.html' }),
  preview_site_url: z
    .string()
    .nullable()
    .meta({ description: 'The same at the root of a host name of its own; null: not available' }),
});

export const alive = z.object({ ok: z.literal(true) });
export const readiness = z.object({ ready: z.boolean(), postgres: z.boolean(), temporal: z.boolean() });

const fieldError = z
  .object({ field: z.string(), expected: z.string() })
  .meta({ id: 'FieldError', description: 'An invalid field, such as messages[0].parts[1].url' });

/** Problem details (RFC 9457) of one status, with one of the given codes. */
export function problemDetails(status: number, codes: readonly ErrorCode[]) {
  return z.object({
    type: z.string().meta({ description: 'urn:perdure:error:<code>' }),
    title: z.string(),
    status: z.literal(status),
    detail: z.string().meta({ description: 'For people; never contains a secret' }),
    code: z.enum(codes as [ErrorCode, ...ErrorCode[]]),
    errors: z.array(fieldError).optional(),
  });
}

/** Groups codes by status. */
export function byStatus(codes: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  return Map.groupBy(new Set(codes), (code) => ERROR_STATUS[code]);
}
