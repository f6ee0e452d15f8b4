import { invalidTransitionMessage, PerdureError } from '../../domain/errors.ts';
import type { Phase, PhaseEvent } from '../../domain/phases.ts';
import type { Json } from '../../domain/text.ts';
import type { Raise, ToolContext, ToolDefinition } from '../definition/define.ts';
import type { StopSignal } from '../stop-signal.ts';
import {
  executeTool,
  failedWith,
  NO_PROJECT_TEXT,
  pageResult,
  planTool,
  resultOf,
  type ToolPlan,
  type ToolResult,
} from './execute-tool.ts';
import { isTaskTool, taskRequest, type TaskRequest } from './task-tool.ts';

// Runs tool calls, for workers and for runs in memory. A `ToolRecorder` stores them, in Postgres or in memory.

type Execute = NonNullable<ToolDefinition['execute']>;

/** A tool call; `input` as the model wrote it. */
export interface ToolCallRequest {
  tools: readonly ToolDefinition[];
  toolName: string;
  input: unknown;
  stop: StopSignal;
  maxOutputBytes: number;
}

/** What a call requires of its session before it runs. */
export type ToolDemand = Omit<Extract<ToolPlan, { ok: true }>, 'ok' | 'input'>;

/** Why the session does not allow a call. */
export interface ToolRefusal {
  kind: 'refused';
  code: 'InvalidTransition' | 'ProjectAlreadyLocked' | 'ProjectNotFound' | 'ProjectRequired';
  phase?: Phase;
  event?: PhaseEvent;
}

/**
 * `again`: an earlier attempt began the call and left no outcome. `done`: the tool is not to run now. `given`: what the page gave
 * for a call that it carries out.
 */
export type ToolStart<Next> =
  | { kind: 'begun' | 'again'; given?: Parameters<typeof pageResult>[1] }
  | ToolRefusal
  | { kind: 'done'; next: Next };

/** Stores a call. `Next` is the result for its caller. */
export interface ToolRecorder<Next> {
  /** Claims the call and commits what it demands at its start; null for a call that cannot run. */
  begin(demand: ToolDemand | null): Promise<ToolStart<Next>>;
  /** @throws {PerdureError} the workspace cannot be used */
  context(): ToolContext | Promise<ToolContext>;
  /**
   * Calls a subagent; unset: there are none here. `output` is that of the call, `done`: it has none yet.
   */
  spawn?(task: TaskRequest): Promise<{ output: Json } | { errorText: string } | { done: Next }>;
  /** The tool's function begins, and later ends: after an abort, it may do so at any time. */
  running?(isRunning: boolean): void;
  /** The call is over: what the tool still reports is ignored. */
  close(): Promise<void>;
  /** Stores the outcome together with what the tool wrote; `raise` changes the phase with it. */
  finish(result: ToolResult, raise?: PhaseEvent): Promise<Next>;
  /** The call was stopped before it had an outcome. */
  stopped(error: unknown): Promise<Next>;
}

/** Runs one tool call, from claim to stored outcome. An error of the tool is an outcome; storage errors are thrown. */
export async function attemptToolCall<Next>(request: ToolCallRequest, recorder: ToolRecorder<Next>): Promise<Next> {
  const tool = request.tools.find((each) => each.name === request.toolName);
  const plan = tool && (await planTool(tool, request.input));
  const start = await recorder.begin(plan?.ok ? plan : null);
  if (start.kind === 'done') return start.next;
  if (tool === undefined || plan === undefined) {
    return recorder.finish(failedWith(`There is no tool "${request.toolName}".`));
  }
  if (!plan.ok) return recorder.finish(plan);
  if (start.kind === 'refused') return recorder.finish(failedWith(refusalText(start)));
  const execute = tool.execute?.bind(tool);
  // What a page has given counts, also if the tool has a function by now.
  if (execute === undefined || start.given !== undefined)
    return recorder.finish(await pageResult(tool, start.given, request.maxOutputBytes));
  if (start.kind === 'again' && tool.repeatable !== true) return recorder.finish(failedWith(UNKNOWN_OUTCOME));
  if (recorder.spawn && isTaskTool(tool)) {
    const spawned = await recorder.spawn(taskRequest(plan.input));
    if ('done' in spawned) return spawned.done;
    const result =
      'output' in spawned ? resultOf(spawned.output, request.maxOutputBytes) : failedWith(spawned.errorText);
    return recorder.finish(result);
  }
  return runTool({ ...request, input: plan.input }, recorder, execute, plan.raise);
}

async function runTool<Next>(
  { input, stop, maxOutputBytes }: ToolCallRequest,
  recorder: ToolRecorder<Next>,
  execute: Execute,
  raise: Raise | null,
): Promise<Next> {
  const context = await usableContext(recorder);
  if (context instanceof PerdureError) return recorder.finish(failedWith(context.message));
  let result: ToolResult | undefined;
  let thrown: unknown;
  try {
    result = await executeTool({ execute: announced(execute, recorder) }, input, context, { maxOutputBytes });
  } catch (error) {
    thrown = error;
  }
  await recorder.close();
  if (result !== undefined) return recorder.finish(result, raise?.at === 'result' ? raise.event : undefined);
  return stop.why === 'wall_clock' ? recorder.finish(failedWith(OUT_OF_TIME)) : recorder.stopped(thrown);
}

/** The tool's function, but the recorder hears when it begins and ends. */
function announced<Next>(execute: Execute, recorder: ToolRecorder<Next>): Execute {
  return async (input, ctx) => {
    recorder.running?.(true);
    try {
      return await execute(input, ctx);
    } finally {
      recorder.running?.(false);
    }
  };
}

/** The context, or why there is none, which the model sees. */
async function usableContext<Next>(recorder: ToolRecorder<Next>): Promise<ToolContext | PerdureError> {
  try {
    return await recorder.context();
  } catch (error) {
    if (error instanceof PerdureError) return error;
    throw error;
  }
}

const UNKNOWN_OUTCOME = 'interrupted: the worker was lost while this ran, so its outcome is unknown';
const OUT_OF_TIME = 'stopped: the turn reached its time limit (wall_clock)';

/** The outcome of a call whose turn ended as an error before the call could run. */
export const TOOL_NOT_RUN = 'The turn ended before this tool call could run.';

/** A call's outcome as fields of its part. */
export function outcomeOf(result: ToolResult): { state: string; output?: Json; errorText?: string } {
  return result.ok
    ? { state: 'output-available', output: result.output }
    : { state: 'output-error', errorText: result.errorText };
}

function refusalText({ code, phase, event }: ToolRefusal): string {
  if (phase && event) return `InvalidTransition: ${invalidTransitionMessage(phase, event)}.`;
  switch (code) {
    case 'ProjectAlreadyLocked':
      return 'ProjectAlreadyLocked: this session already works on a project. Call the tool without asking for a new one.';
    case 'ProjectRequired':
      return NO_PROJECT_TEXT;
    default:
      return `${code}: the tool may not run.`;
  }
}
