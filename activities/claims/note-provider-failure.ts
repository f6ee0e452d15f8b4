import type { ProviderReport } from '../../agent/provider-failures/provider-report.ts';
import type { StepResult } from '../../agent/step/stream-model-call.ts';
import { splitModelRef } from '../../domain/model-ref.ts';
import type { RunErrorCode } from '../../domain/runs.ts';
import { cleanText } from '../../domain/text.ts';
import { logProviderError, type Spent } from '../../store/events.ts';
import { costOf } from '../cost.ts';
import { type Writer, writeUntilStored } from './write-until-stored.ts';

/** Of a provider's message, in UTF-16 units. */
const MAX_MESSAGE = 4_000;

/** A failed call of a model. */
export interface ProviderFailureNote {
  /** `provider/model`. */
  ref: string;
  code: RunErrorCode;
  report: ProviderReport;
  /** The answer that was whole all the same. */
  discarded?: StepResult;
}

/**
 * Notes a provider's failure where it can be found: in the metrics, in the worker's log without the message, and in the
 * session's event log with it, because it is content. Counts what an answer has cost that was whole all the same.
 */
export async function noteProviderFailure(
  writer: Writer,
  { ref, code, report, discarded }: ProviderFailureNote,
): Promise<void> {
  const { context, claim } = writer;
  const { provider_id: provider, model_id: model } = splitModelRef(ref);
  const { message, ...known } = report;
  const fields = { code, provider, model, ...known };
  context.metrics.providerFailed(code, provider);
  context.log.warn({ session: claim.sessionId, run: claim.runSeq, ...fields }, 'the model provider failed');
  // Hidden first: a secret that is cut in two would not be found.
  const text = cleanText(context.hide(message).slice(0, MAX_MESSAGE));
  const spent = discarded && spentOn(writer, discarded);
  await writeUntilStored(writer, (mine) => logProviderError(context.db, mine, { ...fields, message: text }, spent));
}

function spentOn({ context, claim }: Writer, { usage, model, finishReason }: StepResult): Spent {
  const cost = costOf(context, { session: claim.sessionId, run: claim.runSeq }, { usage, model });
  return { usage, model, finish_reason: finishReason, ...(cost !== undefined && { cost_usd: cost }) };
}
