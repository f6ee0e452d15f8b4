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

const BLOCKS = new Set([
  'text',
  'thinking',
  'redacted_thinking',
  'tool_use',
  'server_tool_use',
  'mcp_tool_use',
  'mcp_tool_result',
  'web_search_tool_result',
  'web_fetch_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
  'tool_search_tool_result',
  'advisor_tool_result',
  'compaction',
  'fallback',
]);
const DELTAS = new Set([
  'text_delta',
  'input_json_delta',
  'thinking_delta',
  'signature_delta',
  'citations_delta',
  'compaction_delta',
]);

/**
 * Streams of Anthropic's messages. Types that are newer than its SDK are left out, as the protocol demands: the SDK ends the
 * call at an unknown one.
 * https://docs.anthropic.com/en/docs/build-with-claude/streaming
 */
export class AnthropicMessages implements ProviderAnswerReader {
  isWhole = false;
  isOver = false;
  /** Indexes of open blocks of unknown types. */
  private readonly unknown = new Set<unknown>();

  read(event: ProviderEvent): ProviderEvent | StreamProviderError | undefined {
    switch (event['type']) {
      case 'message_start':
        return withUsage(event, 'message', 'input_tokens');
      case 'content_block_start':
        return this.blockStart(event);
      case 'content_block_delta':
        return this.unknown.has(event['index']) ? undefined : delta(event);
      case 'content_block_stop':
        return this.unknown.delete(event['index']) ? undefined : event;
      case 'message_delta':
        this.isWhole ||= typeof objectOf(event['delta'])?.['stop_reason'] === 'string';
        return withTokens(event, 'output_tokens');
      case 'message_stop':
        this.isOver = true;
        return event;
      case 'error':
        return this.isWhole ? undefined : providerError(event);
      default:
        return undefined;
    }
  }

  missing(): ProviderEvent[] {
    return this.isWhole ? [{ type: 'message_stop' }] : [];
  }

  private blockStart(event: ProviderEvent): ProviderEvent | undefined {
    const { index } = event;
    const type = objectOf(event['content_block'])?.['type'];
    this.unknown.delete(index);
    if (typeof type !== 'string' || BLOCKS.has(type)) return event;
    this.unknown.add(index);
    return undefined;
  }
}

function delta(event: ProviderEvent): ProviderEvent | undefined {
  const given = objectOf(event['delta']);
  const type = given?.['type'];
  if (given === undefined || typeof type !== 'string') return event;
  if (!DELTAS.has(type)) return undefined;
  return withField(event, 'delta', withField(given, 'partial_json', jsonText(given['partial_json'])));
}

function withUsage(event: ProviderEvent, name: string, count: string): ProviderEvent {
  const object = objectOf(event[name]);
  return object === undefined ? event : withField(event, name, withTokens(object, count));
}

/** With a usage that has a number of this name, as the SDK demands. */
function withTokens(object: ProviderEvent, name: string): ProviderEvent {
  const usage = readableUsage(object['usage']) ?? {};
  return withField(object, 'usage', typeof usage[name] === 'number' ? usage : { ...usage, [name]: 0 });
}
