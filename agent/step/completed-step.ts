import type { UIMessage } from 'ai';
import type { RunFailure } from '../../domain/runs.ts';
import { limitedTokens } from '../../domain/usage.ts';
import type { AgentDefinition } from '../definition/define.ts';
import type { ResolvedModel } from '../models/models.ts';
import type { StepToolCall } from '../parts/call-chunks.ts';
import { failureOfFinish } from '../provider-failures/classify-provider-error.ts';
import { finishReport, type ProviderReport } from '../provider-failures/provider-report.ts';
import { outputLimitFailure } from './limits.ts';
import type { StepResult } from './stream-model-call.ts';

/** A step that the model has completed. */
export interface CompletedStep {
  result: StepResult;
  /** Counted towards the limit of tokens. */
  tokens: number;
  /** The calls to run; invalid ones already have an outcome. */
  calls: StepToolCall[];
  /** There are no tool calls, so the turn is over. */
  isLast: boolean;
  /** Ends the turn as an error. */
  failure?: RunFailure;
  /** The failure is the provider's. */
  report?: ProviderReport;
}

interface Attempt {
  agent: AgentDefinition;
  /** Settled steps of the run. */
  step: number;
}

interface Asked {
  /** What the model was given. */
  messages: readonly UIMessage[];
  model: ResolvedModel;
}

/** What comes of a result. A finish reason that `failureOfFinish` calls retryable is not that of a completed step. */
export function completedStep(attempt: Attempt, asked: Asked, result: StepResult): CompletedStep {
  return {
    result,
    tokens: limitedTokens(result.usage),
    calls: result.toolCalls.filter((call) => call.invalid !== true),
    isLast: result.toolCalls.length === 0,
    ...failureOf(attempt, asked, result),
  };
}

const EMPTY: RunFailure = {
  code: 'EmptyAnswer',
  message: 'The model’s answer was empty: have the message answered again, or choose another model.',
};

function failureOf(
  { agent, step }: Attempt,
  { messages, model }: Asked,
  result: StepResult,
): Pick<CompletedStep, 'failure' | 'report'> {
  const { finishReason, rawFinishReason, isCut, isEmpty } = result;
  const report = finishReport(finishReason, rawFinishReason);
  const refused = failureOfFinish(finishReason);
  if (refused?.kind === 'final') {
    const { kind: _, ...failure } = refused;
    return { failure, report };
  }
  const { usage } = result;
  // Without a setting it is the provider's, which the answer has reached.
  const limit = agent.max_output_tokens ?? (usage.output + usage.reasoning || model.maxOutput);
  // The model was told once to send less.
  if (isCut && lastStepIsCut(messages)) return { failure: outputLimitFailure('within a tool call again', limit) };
  if (isEmpty && finishReason === 'length') return { failure: outputLimitFailure('before the answer', limit) };
  // After tool calls a model may have nothing to add.
  return isEmpty && step === 0 ? { failure: EMPTY, report } : {};
}

/** Whether the output limit cut a tool call of the turn's step before this one. */
function lastStepIsCut(messages: readonly UIMessage[]): boolean {
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return false;
  const begin = last.parts.findLastIndex(({ type }) => type === 'step-start');
  return last.parts.slice(begin + 1).some(isCutCall);
}

function isCutCall(part: UIMessage['parts'][number]): boolean {
  if (!('resultProviderMetadata' in part)) return false;
  return part.resultProviderMetadata?.['perdure']?.['cut'] === true;
}
