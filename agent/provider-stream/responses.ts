import type { StreamProviderError } from 'ai';
import {
  type ProviderAnswerReader,
  jsonText,
  objectOf,
  type ProviderEvent,
  readableUsage,
  withField,
} from './provider-answer-reader.ts';
import { providerError } from './unreadable-answer.ts';

/**
 * Streams of OpenAI's responses.
 * https://platform.openai.com/docs/api-reference/responses-streaming
 */
export class Responses implements ProviderAnswerReader {
  isOver = false;

  get isWhole(): boolean {
    return this.isOver;
  }

  read(event: ProviderEvent): ProviderEvent | StreamProviderError | undefined {
    const { type } = event;
    switch (type) {
      case 'error':
        return providerError(event);
      case 'response.failed':
        if (objectOf(event['response'])?.['error']) return providerError(event);
        return this.last(withField(event, 'sequence_number', event['sequence_number'] ?? 0));
      case 'response.completed':
      case 'response.incomplete':
        return this.last(event);
      case 'response.output_item.added':
      case 'response.output_item.done':
        return withField(event, 'item', withArgumentsAsText(event['item']));
      case 'response.function_call_arguments.delta':
        return withField(event, 'delta', jsonText(event['delta']));
      default:
        return typeof type === 'string' && type.startsWith('response.') ? event : undefined;
    }
  }

  /** Only the last event of this protocol says that an answer is whole. */
  missing(): ProviderEvent[] {
    return [];
  }

  private last(event: ProviderEvent): ProviderEvent {
    this.isOver = true;
    const response = objectOf(event['response']) ?? {};
    const usage = readableUsage(response['usage']);
    const isComplete = typeof usage?.['input_tokens'] === 'number' && typeof usage['output_tokens'] === 'number';
    return withField(event, 'response', withField(response, 'usage', isComplete ? usage : null));
  }
}

function withArgumentsAsText(value: unknown): unknown {
  const item = objectOf(value);
  return item?.['type'] !== 'function_call' ? value : withField(item, 'arguments', jsonText(item['arguments']));
}
