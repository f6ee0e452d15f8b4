import { z } from 'zod';
import { PHASE_EVENTS, PHASES } from '../domain/phases.ts';
import { RUN_STATES } from '../domain/runs.ts';
import type { Json } from '../domain/text.ts';

// Shapes that several SQL functions return. Unknown members are dropped, because a newer build's function may add some.

/** A jsonb column's value, which needs no further check. */
export const json = z.custom<Json>();

/** Epoch milliseconds. */
export const time = z.number();

/** A timestamptz column as ISO 8601. */
export const isoTime = z.date().transform((date) => date.toISOString());

const mark = {
  phase: z.enum(PHASES),
  project_id: z.string().nullable(),
  event_seq: z.number(),
};

/** What session_mark() adds to a result. */
export const sessionMark = z.object(mark);

export const queuedRun = z.object({ run_seq: z.number(), message_id: z.string(), model: z.string().nullable() });

export const toolCallRef = z.object({ tool_call_id: z.string(), name: z.string() });

export const ended = z.object({
  kind: z.literal('ended'),
  state: z.enum(RUN_STATES),
  code: z.string().nullable(),
});

export const lost = z.object({ kind: z.literal('lost') });

/** What claim_run() returns if a step or tool call may not begin. */
export const notBegun = [
  ended,
  z.object({ kind: z.literal('earlier'), runs: z.array(queuedRun) }),
  z.object({ kind: z.literal('paused') }),
  z.object({ kind: z.literal('abort') }),
  lost,
] as const;

/** What apply_command() returns. Outcomes have more members of their own. */
export const appliedCommand = z.discriminatedUnion('ok', [
  z.looseObject({ ok: z.literal(true), ...mark }),
  z.looseObject({
    ok: z.literal(false),
    code: z.string(),
    phase: z.enum(PHASES).exactOptional(),
    event: z.enum(PHASE_EVENTS).exactOptional(),
    state: z.enum(RUN_STATES).exactOptional(),
    locked_project_id: z.string().exactOptional(),
  }),
]);

/** Maximum length of a page in bytes of JSON, unless one item is larger. Limits a host's memory. */
export const MAX_PAGE_BYTES = 8 * 1024 * 1024;
