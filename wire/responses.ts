import { z } from 'zod';
import { ACTORS } from '../domain/activities.ts';
import { ERROR_STATUS, type ErrorCode } from '../domain/errors.ts';
import { MODALITIES } from '../domain/model-info.ts';
import { ANSWERS, RULE_ACTIONS, RULE_SCOPES } from '../domain/permissions.ts';
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

const childCall = {
  session_id: ownId.meta({ description: 'Of the subagent' }),
  agent: z.string(),
  message_id: z.string().meta({ description: "The subagent's answer with the call" }),
  tool_call_id: z.string(),
  tool: z.string(),
  background: z.boolean().meta({ description: 'The turn does not wait for it' }),
};
const question = z
  .discriminatedUnion('for', [
    z.object({
      ...childCall,
      for: z.literal('approval'),
      pattern: z.string().meta({ description: 'What the call asks for' }),
      decisions: z.array(z.enum(ANSWERS)),
    }),
    z.object({ ...childCall, for: z.literal('output') }),
  ])
  .meta({
    id: 'Question',
    description:
      'A tool call of a subagent that waits for an approval, or for the output of the page that carries it out.',
  });

export const sessionStatus = z
  .object({
    state: z.enum(['idle', 'busy', 'retrying', 'waiting', 'error']),
    attempt: count.optional(),
    message: z.string().optional(),
    started_at: z.number().optional().meta({ description: 'Epoch milliseconds' }),
    message_id: z.string().optional().meta({ description: 'The user message that is being answered' }),
    questions: z
      .array(question)
      .optional()
      .meta({ description: 'Calls of subagents that wait for the user or a page' }),
  })
  .meta({ id: 'SessionStatus', description: 'The status of a session.' });

export const attachment = z
  .object({
    attachment_id: ownId,
    media_type: z.string().meta({ description: 'Of an image or a PDF by its content' }),
    filename: z.string().nullable(),
    size: count.meta({ description: 'In bytes' }),
    url: z.string().meta({ description: 'For the `url` of a file part of a message' }),
  })
  .meta({ id: 'Attachment', description: 'A file of a session.' });

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
      depth: count.meta({ description: 'Of a session of a subagent: 1, below it 2, and so on; else 0' }),
      permissions: z.array(z.unknown()),
      headless: z.boolean(),
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
    title: z.string().nullable().meta({
      description: 'What the user has called it, else the first line of the first user message; at most 80 characters',
    }),
    window: z
      .object({
        model: z.string().nullable(),
        tokens: count.nullable().meta({
          description:
            'All five numbers of usage of the newest step; after a compaction, prune, branch or un-rewind, or a rewind to ' +
            'before one of these, what was counted since; null: unknown until the next step',
        }),
        limit: count
          .nullable()
          .optional()
          .meta({
            description:
              'Tokens at which the conversation is compacted before a step with `model`, or the longest input if it is not; ' +
              'null: unknown',
          }),
      })
      .nullable()
      .optional()
      .meta({
        description: "How full the model's window is. null: no step yet. Only where one session is read.",
      }),
    gone_back_to: z.string().nullable().optional().meta({
      description: 'What a rewind went to and the next message replaces; null: none. Only where one session is read.',
    }),
  })
  .meta({ id: 'SessionView', description: "A session's state, its chat's settings and totals, and its status." });

const providerMetadata = json.optional();
const uiPart = z.union([
  z.looseObject({ type: z.literal('text'), text: z.string(), state: z.enum(['streaming', 'done']).optional() }),
  z.looseObject({
    type: z.literal('reasoning'),
    text: z.string(),
    state: z.enum(['streaming', 'done']).optional(),
    ms: count.optional().meta({
      description: 'How long it took; with `times`, once it has ended, unless it was stored only then',
    }),
  }),
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
    created_at: time.optional().meta({ description: 'With `times`' }),
    parts: z.array(uiPart),
  })
  .meta({ id: 'UIMessage', description: 'A UIMessage of the AI SDK, usable as an initial message of useChat.' });

export const stateView = z
  .object({
    state: json,
    versions: z.record(z.string(), count).meta({ description: 'Of each key' }),
    lastUpdateTime: z.number().meta({ description: 'Epoch seconds' }),
  })
  .meta({ id: 'SessionState', description: 'The state that a session sees, by key with its prefix.' });

export const logEntry = z
  .object({ seq: count, at: time, kind: z.string(), actor: z.enum(ACTORS), data: json })
  .meta({ id: 'LogEntry', description: "An entry of a session's event log." });

