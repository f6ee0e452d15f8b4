import type { StreamProviderError } from 'ai';
import {
  type ProviderAnswerReader,
  eachMended,
  jsonText,
  objectOf,
  type ProviderEvent,
  readableUsage,
  withField,
} from './provider-answer-reader.ts';
import { RepeatedCalls } from './repeated-calls.ts';
import { providerError } from './unreadable-answer.ts';

/** Words of other servers for the finish reasons of OpenAI, in lower case. */
const FINISH_REASONS: Readonly<Record<string, string>> = {
  stop: 'stop',
  complete: 'stop',
  eos: 'stop',
  eos_token: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  max_tokens: 'length',
  model_length: 'length',
  tool_calls: 'tool_calls',
  tool_use: 'tool_calls',
  tool_call: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
  safety: 'content_filter',
  prohibited_content: 'content_filter',
};

/**
 * Streams of OpenAI's chat completions, as the many servers send them that are compatible with it.
 * https://platform.openai.com/docs/api-reference/chat-streaming
 */
export class ChatCompletions implements ProviderAnswerReader {
  /** `[DONE]` is no event. */
  readonly isOver = false;
  /** Some servers send a finish reason with each chunk: only one without content, or a later chunk without, ends the answer. */
  isWhole = false;
  private hasReason = false;
  private hasCalls = false;
  private readonly repeated = new RepeatedCalls();

  read(event: ProviderEvent): ProviderEvent | StreamProviderError | undefined {
    if (isError(event)) return this.isWhole ? undefined : providerError(event);
    const chunk = withReadableHead('error' in event ? withoutError(event) : event);
    const choices = this.choices(chunk['choices']);
    if (choices !== undefined) return withUsage(withField(chunk, 'choices', choices));
    return objectOf(chunk['usage']) === undefined ? undefined : withUsage({ ...chunk, choices: [] });
  }

  missing(isDone: boolean): ProviderEvent[] {
    if (this.hasReason || !isDone) return [];
    return [{ choices: [{ index: 0, delta: {}, finish_reason: this.hasCalls ? 'tool_calls' : 'stop' }] }];
  }

  /** Undefined: there are none, or none that can be read after the answer was whole. */
  private choices(choices: unknown): unknown {
    if (choices === undefined || choices === null) {
      this.isWhole ||= this.hasReason;
      return undefined;
    }
    if (!Array.isArray(choices)) return this.isWhole ? undefined : choices;
    if (this.isWhole && !choices.every(isReadable)) return undefined;
    this.isWhole ||= this.hasReason && choices.length === 0;
    return eachMended(choices, (choice) => this.choice(choice));
  }

  private choice(value: unknown): unknown {
    const choice = objectOf(value);
    if (choice === undefined) return value;
    const delta = objectOf(choice['delta']);
    const reason = finishReason(choice['finish_reason']);
    this.hasReason ||= typeof reason === 'string';
    this.isWhole = this.hasReason && !hasContent(delta);
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

function hasContent(delta: ProviderEvent = {}): boolean {
  const { tool_calls: calls } = delta;
  const texts = ['content', 'reasoning_content', 'reasoning', 'refusal'].map((name) => delta[name]);
  return (Array.isArray(calls) && calls.length > 0) || texts.some((text) => typeof text === 'string' && text !== '');
}

/** An error, beside the choices or instead of them, in one of the shapes in which servers send it. */
function isError(event: ProviderEvent): boolean {
  const { error, object, type, choices } = event;
  if (error !== undefined && error !== null && error !== false && error !== '') return true;
  if (choices !== undefined && choices !== null) return false;
  return object === 'error' || type === 'error' || 'error_code' in event || ('message' in event && 'code' in event);
}

function withoutError({ error: _none, ...rest }: ProviderEvent): ProviderEvent {
  return rest;
}

function finishReason(reason: unknown): unknown {
  if (typeof reason !== 'string') return reason === undefined ? undefined : null;
  const word = reason.trim().toLowerCase();
  if (word === '' || word === 'null' || word === 'none') return null;
  if (word.startsWith('content_filter')) return 'content_filter';
  return Object.hasOwn(FINISH_REASONS, word) ? FINISH_REASONS[word] : reason;
}

/** Without the fields that say nothing if they are of the wrong type. */
function withReadableHead(chunk: ProviderEvent): ProviderEvent {
  const { id, created, model } = chunk;
  let readable = chunk;
  if (typeof id !== 'string') readable = withField(readable, 'id', undefined);
  if (typeof created !== 'number') readable = withField(readable, 'created', undefined);
  return typeof model === 'string' ? readable : withField(readable, 'model', undefined);
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

function withUsage(chunk: ProviderEvent): ProviderEvent {
  const { usage } = chunk;
  return usage === undefined || usage === null ? chunk : withField(chunk, 'usage', readableUsage(usage) ?? null);
}
