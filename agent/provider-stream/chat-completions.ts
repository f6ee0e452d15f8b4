import type { StreamProviderError } from 'ai';
import {
  type AnswerReader,
  eachMended,
  jsonText,
  objectOf,
  type ProviderEvent,
  readableUsage,
  withField,
} from './answer-reader.ts';
import { providerError } from './provider-error.ts';
import { RepeatedCalls } from './repeated-calls.ts';

/** Words of other servers for the finish reasons of OpenAI, in lower case. */
const FINISH_REASONS: Readonly<Record<string, string>> = {
  stop: 'stop',
  eos: 'stop',
  eos_token: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  max_tokens: 'length',
  model_length: 'length',
  tool_calls: 'tool_calls',
  tool_use: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
};

/**
 * Streams of OpenAI's chat completions, as the many servers send them that are compatible with it.
 * https://platform.openai.com/docs/api-reference/chat-streaming
 */
export class ChatCompletions implements AnswerReader {
  /** `[DONE]` is no event. */
  readonly isOver = false;
  private hasReason = false;
  /** Some servers send a finish reason with every chunk. */
  private goesOn = false;
  private hasCalls = false;
  private readonly repeated = new RepeatedCalls();

  get isWhole(): boolean {
    return this.hasReason && !this.goesOn;
  }

  read(event: ProviderEvent): ProviderEvent | StreamProviderError | undefined {
    const { error, ...chunk } = event;
    if (isError(error) && !this.isWhole) return providerError(event);
    const known = 'error' in event ? chunk : event;
    const choices = this.choices(known['choices']);
    const hasUsage = objectOf(known['usage']) !== undefined;
    if (choices === undefined) return hasUsage ? usageChunk({ ...known, choices: [] }) : undefined;
    return usageChunk(withField(known, 'choices', choices));
  }

  missing(isDone: boolean): ProviderEvent[] {
    if (this.hasReason || !isDone) return [];
    return [{ choices: [{ index: 0, delta: {}, finish_reason: this.hasCalls ? 'tool_calls' : 'stop' }] }];
  }

  /** Undefined: there are none, or none that can be read after the answer was whole. */
  private choices(choices: unknown): unknown {
    if (choices === undefined || choices === null) return undefined;
    if (!Array.isArray(choices)) return this.isWhole ? undefined : choices;
    if (this.isWhole && !choices.every(isReadable)) return undefined;
    return eachMended(choices, (choice) => this.choice(choice));
  }

  private choice(value: unknown): unknown {
    const choice = objectOf(value);
    if (choice === undefined) return value;
    const delta = objectOf(choice['delta']);
    const reason = finishReason(choice['finish_reason']);
    this.goesOn ||= this.hasReason && hasContent(delta);
    this.hasReason ||= typeof reason === 'string';
    const mended = withField(choice, 'finish_reason', reason);
    return delta === undefined ? mended : withField(mended, 'delta', this.delta(delta));
  }

  private delta(delta: ProviderEvent): ProviderEvent {
    const { role, tool_calls: calls } = delta;
    const mended = role === undefined || role === 'assistant' ? delta : withField(delta, 'role', 'assistant');
    if (!Array.isArray(calls)) return mended;
    this.hasCalls ||= calls.length > 0;
    return withField(
      mended,
      'tool_calls',
      eachMended(calls, (call) => this.repeated.marked(withArgumentsAsText(call))),
    );
  }
}

function hasContent(delta: ProviderEvent | undefined): boolean {
  const { content, tool_calls: calls } = delta ?? {};
  return (typeof content === 'string' && content !== '') || (Array.isArray(calls) && calls.length > 0);
}

function isError(error: unknown): boolean {
  return error !== undefined && error !== null && error !== false && error !== '';
}

function finishReason(reason: unknown): unknown {
  if (typeof reason !== 'string') return reason === undefined ? undefined : null;
  const word = reason.trim().toLowerCase();
  return word === '' ? null : Object.hasOwn(FINISH_REASONS, word) ? FINISH_REASONS[word] : reason;
}

function withArgumentsAsText(value: unknown): unknown {
  const call = objectOf(value);
  const called = objectOf(call?.['function']);
  if (call === undefined || called === undefined) return value;
  return withField(call, 'function', withField(called, 'arguments', jsonText(called['arguments'])));
}

function isReadable(value: unknown): boolean {
  const choice = objectOf(value);
  const delta = choice?.['delta'] ?? {};
  const { content, tool_calls: calls } = objectOf(delta) ?? { content: 0 };
  const isText = content === undefined || content === null || typeof content === 'string';
  return choice !== undefined && isText && (calls === undefined || calls === null || Array.isArray(calls));
}

function usageChunk(chunk: ProviderEvent): ProviderEvent {
  const { usage } = chunk;
  return usage === undefined || usage === null ? chunk : withField(chunk, 'usage', readableUsage(usage) ?? null);
}
