import type { UIMessageChunk } from 'ai';
import { invalidTransitionMessage } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { PermissionRecord } from '../../domain/permissions.ts';
import { nextPhase, type PhaseEvent } from '../../domain/phases.ts';
import { progressChunk } from '../../domain/rows-to-chunks.ts';
import { manifestRules, type ToolContext } from '../definition/define.ts';
import { instructionStamps, type Stamps } from '../prompt/instructions.ts';
import type { StopSignal } from '../stop-signal.ts';
import type { ToolDemand, ToolRecorder, ToolRefusal, ToolStart } from '../tools/attempt-tool-call.ts';
import { decideCall } from '../tools/decide-call.ts';
import { failedWith, type ToolResult } from '../tools/execute-tool.ts';
import type { MemoryAnswer } from './memory-answer.ts';
import { type MemorySession, memoryToolContext } from './memory-session.ts';

interface Work {
  session: MemorySession;
  answer: MemoryAnswer<Record<string, unknown>>;
  toolCallId: string;
  toolName: string;
  stop: StopSignal;
  /** Absolute path of the outermost folder whose instructions are read. */
  boundary: string;
  show: (chunks: UIMessageChunk[]) => Promise<void>;
}

/** Records a tool call in memory. `stopped`: it was stopped before it had an outcome. */
export class MemoryToolRecorder implements ToolRecorder<'settled' | 'stopped'> {
  private readonly work: Work;
  private allowed: PermissionRecord | undefined;
  private commit = () => {};
  private endWatch: ((after: Stamps) => void) | undefined;
  private progress: Promise<void> = Promise.resolve();
  private over = false;

  constructor(work: Work) {
    this.work = work;
  }

  async begin(demand: ToolDemand | null): Promise<ToolStart<'settled' | 'stopped'>> {
    const { session, answer, toolCallId, show } = this.work;
    const refusal = demand && refusalOf(session, demand);
    if (refusal) return refusal;
    if (demand) {
      const decided = decideCall({
        toolCallId,
        request: demand.permission,
        sessions: [{ session_id: '', rules: manifestRules(session.agent), has_project: session.projectId !== null }],
        // Nobody answers a run in memory.
        isHeadless: true,
      });
      const permission = { ...decided.record, decided_at: new Date().toISOString() };
      if (decided.action === 'deny') {
        await show(answer.denyCall(toolCallId, decided.approval, permission));
        return { kind: 'done', next: 'settled' };
      }
      this.allowed = permission;
    }
    if (demand?.project === 'new') session.projectId = newId('prj');
    if (demand?.raise?.at === 'start') this.move(demand.raise.event);
    return { kind: 'begun' };
  }

  context(): ToolContext {
    const { session, toolCallId, toolName, stop, show } = this.work;
    const progress: ToolContext['progress'] = (data) => {
      if (!this.over) this.progress = show([progressChunk({ tool_call_id: toolCallId, data })]);
    };
    const { ctx, commit } = memoryToolContext(session, { tool: toolName, toolCallId, signal: stop.signal, progress });
    this.commit = commit;
    return ctx;
  }

  running(isRunning: boolean): void {
    const { session, boundary } = this.work;
    const stamps = instructionStamps(session.workspaceRoot, boundary);
    if (isRunning) this.endWatch = session.writtenInstructions.begin(stamps);
    else this.endWatch?.(stamps);
  }

  async close(): Promise<void> {
    this.over = true;
    await this.progress;
  }

  async finish(result: ToolResult, raise?: PhaseEvent): Promise<'settled'> {
    const { answer, session, toolCallId, show } = this.work;
    const isLegal = !result.ok || raise === undefined || this.move(raise);
    if (result.ok && isLegal) this.commit();
    const stored = isLegal
      ? result
      : failedWith(`InvalidTransition: ${invalidTransitionMessage(session.phase, raise)}.`);
    await show(answer.settleCall(toolCallId, stored, this.allowed));
    return 'settled';
  }

  async stopped(error: unknown): Promise<'stopped'> {
    if (this.work.stop.why === undefined) throw error;
    return 'stopped';
  }

  private move(event: PhaseEvent): boolean {
    const { session } = this.work;
    const next = nextPhase(session.phase, event);
    if (next !== undefined) session.phase = next;
    return next !== undefined;
  }
}

/** Why a call must not run, checked in the same order as in `begin_tool`: first the phase, then the project. */
function refusalOf(session: MemorySession, { raise, project }: ToolDemand): ToolRefusal | undefined {
  const { phase, projectId } = session;
  if (raise && !nextPhase(phase, raise.event)) {
    return { kind: 'refused', code: 'InvalidTransition', phase, event: raise.event };
  }
  if (project === 'new' && projectId !== null) return { kind: 'refused', code: 'ProjectAlreadyLocked' };
  return project === 'required' && projectId === null ? { kind: 'refused', code: 'ProjectRequired' } : undefined;
}
