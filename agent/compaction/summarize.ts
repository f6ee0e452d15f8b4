import { setTimeout as delay } from 'node:timers/promises';
import type { UIMessage } from 'ai';
import type { CompactionSettings } from '../../domain/compaction.ts';
import type { RunErrorCode } from '../../domain/runs.ts';
import { cleanText } from '../../domain/text.ts';
import type { Usage } from '../../domain/usage.ts';
import type { AgentDefinition } from '../definition/define.ts';
import type { ResolvedModel } from '../models/models.ts';
import {
  retryDelayMs,
  classifyProviderError,
  failureOfFinish,
  type ProviderFailure,
} from '../provider-failures/classify-provider-error.ts';
import { finishReport, type ProviderReport, providerReport } from '../provider-failures/provider-report.ts';
import { streamModelCall } from '../step/stream-model-call.ts';
import type { StopSignal } from '../stop-signal.ts';
import { countTokens } from './tokens.ts';
import { chunksOf, transcript, withoutMiddle, withoutOutputs } from './transcript.ts';

/** A summary is made of at most this many parts: more would take minutes. */
const MAX_CHUNKS = 8;
/** Of the summarizer's window for separators, and for the difference between its counts and ours. */
const MARGIN = 0.1;
/** What a model may spend on reasoning, which counts as output, before its summary. */
const REASONING = 8_000;
const SHORTER =
  'Your last summary was cut off because it was too long. Write a much shorter one, with all of its sections.';
/** The end of a summary that reached the limit all the same. */
const CUT = '[The rest of this summary was cut off.]';

/** A call of the summarizer that was answered. */
export interface SummarizerCall {
  usage: Usage;
  model: string;
  finish_reason: string;
}

/** What summarizing comes to; the answered calls were paid for in any case. `too_long`: no recovery made the history fit. */
export type Summarized = { calls: SummarizerCall[]; text: string } & (
  | { kind: 'summary'; isCut: boolean }
  | { kind: 'too_long' }
  | { kind: 'failed'; code: RunErrorCode; reason: string; report?: ProviderReport }
);

export interface Summarizing {
  agent: AgentDefinition & { prompt: string };
  model: ResolvedModel;
  /** The model may reason before it answers. */
  reasons: boolean;
  /** The limit of all output, reasoning included, that an application has set; Infinity: none. */
  mostOutput: number;
  /** The longest summary that is worth having, in tokens. */
  mostTokens: number;
  settings: CompactionSettings;
  /** Ends the summary when it fires. */
  stop: StopSignal;
}

/**
 * Summarizes messages of a model's view in one call. If they are longer than the summarizer can take, by count or by its
 * provider's word, the recoveries follow that the settings allow: without tool outputs, in chunks that are joined, and
 * with the middle left out. Each call is repeated after a temporary failure, as often as the settings allow. If a summary
 * reaches the limit of its output, the model is asked once more, if an attempt is left, for a shorter one; what is then cut
 * is used up to its last whole line, if that is most of it. All calls together have the settings' time-out. Never throws for a failed
 * call.
 *
 * @throws the signal's reason
 */
export async function summarize(messages: readonly UIMessage[], given: Summarizing): Promise<Summarized> {
  using limit = given.stop.part();
  limit.after(given.settings.summarizer_timeout, 'timeout');
  const summary = new Summary(given, limit.signal);
  const { smart_recovery: may } = given.settings;
  const room = await summary.room();
  if (room < 1) return summary.result();
  const whole = transcript(messages);
  if (await summary.whole(whole, room)) return summary.result();
  let texts = whole;
  if (may.prune_tool_outputs) {
    texts = transcript(await withoutOutputs(messages));
    const isShorter = texts.some((text, at) => text !== whole[at]);
    if (isShorter && (await summary.whole(texts, room))) return summary.result();
  }
  // Less than what was refused, also if the provider's limit is lower than known.
  const size = await countTokens(texts.join('\n\n'));
  const part = Math.min(room, Math.ceil(size / 2));
  if (may.chunked_summarize && size <= MAX_CHUNKS * part && (await summary.inChunks(texts, part)))
    return summary.result();
  if (may.drop_middle) await summary.whole([await withoutMiddle(texts.join('\n\n'), Math.min(room, size / 4))], room);
  return summary.result();
}

type Answer = 'answered' | 'too_long' | 'failed';

class Summary {
  private readonly given: Summarizing;
  /** Fires at the time-out. */
  private readonly limit: AbortSignal;
  private readonly until: number;
  private reasons: boolean;
  private readonly calls: SummarizerCall[] = [];
  private texts: string[] = [];
  /** What there is of the answer that reached the limit. */
  private cut: string | undefined;
  private isCut = false;
  private isDone = false;
  private failure: Extract<Summarized, { kind: 'failed' }> | undefined;

  constructor(given: Summarizing, limit: AbortSignal) {
    this.given = given;
    this.limit = limit;
    this.reasons = given.reasons;
    this.until = performance.now() + given.settings.summarizer_timeout;
  }

  result(): Summarized {
    const { calls } = this;
    const text = this.texts.join('\n\n');
    if (this.failure) return { ...this.failure, calls, text };
    return this.isDone ? { kind: 'summary', isCut: this.isCut, calls, text } : { kind: 'too_long', calls, text };
  }

  /** Tokens of a text that the summarizer can take; less than 1: its window does not even hold its prompt. */
  async room(): Promise<number> {
    const { model, agent } = this.given;
    const most = Math.min(model.maxInput, model.contextLimit - this.mostOutput);
    const free = most - (await countTokens(agent.prompt));
    return Math.floor(free * (1 - MARGIN));
  }

