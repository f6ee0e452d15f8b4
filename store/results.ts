import { z } from 'zod';
import { PHASE_EVENTS, PHASES } from '../domain/phases.ts';
import { RUN_STATES } from '../domain/runs.ts';
import type { Json } from '../domain/text.ts';

// Shapes that several SQL functions return. Unknown members are dropped, because a newer build's function may add some.

/** A jsonb column's value, which needs no further check. */
export const jsonColumn = z.custom<Json>();

/** Epoch milliseconds. */
export const epochMs = z.number();

/** A timestamptz column as ISO 8601. */
export const isoTime = z.date().transform((date) => date.toISOString());

const mark = {
  phase: z.enum(PHASES),
  project_id: z.string().nullable(),
  event_seq: z.number(),
};

/** The same as to_jsonb() writes it. */
export const timestamp = z.string().transform((text) => new Date(text).toISOString());

/** What session_mark() adds to a result. */
export const sessionMark = z.object(mark);

export const queuedRun = z.object({ run_seq: z.number(), message_id: z.string(), model: z.string().nullable() });

/** What prompts and tools see of a session besides its ids. */
export const sessionContext = {
  /** Of the session. */
  metadata: z.record(z.string(), jsonColumn),
  /** What the sign-in hook passed on with the message of this turn. */
  attributes: z.record(z.string(), jsonColumn).nullable(),
};

/** A run of a child. */
export const childRunRow = z.object({ session_id: z.string(), run_seq: z.number(), message_id: z.string() });

export const toolCallRow = z.object({ tool_call_id: z.string(), name: z.string() });

export const ended = z.object({
  kind: z.literal('ended'),
  state: z.enum(RUN_STATES),
  code: z.string().nullable(),
  children: z.array(childRunRow).exactOptional(),
});

export const lost = z.object({ kind: z.literal('lost') });

/** What claim_run() returns if a head start in another process does the work. */
export const underway = z.object({ kind: z.literal('underway') });

/** What claim_run() returns otherwise if a step or tool call may not begin. */
export const notBegun = [
  ended,
  z.object({ kind: z.literal('earlier'), runs: z.array(queuedRun) }),
  z.object({ kind: z.literal('paused') }),
  z.object({ kind: z.literal('abort') }),
  lost,
] as const;

/** What apply_command() returns, without `above`. Outcomes have more members of their own. */
export const appliedCommand = z.discriminatedUnion('ok', [
  z.looseObject({ ok: z.literal(true), ...mark }),
  z.looseObject({
    ok: z.literal(false),
    code: z.string(),
    phase: z.enum(PHASES).exactOptional(),
    event: z.enum(PHASE_EVENTS).exactOptional(),
    state: z.enum(RUN_STATES).exactOptional(),
    locked_project_id: z.string().exactOptional(),
    cause: z.string().exactOptional(),
    decision: z.string().exactOptional(),
    offered: z.array(z.string()).exactOptional(),
    field: z.string().exactOptional(),
  }),
]);

/** Maximum length of a page in bytes of JSON, unless one item is larger. Limits a host's memory. */
export const MAX_PAGE_BYTES = 8 * 1024 * 1024;
