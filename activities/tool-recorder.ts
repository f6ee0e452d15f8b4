import { ApplicationFailure, Context } from '@temporalio/activity';
import type { ToolContext } from '../agent/define.ts';
import { failedWith, type ToolResult } from '../agent/tool.ts';
import { outcomeOf, type ToolDemand, type ToolRecorder, type ToolStart } from '../agent/tool-call.ts';
import type { SessionMark, ToolArgs, ToolOutcome } from '../domain/commands.ts';
import { INVALID_TRANSITION_FORMAT } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { PhaseEvent } from '../domain/phases.ts';
import type { Claim } from '../store/runs.ts';
import { beginTool, finishTool, type LoadedToolCall, type ToolRefusal } from '../store/tools.ts';
import type { ActivityContext } from './context.ts';
import { workspaceOf } from './prompt.ts';
import { type BufferedContext, hideIn, toolContext } from './tool-context.ts';
import { claimUntilAnswered, logOvertaken, type Writer, writeUntilStored } from './write-until-stored.ts';

/** A loaded tool call. */
interface Loaded extends Writer {
  args: ToolArgs;
  claim: Claim;
  call: LoadedToolCall;
}

/** Records a tool call in Postgres: one transaction before the tool runs, and one with its outcome. */
export class PostgresToolCall implements ToolRecorder<ToolOutcome> {
  private readonly work: Loaded;
  private readonly run: { session: string; run: number };
  private mark: SessionMark | undefined;
  private buffered: BufferedContext | undefined;

  constructor(work: Loaded) {
    this.work = work;
    this.run = { session: work.claim.sessionId, run: work.claim.runSeq };
  }

  async begin(demand: ToolDemand | null): Promise<ToolStart<ToolOutcome>> {
    const { context, args, call } = this.work;
    const pending = {
      tool_call_id: args.tool_call_id,
      name: args.name,
      message_id: call.message_id,
      step: args.step,
      started_at: new Date().toISOString(),
    };
    const raise = raiseOf(demand);
    const begun = await claimUntilAnswered(this.work, (claim) => beginTool(context.db, claim, pending, raise));
    context.bus.publish({ ...this.run, kind: 'status' });
    switch (begun.kind) {
      case 'refused':
        this.logRefusal(begun);
        return begun;
      case 'begun':
        this.mark = begun;
        // Returns first, so that the workflow shows the new phase before the tool runs.
        return raise?.at === 'start' ? { kind: 'done', next: { ...begun, kind: 'begun' } } : { kind: 'begun' };
      case 'again':
        this.mark = begun;
        return { kind: isFirstTry(args) ? 'begun' : 'again' };
      default:
        return { kind: 'done', next: begun };
    }
  }

  /** @throws {PerdureError} `WorkspaceNotUsable` */
  context(): ToolContext {
    const { context, args, claim, call, stop } = this.work;
    const session = { ...call, project_id: this.mark?.project_id ?? null };
    const workspaceRoot = workspaceOf(context, { sessionId: args.session_id, ...session });
    this.buffered = toolContext(context, { claim, toolCallId: args.tool_call_id, session, workspaceRoot, stop });
    return this.buffered.ctx;
  }

  async close(): Promise<void> {
    await this.buffered?.end();
  }

  async finish(unsafe: ToolResult, raise?: PhaseEvent): Promise<ToolOutcome> {
    const { context, args, call } = this.work;
    const result = withoutSecrets(context, unsafe);
    const event = result.ok ? raise : undefined;
    const outcome = {
      data: { ...call.data, ...outcomeOf(result) },
      effects: {
        ...(event !== undefined && { event }),
        ...(result.ok && result.aside !== undefined && { aside: result.aside }),
        ...(this.buffered?.changes() ?? { state: [], todos: [] }),
      },
      illegal: event === undefined ? '' : INVALID_TRANSITION_FORMAT.replace('%e', event),
    };
    const stored = await writeUntilStored(this.work, (claim) =>
      finishTool(context.db, claim, args.tool_call_id, outcome),
    );
    context.bus.publish({ ...this.run, kind: 'stream' });
    if (stored.kind === 'settled') context.metrics.toolCalled(args.name, result.ok ? 'ok' : 'error');
    return stored;
  }

  stopped(error: unknown): Promise<ToolOutcome> {
    const { context, stop } = this.work;
    switch (stop.why) {
      case 'abort':
        context.metrics.aborted(stop.seconds);
        return Promise.resolve({ kind: 'abort' });
      case 'lost':
        logOvertaken(this.work);
        return Promise.resolve({ kind: 'lost' });
      case 'shutdown':
        throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
      default:
        throw error;
    }
  }

  private logRefusal({ code, phase, event }: ToolRefusal): void {
    const { context } = this.work;
    context.metrics.refused(event ?? 'tool', code);
    context.log.error({ ...this.run, code, phase, event }, 'refused a tool call');
  }
}

/** Whether this is the first attempt to run a call that the previous activity only began. */
function isFirstTry(args: ToolArgs): boolean {
  return args.begun === true && Context.current().info.attempt === 1;
}

function raiseOf(demand: ToolDemand | null) {
  if (!demand?.raise && !demand?.project) return null;
  const { raise, project } = demand;
  // A retry creates another id; only one of them is locked.
  return { ...raise, project, ...(project === 'new' && { new_project_id: newId('prj') }) };
}

/** A result with this process's secrets removed, for the model and the rows. */
function withoutSecrets(context: ActivityContext, result: ToolResult): ToolResult {
  if (!result.ok) return failedWith(context.hide(result.errorText));
  const { output, aside } = result;
  return { ok: true, output: hideIn(context, output), ...(aside !== undefined && { aside: context.hide(aside) }) };
}
