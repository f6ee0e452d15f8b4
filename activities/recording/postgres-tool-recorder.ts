import { ApplicationFailure } from '@temporalio/activity';
import type { ToolContext } from '../../agent/definition/define.ts';
import { SHOWN_WORKSPACE } from '../../agent/prompt/assemble-prompt.ts';
import {
  outcomeOf,
  type ToolDemand,
  type ToolRecorder,
  type ToolRefusal,
  type ToolStart,
} from '../../agent/tools/attempt-tool-call.ts';
import { decideCall, type DecidingSession, withDecision } from '../../agent/tools/decide-call.ts';
import { failedWith, type ToolResult } from '../../agent/tools/execute-tool.ts';
import { refusedTaskText, taskError, type TaskRequest } from '../../agent/tools/task-tool.ts';
import { userMark } from '../../bus/bus.ts';
import type { OpenedChild, SessionMark, ToolArgs, ToolOutcome } from '../../domain/activities.ts';
import { INVALID_TRANSITION_FORMAT, PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { PermissionRecord, PermissionRule } from '../../domain/permissions.ts';
import type { PhaseEvent } from '../../domain/phases.ts';
import type { Json } from '../../domain/text.ts';
import { noteWritten } from '../../store/instructions.ts';
import type { Claim } from '../../store/runs.ts';
import { spawnTask } from '../../store/tasks.ts';
import {
  beginTool,
  type DecidingRules,
  finishTool,
  type LoadedToolCall,
  type PermissionToBegin,
} from '../../store/tools.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';
import { claimWhenFree } from '../claims/claim-when-free.ts';
import {
  claimUntilAnswered,
  logOvertaken,
  retryInBackground,
  type Writer,
  writeUntilStored,
} from '../claims/write-until-stored.ts';
import { sessionWorkspace } from '../prompt/step-prompt.ts';
import { ToolWatch } from '../prompt/tool-watch.ts';
import { newTask } from './tasks.ts';
import { type BufferedContext, hideIn, toolContext } from './tool-context.ts';

/** How often an attempt decides about a call, if its rules change each time. */
const DECISIONS = 10;

/** A loaded tool call. */
interface Loaded extends Writer {
  args: ToolArgs;
  claim: Claim;
  call: LoadedToolCall;
  /** The rules of an agent; null: it is not known here. */
  manifestOf: (agent: string) => readonly PermissionRule[] | null;
  /** Temporal's number of the attempt; 0 for a head start. */
  attempt: number;
  maxOutputBytes: number;
}

/** Records a tool call in Postgres: one transaction before the tool runs, and one with its outcome. */
export class PostgresToolRecorder implements ToolRecorder<ToolOutcome> {
  private readonly work: Loaded;
  private readonly run: { session: string; run: number };
  private mark: SessionMark | undefined;
  /** When the call began here, by `performance.now()`. */
  private begunAt = performance.now();
  /** The decision by which the call may run. */
  private allowed: PermissionRecord | undefined;
  private buffered: BufferedContext | undefined;
  private watched: ToolWatch | undefined;
  /** In the background, opened by this call. */
  private child: OpenedChild | undefined;
  /** The tool's function is running. */
  private isRunning = false;
  /** Undefined until the call has an outcome or was stopped; false: another attempt runs the tool again. */
  private isLast: boolean | undefined;

  constructor(work: Loaded) {
    this.work = work;
    this.run = { session: work.claim.sessionId, run: work.claim.runSeq };
  }

  async begin(demand: ToolDemand | null): Promise<ToolStart<ToolOutcome>> {
    const { context, args, call, attempt } = this.work;
    const pending = {
      tool_call_id: args.tool_call_id,
      name: args.name,
      message_id: call.message_id,
      step: args.step,
    };
    const raise = raiseOf(demand);
    const page = demand?.pageMs ?? null;
    // The workflow shows the new phase before the tool runs, so this takes two activities.
    if (attempt === 0 && raise?.at === 'start') return { kind: 'done', next: { kind: 'lost' } };
    this.watched = this.watchOf(raise?.new_project_id);
    const { watch } = this.watched;
    const begun = await this.underRulesInForce(demand, (permission) => {
      const request = { raise, watch, ...(permission && { permission }), ...(page !== null && { page_ms: page }) };
      return claimWhenFree(this.work, () =>
        claimUntilAnswered(this.work, (claim) => beginTool(context.db, claim, pending, request)),
      );
    });
    context.bus.publish({ ...this.run, kind: 'status' });
    // Those above show what it waits for, too, or that it waits no longer.
    const showing = begun.kind === 'waiting' || page !== null ? call.above : [];
    for (const { session_id: session } of showing) context.bus.publish({ session, kind: 'status' });
    switch (begun.kind) {
      case 'waiting':
        context.bus.publish({ ...this.run, kind: 'stream' });
        return { kind: 'done', next: begun };
      case 'settled':
        context.bus.publish({ ...this.run, kind: 'stream' });
        return { kind: 'done', next: begun };
      case 'refused':
        this.allowed = undefined;
        this.logRefusal(begun);
        return begun;
      case 'begun':
        this.noteBegun(begun);
        // Returns first, so that the workflow shows the new phase before the tool runs.
        return raise?.at === 'start' ? { kind: 'done', next: markOf(begun) } : { ...begun, kind: 'begun' };
      case 'again':
        this.noteBegun(begun);
        // The previous activity only began the call.
        return { ...begun, kind: args.begun === true && attempt === 1 ? 'begun' : 'again' };
      default:
        return { kind: 'done', next: begun };
    }
  }

  /** Decides about the call, and begins it under that decision; again, if the rules have changed meanwhile. */
  private async underRulesInForce<Begun extends { kind: string }>(
    demand: ToolDemand | null,
    begin: (permission: PermissionToBegin | undefined) => Promise<Begun>,
  ): Promise<Exclude<Begun, { kind: 'rules' }>> {
    const { args, call } = this.work;
    let rules: DecidingRules = { rules: call.rules, above: call.above };
    for (let n = 0; n < DECISIONS; n += 1) {
      const decided = demand && {
        ...rules,
        ...decideCall({
          ...{ toolCallId: args.tool_call_id, request: demand.permission, isHeadless: call.headless },
          sessions: this.decidingSessions(rules),
        }),
      };
      // Of a call that began before, an earlier decision counts; the newest rules may say otherwise.
      this.allowed =
        decided?.action === 'allow' ? { ...decided.record, decided_at: new Date().toISOString() } : undefined;
      const begun: Begun | RulesInForce = await begin(decided ?? undefined);
      if (!isRules(begun)) return begun as Exclude<Begun, { kind: 'rules' }>;
      rules = { rules: begun.rules, above: begun.above };
    }
    throw ApplicationFailure.retryable('RulesChange', 'RulesChange');
  }

  /** The call's session and those above it, each with all rules that hold in it. */
  private decidingSessions({ rules: own, above }: DecidingRules): [DecidingSession, ...DecidingSession[]] {
    const { args, call, manifestOf } = this.work;
    // Rows keep all that they have, but only a manifest can pin.
    const withManifest = (agent: string, rules: readonly PermissionRule[]) => {
      const manifest = manifestOf(agent);
      return manifest && [...manifest, ...rules.map((rule) => ({ ...rule, pinned: undefined }))];
    };
    return [
      { session_id: args.session_id, has_project: call.project_id !== null, rules: withManifest(call.agent, own) },
      ...above.map(({ agent, rules, ...session }) => ({ ...session, rules: withManifest(agent, rules) })),
    ];
  }

  private noteBegun(begun: SessionMark & { data?: LoadedToolCall['data'] }): void {
    this.mark = begun;
    this.begunAt = performance.now();
    if (begun.data === undefined) return;
    // It was approved; the part says by whom.
    this.allowed = undefined;
    this.work.call = { ...this.work.call, data: begun.data };
  }

  /** @throws {PerdureError} `WorkspaceNotUsable` */
  context(): ToolContext {
    const { context, args, claim, call, stop, maxOutputBytes } = this.work;
    const session = { ...call, project_id: this.mark?.project_id ?? null };
    const folder = sessionWorkspace(context, { sessionId: args.session_id, ...session });
    this.buffered = toolContext(context, {
      claim,
      toolCallId: args.tool_call_id,
      name: args.name,
      session,
      workspaceRoot: folder,
      stop,
      maxOutputBytes,
    });
    return this.buffered.ctx;
  }

  async spawn(request: TaskRequest): Promise<{ output: Json } | { errorText: string } | { done: ToolOutcome }> {
    const { context, args, call } = this.work;
    const { session_id: sessionId, tool_call_id: toolCallId } = args;
    let task;
    try {
      task = newTask(context, { sessionId, projectId: this.mark?.project_id ?? null, call }, request);
    } catch (error) {
      if (error instanceof PerdureError) return { errorText: error.message };
      throw error;
    }
    const stood = await writeUntilStored(this.work, (claim) => spawnTask(context.db, claim, toolCallId, task));
    if (stood.kind === 'refused') return { errorText: refusedTaskText(stood.code, context.settings.maxSubagents) };
    if (stood.kind === 'lost' || stood.kind === 'abort') return { done: stood };
    const { session_id, agent } = stood;
    if (stood.kind === 'over') {
      // A head start of the child may be faster than its parent's workflow, which starts the child's.
      if (stood.state !== 'erased') this.child = { session_id, agent };
      const errorText = taskError(stood);
      return errorText === undefined ? { output: { session_id, text: stood.text } } : { errorText };
    }
    if (stood.is_new) {
      context.bus.publish({ session: session_id, run: stood.run_seq, kind: 'accepted' });
      context.bus.publish({ session: session_id, kind: 'status' });
      context.bus.publish({ ...this.run, kind: 'stream' });
    }
    if (stood.kind === 'spawned') {
      this.child = { session_id, agent };
      return { output: { session_id } };
    }
    return { done: { kind: 'task', child: { session_id, agent } } };
  }

  running(isRunning: boolean): void {
    this.isRunning = isRunning;
    if (!isRunning) this.noteChanges();
  }

  async close(): Promise<void> {
    await this.buffered?.end();
  }

  async finish(unsafe: ToolResult, raise?: PhaseEvent): Promise<ToolOutcome> {
    const { context, args, call } = this.work;
    this.isLast = true;
    const result = this.withoutSecrets(unsafe);
    const changes = this.watched?.changes(!this.isRunning);
    const event = result.ok ? raise : undefined;
    const outcome = {
      data: { ...(this.allowed ? withDecision(call.data, this.allowed) : call.data), ...outcomeOf(result) },
      effects: {
        ...(event !== undefined && { event }),
        ...(result.ok && result.aside !== undefined && { aside: result.aside }),
        ...(changes && { changes }),
        work: {
          worker: context.worker,
          // The arguments have the step after the call.
          step: args.step - 1,
          attempt: 1,
          ms: Math.round(performance.now() - this.begunAt),
        },
        ...(this.buffered?.changes() ?? { state: [], todos: [] }),
      },
      illegal: event === undefined ? '' : INVALID_TRANSITION_FORMAT.replace('%e', event),
    };
    const stored = await writeUntilStored(this.work, (claim) =>
      finishTool(context.db, claim, args.tool_call_id, outcome),
    ).catch((error: unknown) => {
      this.isLast = false;
      if (!this.isRunning) this.noteChanges();
      throw error;
    });
    context.bus.publish({ ...this.run, kind: 'stream' });
    const scopes = new Set(outcome.effects.state.map(({ scope }) => scope).filter((scope) => scope !== 'temp'));
    if (scopes.size > 0) {
      const user = scopes.has('user') ? { user: userMark(call.user_id) } : {};
      context.bus.publish({ ...this.run, kind: 'status', ...user });
    }
    if (stored.kind !== 'settled') return stored;
    context.metrics.toolCalled(args.name, result.ok ? 'ok' : 'error');
    return { ...(this.child && { child: this.child }), ...stored };
  }

  stopped(error: unknown): Promise<ToolOutcome> {
    const { context, stop } = this.work;
    this.isLast = stop.why === 'abort';
    if (!this.isRunning) this.noteChanges();
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

  /** Which instruction files the tool finds, in the workspace that the call will have. */
  private watchOf(newProject: string | undefined): ToolWatch {
    const { context, args, call } = this.work;
    const { workspaces } = context.settings;
    const session = { ...call, session_id: args.session_id, project_id: call.project_id ?? newProject ?? null };
    return new ToolWatch(workspaceRoot(workspaces, session), workspaces, call.user_id);
  }

  /** Stores what the tool of a call that is over wrote; it may have ended later, after an erasure of its session, too. */
  private noteChanges(): void {
    const { context, args } = this.work;
    if (this.watched === undefined || this.isLast === undefined) return;
    const call = { sessionId: args.session_id, toolCallId: args.tool_call_id };
    const changes = this.watched.changes(this.isLast);
    retryInBackground(() => noteWritten(context.db, call, changes)).catch((error: unknown) =>
      context.log.warn({ err: error, ...this.run }, 'the instruction files that a tool wrote were not noted'),
    );
  }

  /** A result without this process's secrets and the workspace's path, for the model and the rows. */
  private withoutSecrets(result: ToolResult): ToolResult {
    const { context } = this.work;
    const root = this.watched?.folder;
    const hide = (text: string) => context.hide(root === undefined ? text : text.replaceAll(root, SHOWN_WORKSPACE));
    if (!result.ok) return failedWith(hide(result.errorText));
    const { output, aside } = result;
    return { ok: true, output: hideIn({ hide }, output), ...(aside !== undefined && { aside: hide(aside) }) };
  }

  private logRefusal({ code, phase, event }: ToolRefusal): void {
    const { context } = this.work;
    context.metrics.refused(event ?? 'tool', code);
    context.log.error({ ...this.run, code, phase, event }, 'refused a tool call');
  }
}

type RulesInForce = { kind: 'rules' } & DecidingRules;

function isRules(begun: { kind: string }): begun is RulesInForce {
  return begun.kind === 'rules';
}

function markOf({ phase, project_id, event_seq }: SessionMark): SessionMark & { kind: 'begun' } {
  return { kind: 'begun', phase, project_id, event_seq };
}

function raiseOf(demand: ToolDemand | null) {
  if (!demand?.raise && !demand?.project) return null;
  const { raise, project } = demand;
  // A retry creates another id; only one of them is locked.
  return { ...raise, project, ...(project === 'new' && { new_project_id: newId('prj') }) };
}
