import { z } from 'zod';
import { ACTORS } from '../domain/activities.ts';
import { PHASES } from '../domain/phases.ts';
import { RUN_STATES } from '../domain/runs.ts';
import { sessionView } from './responses.ts';

// What the console reads of a session: its turns with their steps and tool calls, and who did them.

const time = z.iso.datetime();
const count = z.int().min(0);
const usage = z.object({ input: count, output: count, reasoning: count, cache_read: count, cache_write: count });

const work = z
  .object({
    worker: z.string().meta({ description: "The id of the worker's lease" }),
    fence: z.array(z.int()).meta({ description: 'Epoch, ordinal, attempt, renewal: under which it was stored' }),
    attempt: count.meta({ description: 'After failures of the provider, from 1' }),
    ms: count.meta({ description: 'Of a step from the call of the model on' }),
    first_ms: count.nullable().meta({ description: "To the model's first chunk; null: none, or a tool call" }),
    ended_at: time,
  })
  .meta({ id: 'Work', description: 'Who did a step or a tool call, and how long it took.' });

const step = z.object({
  step: count,
  model: z
    .string()
    .nullable()
    .meta({ description: 'This and the next two are null where an imported answer does not say' }),
  finish_reason: z.string().nullable(),
  usage: usage.nullable(),
  cost_usd: z.number().nullable(),
  work: work.nullable().meta({ description: 'null: it was settled before this was noted' }),
});

const call = z.object({
  tool_call_id: z.string(),
  name: z.string(),
  state: z.string().meta({ description: "As the AI SDK's part has it" }),
  error: z.string().nullable(),
  child_id: z.string().nullable().meta({ description: 'The session of the subagent that it called' }),
  step: count.nullable().meta({ description: 'null: the call has no outcome of a worker' }),
  called_at: time,
  work: work.nullable(),
});

const failure = z.object({
  event_seq: count,
  at: time,
  code: z.string(),
  model: z.string().nullable(),
  status: z.number().nullable(),
  message: z.string(),
});

/** A turn as the console shows it. */
export const consoleTurn = z
  .object({
    run_seq: count,
    kind: z.enum(['turn', 'compaction', 'prune']),
    state: z.enum(RUN_STATES),
    message_id: z.string(),
    answer_id: z.string(),
    text: z.string().nullable().meta({ description: 'The beginning of the message' }),
    model: z.string().nullable(),
    variant: z.string().nullable(),
    fence: z.array(z.int()),
    worker: z.string().nullable().meta({ description: 'Of a head start that is in progress' }),
    tokens: count.meta({ description: 'With those of children, without cache reads' }),
    code: z.string().nullable(),
    message: z.string().nullable(),
    retry: z.object({ attempt: count, reason: z.string(), at: time }).nullable(),
    prompt_digest: z.string().nullable(),
    created_at: time,
    started_at: time.nullable(),
    finished_at: time.nullable(),
    waited_ms: count.meta({ description: 'For answers of users' }),
    steps: z.array(step),
    calls: z.array(call),
    failures: z.array(failure).meta({ description: 'Of the model provider' }),
  })
  .meta({ id: 'ConsoleTurn', description: 'A turn with its steps and tool calls.' });

/** A turn with its steps and tool calls. */
export type ConsoleTurn = z.output<typeof consoleTurn>;

/** A session as it stood after an event of its log. */
export const consolePast = z
  .object({
    seq: count,
    at: time,
    kind: z.string(),
    actor: z.enum(ACTORS),
    phase: z.enum(PHASES),
    project_id: z.string().nullable(),
    state: z.record(z.string(), z.unknown()).meta({ description: "The session's own keys" }),
    messages: z
      .array(
        z.object({
          id: z.string(),
          role: z.enum(['user', 'assistant', 'system']),
          created_at: time,
          parts: z.array(
            z.object({
              type: z.string(),
              data: z.unknown().meta({ description: 'As it was; null: it was written or changed later' }),
            }),
          ),
        }),
      )
      .nullable()
      .meta({ description: 'Those that were visible, in order, the newest ones; null: see `unknown`' }),
    more: z.boolean().meta({ description: 'There were earlier messages' }),
    unknown: z
      .enum(['unrewind', 'compaction'])
      .nullable()
      .meta({ description: 'What has undone since then what was hidden after the event, so that it cannot be told' }),
  })
  .meta({ id: 'ConsolePast', description: 'A session as it stood after an event.' });

/** A session as it stood after an event. */
export type ConsolePast = z.output<typeof consolePast>;

const replayedExecution = z.object({
  run_id: z.string(),
  started_at: time,
  events: count,
  outcome: z.enum(['passed', 'broke', 'skipped']).meta({ description: 'skipped: the histories are too long in all' }),
  broke: z.string().nullable().meta({
    description: 'The event at which the code differs from the history, and how: `event 8 (TimerStarted): …`',
  }),
});

/** The newest replay of a session. */
export const consoleReplay = z
  .object({
    state: z.enum(['none', 'queued', 'running', 'done', 'failed']),
    asked_at: time.nullable(),
    finished_at: time.nullable(),
    worker: z.string().nullable().meta({ description: "The id of the worker's lease: its code is what was replayed" }),
    problem: z.string().nullable().meta({ description: 'Why it failed' }),
    executions: z
      .array(replayedExecution)
      .meta({ description: 'Those that Temporal still has, newest first; empty unless the state is done' }),
  })
  .meta({ id: 'ConsoleReplay', description: 'The newest replay of the histories of a session.' });

/** A session's newest replay. */
export type ConsoleReplay = z.output<typeof consoleReplay>;

/** Who reads in the console. */
export const consoleViewer = z
  .object({ user: z.string(), reads_all: z.boolean().meta({ description: 'May read the sessions of all users' }) })
  .meta({ id: 'ConsoleViewer', description: 'Who reads in the console.' });

/** A session as the console shows it. */
export const consoleSession = z
  .object({
    ...sessionView.shape,
    is_own: z.boolean(),
    epoch: count.meta({ description: 'How often a workflow has loaded the session: fences begin with it' }),
    temporal_url: z.string().nullable().meta({ description: "Its workflow in Temporal's UI; null: no address is set" }),
  })
  .meta({ id: 'ConsoleSession', description: 'A session, and where its workflow is shown.' });