  /** At most half of the window: there are models whose output may be as long as that. */
  private get mostOutput(): number {
    const { agent, model, mostTokens, mostOutput } = this.given;
    const most = Math.min(agent.max_output_tokens ?? model.maxOutput, mostTokens) + (this.reasons ? REASONING : 0);
    return Math.max(1, Math.min(most, mostOutput, model.maxOutput, Math.floor(model.contextLimit / 2)));
  }

  /** Summarizes the texts in one call. False: they are too long. */
  async whole(texts: readonly string[], room: number): Promise<boolean> {
    const text = texts.join('\n\n');
    if ((await countTokens(text)) > room) return false;
    this.begin();
    const answer = await this.ask(text);
    this.isDone = answer === 'answered';
    return answer !== 'too_long';
  }

  /** Summarizes the texts in parts. False: a part is too long, or there are too many. */
  async inChunks(texts: readonly string[], room: number): Promise<boolean> {
    const chunks = await chunksOf(texts, room);
    if (chunks.length > MAX_CHUNKS) return false;
    this.begin();
    for (const [at, chunk] of chunks.entries()) {
      const answer = await this.ask(`Part ${at + 1} of ${chunks.length} of the conversation:\n\n${chunk}`);
      if (answer !== 'answered') return answer === 'failed';
    }
    this.isDone = true;
    return true;
  }

  private begin(): void {
    this.texts = [];
    this.isCut = false;
  }

  /** Adds the summary of a text. One that is cut is better than none. */
  private async ask(text: string): Promise<Answer> {
    const answer = await this.attempts(text);
    if (answer === 'answered' || this.cut === undefined) return answer;
    this.failure = undefined;
    this.isCut = true;
    const lines = this.cut.slice(0, this.cut.lastIndexOf('\n') + 1).trimEnd();
    // Of a single long paragraph only the title would be left.
    const kept = lines.length * 2 > this.cut.length ? lines : this.cut;
    this.texts.push(`${kept}\n\n${CUT}`);
    return 'answered';
  }

  /** Asks for the summary of a text, with retries of temporary failures. */
  private async attempts(text: string): Promise<Answer> {
    this.cut = undefined;
    const { settings, stop } = this.given;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await this.call(text);
        if (answer !== 'again') return answer;
      } catch (error) {
        stop.signal.throwIfAborted();
        if (this.limit.aborted) return this.fail('ProviderUnavailable', 'the summarizer did not answer in time');
        const failure = classifyProviderError(error);
        if (failure.kind === 'final' && failure.code === 'ContextTooLong') {
          this.failure = undefined;
          return 'too_long';
        }
        this.failure = { ...failed(failure.code, reasonOf(failure)), report: providerReport(error) };
        if (failure.kind === 'final') return 'failed';
        const wait = retryDelayMs(attempt, failure.retryAfterMs);
        if (attempt > settings.retry_on_transient || performance.now() + wait > this.until) return 'failed';
        await delay(wait, undefined, { signal: stop.signal }).catch(() => {});
        stop.signal.throwIfAborted();
        continue;
      }
      if (attempt > settings.retry_on_transient) return 'failed';
    }
  }

  /** `again`: the answer is empty or not whole. `failed`: also if it was cut twice. */
  private async call(text: string): Promise<'answered' | 'failed' | 'again'> {
    const { agent, model } = this.given;
    const chunks = streamModelCall({
      model,
      system: this.cut === undefined ? agent.prompt : `${agent.prompt}\n\n${SHORTER}`,
      messages: [{ id: 'history', role: 'user', parts: [{ type: 'text', text: cleanText(text) }] }],
      tools: [],
      signal: this.limit,
      temperature: agent.temperature,
      maxOutputTokens: this.mostOutput,
      newToolCallId: () => 'none',
    });
    let summary = '';
    let next = await chunks.next();
    for (; !next.done; next = await chunks.next()) if (next.value.type === 'text-delta') summary += next.value.delta;
    const { usage, model: ref, finishReason, rawFinishReason } = next.value;
    this.calls.push({ usage, model: ref, finish_reason: finishReason });
    const refused = failureOfFinish(finishReason);
    if (refused?.kind === 'final') return this.fail(refused.code, reasonOf(refused));
    if (refused) {
      this.failure = { ...failed(refused.code, refused.reason), report: finishReport(finishReason, rawFinishReason) };
      return 'again';
    }
    if (finishReason === 'length') {
      const isEmpty = summary.trim() === '';
      const isSecond = this.cut !== undefined;
      // Without a text it was reasoning, whether its provider counts that or not.
      this.reasons ||= isEmpty || usage.reasoning > 0;
      if (!isEmpty) this.cut = summary.trim();
      this.failure = failed('ProviderUnavailable', 'the summary did not fit into the output of its model');
      return isSecond ? 'failed' : 'again';
    }
    if (summary.trim() === '') {
      this.failure = failed('ProviderUnavailable', 'the summarizer returned nothing');
      return 'again';
    }
    this.failure = undefined;
    this.texts.push(summary.trim());
    return 'answered';
  }

  private fail(code: RunErrorCode, reason: string): 'failed' {
    this.failure = failed(code, reason);
    return 'failed';
  }
}

/** Why a summarizer failed, to follow a colon; what a failed turn says is to be done does not hold for it. */
function reasonOf(failure: ProviderFailure): string {
  if (failure.code === 'ContentFilter') return 'the content filter of the summarizer’s provider refused it';
  if (failure.kind !== 'final') return failure.reason;
  const [what = ''] = failure.message.split(': ');
  return what.charAt(0).toLowerCase() + what.slice(1);
}

function failed(code: RunErrorCode, reason: string): Extract<Summarized, { kind: 'failed' }> {
  return { kind: 'failed', code, reason, calls: [], text: '' };
}
