import type { UIMessageChunk } from 'ai';
import { invalidTransitionMessage } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { nextPhase } from '../domain/phases.ts';
import type { Json } from '../domain/text.ts';
import type { Raise } from './define.ts';
import { type MemorySession, memoryToolContext } from './memory.ts';
import type { StepToolCall } from './step-chunks.ts';
import { executeTool, NO_PROJECT_TEXT, planTool, type ToolOutcome } from './tool.ts';

/**
 * Runs a tool call on a session in memory: what it raises at the start, the tool, what it raises with its result. Yields
 * its progress as transient parts, then its outcome.
 *
 * @throws the signal's reason when the run was aborted
 */
export async function* runTool(
  session: MemorySession,
  call: StepToolCall,
  signal: AbortSignal,
  maxOutputBytes: number,
): AsyncGenerator<UIMessageChunk, void, void> {
  const { toolCallId } = call;
  const progress = new ProgressQueue(toolCallId);
  const running = execute(session, call, signal, maxOutputBytes, (data) => progress.push(data)).finally(() =>
    progress.end(),
  );
  yield* progress.chunks();
  const outcome = await running;
  if (outcome.ok) yield { type: 'tool-output-available', toolCallId, output: outcome.output };
  else yield { type: 'tool-output-error', toolCallId, errorText: outcome.errorText };
}

async function execute(
  session: MemorySession,
  call: StepToolCall,
  signal: AbortSignal,
  maxOutputBytes: number,
  progress: (data: Json) => void,
): Promise<ToolOutcome> {
  const tool = session.agent.tools.find((candidate) => candidate.name === call.toolName);
  if (!tool) return refused(`There is no tool "${call.toolName}".`);
  const plan = await planTool(tool, call.input);
  if (!plan.ok) return plan;
  const refusal = judge(session, plan.raise, plan.project);
  if (refusal !== undefined) return refused(refusal);
  if (plan.project === 'new') session.projectId = newId('prj');
  if (plan.raise?.at === 'start') session.phase = nextPhase(session.phase, plan.raise.event) ?? session.phase;
  const { ctx, commit } = memoryToolContext(session, { toolCallId: call.toolCallId, signal, progress });
  const outcome = await executeTool(tool, call.input, ctx, { maxOutputBytes });
  return outcome.ok ? settle(session, plan.raise, outcome, commit) : outcome;
}

/** Why a call may not run, in the order in which the rows judge: the phase first, then the project. */
function judge(session: MemorySession, raise: Raise | null, project: 'new' | 'required' | null): string | undefined {
  if (raise && !nextPhase(session.phase, raise.event)) return invalidTransitionMessage(session.phase, raise.event);
  if (project === 'new' && session.projectId !== null)
    return 'ProjectAlreadyLocked: this session has its project already.';
  return project === 'required' && session.projectId === null ? NO_PROJECT_TEXT : undefined;
}

function settle(session: MemorySession, raise: Raise | null, outcome: ToolOutcome, commit: () => void): ToolOutcome {
  if (raise?.at === 'result') {
    const next = nextPhase(session.phase, raise.event);
    if (!next) return refused(invalidTransitionMessage(session.phase, raise.event));
    session.phase = next;
  }
  commit();
  return outcome;
}

function refused(errorText: string): ToolOutcome {
  return { ok: false, errorText };
}

/** Progress on its way from a tool's callback to a generator. */
class ProgressQueue {
  private readonly waiting: Json[] = [];
  private readonly toolCallId: string;
  private done = false;
  private wake = () => {};

  constructor(toolCallId: string) {
    this.toolCallId = toolCallId;
  }

  push(data: Json): void {
    this.waiting.push(data);
    this.wake();
  }

  end(): void {
    this.done = true;
    this.wake();
  }

  async *chunks(): AsyncGenerator<UIMessageChunk, void, void> {
    for (;;) {
      const data = { toolCallId: this.toolCallId, progress: this.waiting.shift() };
      if (data.progress !== undefined) yield { type: 'data-tool-progress', data, transient: true };
      else if (this.done) return;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }
}
