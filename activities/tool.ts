import { ApplicationFailure, Context } from '@temporalio/activity';
import { limitsOf, type ToolDefinition } from '../agent/define.ts';
import { executeTool, NO_PROJECT_TEXT, planTool, type ToolOutcome as Executed } from '../agent/tool.ts';
import type { NotBegun, SessionMark, ToolArgs, ToolOutcome } from '../domain/commands.ts';
import { INVALID_TRANSITION_FORMAT, invalidTransitionMessage, PerdureError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { PhaseEvent } from '../domain/phases.ts';
import type { Claim } from '../store/runs.ts';
import {
  beginTool,
  finishTool,
  type LoadedToolCall,
  loadToolCall,
  type RaiseRequest,
  type ToolRefusal,
} from '../store/tools.ts';
import type { ActivityContext } from './context.ts';
import { claimUntilAnswered, logOvertaken, writeUntilStored } from './write-until-stored.ts';
import { workspaceOf } from './prompt.ts';
import { ActivityStop } from './stop.ts';
import { type BufferedContext, hideIn, toolContext } from './tool-context.ts';

/** One tool call at work. */
interface Work {
  context: ActivityContext;
  args: ToolArgs;
  claim: Claim;
  call: LoadedToolCall;
  /** Made before the first statement. */
  stop: ActivityStop;
}

/** What is known of a call before it may run: the tool, its parsed input, what it raises; or why it cannot run. */
type Plan = { tool: ToolDefinition; raise: RaiseRequest | null } | { errorText: string };

/**
 * Runs one tool call, from claim to stored outcome. Its receipt is the outcome on the part: asked again, it answers
 * that. A call that an earlier attempt began and left is run again only by tools that say that they may be.
 */
export async function runToolCall(context: ActivityContext, args: ToolArgs): Promise<ToolOutcome> {
  const fence = [args.epoch, args.ordinal, Context.current().info.attempt] as const;
  const claim: Claim = { sessionId: args.session_id, runSeq: args.run_seq, fence };
  using stop = new ActivityStop(context, args);
  const call = await loadToolCall(context.db, args.session_id, args.run_seq, args.tool_call_id);
  if (call === undefined) throw ApplicationFailure.nonRetryable('ToolCallNotFound', 'ToolCallNotFound');
  const work: Work = { context, args, claim, call, stop };
  const plan = await planOf(work);
  const begun = await begin(work, plan);
  switch (begun.kind) {
    case 'begun':
      if ('errorText' in plan) return await finish(work, failedWith(plan.errorText));
      // The workflow learns of the new phase before the tool runs.
      return plan.raise?.at === 'start' ? begun : await execute(work, plan, begun);
    case 'again':
      if (!('errorText' in plan) && (plan.tool.repeatable || isFirstTry(args))) return await execute(work, plan, begun);
      return await finish(
        work,
        failedWith('interrupted: the worker was lost while this ran, so its outcome is unknown'),
      );
    case 'refused':
      return await finish(work, failedWith(refusalText(begun)));
    default:
      return begun;
  }
}

/** True where the call was begun by an activity that ran nothing, and no attempt of this one came before. */
function isFirstTry(args: ToolArgs): boolean {
  return args.begun === true && Context.current().info.attempt === 1;
}

async function planOf({ context, call }: Work): Promise<Plan> {
  const agent = context.agents.list().find((each) => each.id === call.agent);
  const name = call.data.type === 'dynamic-tool' ? String(call.data['toolName']) : call.data.type.slice('tool-'.length);
  const tool = agent?.tools.find((each) => each.name === name);
  if (tool === undefined) return { errorText: `There is no tool "${name}".` };
  const plan = await planTool(tool, call.data.input);
  if (!plan.ok) return plan;
  const { raise, project } = plan;
  // A repeated attempt makes another id without harm: one of them is locked.
  const newProject = project === 'new' ? { new_project_id: newId('prj') } : {};
  return { tool, raise: raise && { ...raise, project, ...newProject } };
}

type Began<Kind> = Kind extends string ? SessionMark & { kind: Kind } : never;
type Begun = Began<'begun' | 'again' | 'settled'> | ToolRefusal | NotBegun;

async function begin(work: Work, plan: Plan): Promise<Begun> {
  const { context, args, call } = work;
  const pending = {
    tool_call_id: args.tool_call_id,
    name: args.name,
    message_id: call.message_id,
    step: args.step,
    started_at: new Date().toISOString(),
  };
  const raise = 'errorText' in plan ? null : plan.raise;
  const begun = await claimUntilAnswered(work, (mine) => beginTool(context.db, mine, pending, raise));
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'status' });
  if (begun.kind === 'refused') {
    context.metrics.refused(begun.event ?? 'tool', begun.code);
    context.log.error(
      { session: args.session_id, run: args.run_seq, code: begun.code, phase: begun.phase, event: begun.event },
      'a tool asked for what the session does not allow',
    );
  }
  return begun;
}