export const searchHit = z
  .object({
    session_id: ownId,
    message_id: z.string(),
    role: z.enum(['user', 'assistant', 'system']),
    hidden: z.boolean().meta({ description: 'A rewind, edit, compaction or cancel has hidden it' }),
    created_at: time,
    snippet: z.string().meta({ description: 'The text around the matches' }),
    matches: z
      .array(z.object({ start: count, end: count }))
      .meta({ description: 'Where the matching words are in `snippet`, in UTF-16 units' }),
  })
  .meta({ id: 'SearchHit', description: 'A message that matches.' });

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

export const permissionRules = z.object({
  items: z.array(
    z
      .object({
        rule_id: z.string(),
        permission: z.string().meta({ description: 'Name of a tool' }),
        pattern: z.string().meta({ description: 'With `*` for any characters' }),
        action: z.enum(RULE_ACTIONS),
        source: z.enum(RULE_SCOPES),
        pinned: z.boolean().optional().meta({ description: 'Nothing overrides it' }),
        session_id: ownId.optional().meta({ description: 'Of a subagent: the session above whose rule it is' }),
      })
      .meta({ id: 'PermissionRule', description: 'A rule about calls of a tool.' }),
  ),
});

/** A run of a subagent. */
export const childRun = z.object({ session_id: ownId, run_seq: z.int(), message_id: z.string() });

export const outputTaken = z
  .object({
    message_id: z.string().meta({ description: 'The answer that goes on' }),
    run_seq: count.nullable().meta({ description: 'Its run; null: it is that of `child`' }),
    child: childRun.nullable().meta({ description: 'The run of a subagent that goes on' }),
  })
  .meta({ id: 'OutputTaken' });

export const imported = z.object({ session_id: ownId, messages: count });

export const workspaceFiles = z.object({
  items: z.array(z.object({ path: z.string(), bytes: count, updated_at: time })),
  files_url: z.string().meta({ description: 'URL below which the files can be read for an hour' }),
  preview_url: z.string().nullable().meta({ description: 'URL that shows its index.html; null: no index.html' }),
  preview_site_url: z
    .string()
    .nullable()
    .meta({ description: 'The same at the root of a host name of its own; null: not available' }),
});

export const projectTodos = z.object({
  items: z.array(z.object({ name: z.string(), done: z.boolean() })),
});

export const agentsAnswer = z.object({
  default: z.string().nullable().meta({ description: 'Of sessions that name none; null: unknown' }),
  items: z.array(
    z.object({
      id: z.string(),
      description: z.string().nullable().meta({ description: 'What it is for; null: unknown' }),
      uses_phases: z
        .boolean()
        .nullable()
        .meta({ description: 'Whether its tools move a session from phase to phase; null: unknown' }),
    }),
  ),
});

const modelName = z.string().meta({ description: '`provider/model`' });
const modelInfo = z
  .object({
    model: modelName,
    context_limit: count.meta({ description: 'Tokens of input and output together' }),
    max_input: count.meta({ description: 'Tokens of the longest input' }),
    max_output: count,
    tier: count.nullable().meta({ description: 'From 1, the cheapest; null: unknown' }),
    modalities: z
      .array(z.enum(MODALITIES))
      .nullable()
      .meta({ description: 'What it can take in; null: unknown, so anything is sent to it' }),
    variants: z.array(z.string()),
  })
  .meta({ id: 'ModelInfo', description: 'What is known of a model.' });

export const modelsAnswer = z.object({
  default: modelName.nullable().meta({ description: "The default agent's; null: unknown" }),
  agents: z.record(z.string(), modelName).meta({ description: 'The default model by agent' }),
  items: z.array(modelInfo),
});

const section = z.string();
export const systemPrompt = z.object({
  digest: z.string(),
  sections: z
    .object({ agent: section, instructions: section, skills: section, environment: section, tools: section })
    .meta({ description: 'In the order in which the model gets them; `tools` is JSON' }),
});

export const alive = z.object({ ok: z.literal(true) });
export const readiness = z.object({
  ready: z.boolean(),
  postgres: z.boolean().meta({ description: 'Postgres can be reached, and takes writes' }),
  temporal: z.boolean(),
  read_only: z.literal(true).optional().meta({ description: 'Postgres can be reached, but takes no writes' }),
  agents: z
    .object({ missing_in_workers: z.array(z.string()), missing_here: z.array(z.string()) })
    .optional()
    .meta({ description: 'How the agents of this host and of the workers differ' }),
  mcp: z
    .object({ away: z.array(z.string()) })
    .optional()
    .meta({ description: 'MCP servers that some worker cannot reach' }),
});

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