async function execute(
  work: Work,
  plan: { tool: ToolDefinition; raise: RaiseRequest | null },
  mark: SessionMark,
): Promise<ToolOutcome> {
  const { context, args, call, claim, stop } = work;
  const limits = limitsOf(context.agents.get(call.agent));
  stop.limitTo(limits.wall_clock_ms - call.elapsed_ms);
  const session = { ...call, project_id: mark.project_id };
  const workspaceRoot = usableWorkspace(context, { sessionId: args.session_id, ...session });
  if (workspaceRoot instanceof PerdureError) return finish(work, failedWith(workspaceRoot.message));
  const buffered = toolContext(context, { claim, toolCallId: args.tool_call_id, session, workspaceRoot, stop });
  try {
    const executed = await executeTool(plan.tool, call.data.input, buffered.ctx, {
      maxOutputBytes: limits.tool_output_bytes,
    });
    await buffered.end();
    return await finish(work, executed, {
      buffered,
      ...(plan.raise?.at === 'result' ? { event: plan.raise.event } : {}),
    });
  } catch (error) {
    await buffered.end();
    return stopped(work, error);
  }
}

/** The session's folder, or why there is none to work in: the model is told. */
function usableWorkspace(...asked: Parameters<typeof workspaceOf>): string | PerdureError {
  try {
    return workspaceOf(...asked);
  } catch (error) {
    if (error instanceof PerdureError) return error;
    throw error;
  }
}

/** Stores an outcome. */
async function finish(
  work: Work,
  brought: Executed,
  writes?: { buffered: BufferedContext; event?: PhaseEvent },
): Promise<ToolOutcome> {
  const { context, args, call } = work;
  const executed = withoutSecrets(context, brought);
  const data = {
    ...call.data,
    ...(executed.ok
      ? { state: 'output-available', output: executed.output }
      : { state: 'output-error', errorText: executed.errorText }),
  };
  const event = executed.ok ? writes?.event : undefined;
  const stored = {
    data,
    effects: {
      ...(event === undefined ? {} : { event }),
      ...(executed.ok && executed.aside !== undefined ? { aside: executed.aside } : {}),
      ...(writes?.buffered.changes() ?? { state: [], todos: [] }),
    },
    illegal: event === undefined ? '' : INVALID_TRANSITION_FORMAT.replace('%e', event),
  };
  const write = (claim: Claim) => finishTool(context.db, claim, args.tool_call_id, stored);
  const outcome = await writeUntilStored(work, write);
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'stream' });
  if (outcome.kind === 'settled') context.metrics.toolCalled(args.name, executed.ok ? 'ok' : 'error');
  return outcome;
}

/** What a tool has brought, as model and rows may have it. */
function withoutSecrets(context: ActivityContext, brought: Executed): Executed {
  if (!brought.ok) return failedWith(context.hide(brought.errorText));
  const { output, aside } = brought;
  return { ok: true, output: hideIn(context, output), ...(aside !== undefined && { aside: context.hide(aside) }) };
}

async function stopped(work: Work, error: unknown): Promise<ToolOutcome> {
  const { stop } = work;
  switch (stop.why) {
    case 'abort':
      work.context.metrics.aborted(stop.seconds);
      return { kind: 'abort' };
    case 'lost':
      logOvertaken(work);
      return { kind: 'lost' };
    case 'wall_clock':
      return finish(work, failedWith('stopped: the turn reached its time limit (wall_clock)'));
    case 'shutdown':
      throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
    default:
      throw error;
  }
}

function failedWith(errorText: string): Executed {
  return { ok: false, errorText };
}

function refusalText(refusal: ToolRefusal): string {
  const { code, phase, event } = refusal;
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
