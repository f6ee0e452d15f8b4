import type { UIMessageChunk } from 'ai';
import { canonicalJson } from './canonical-json.ts';
import { isInputOpen, type PartData, toolNameOf } from './part-data.ts';

type ToolChunk = Extract<UIMessageChunk, { toolCallId: string }>;
type Approval = { id: string; approved?: boolean } & Record<string, unknown>;

/** What a reader has been sent of a tool call. */
export interface SeenTool {
  state: string;
  /** The request for an approval that was sent, and the response to it, as canonical JSON; empty: none. */
  request: string;
  response: string;
  /** The last preliminary output that was sent and its metadata, as canonical JSON. */
  preliminary: string;
  /** The metadata of the call that was sent, as canonical JSON. */
  metadata: string;
}

export const TOOL_OUTCOMES: ReadonlySet<string> = new Set(['output-available', 'output-error', 'output-denied']);

/** What a reader knows of the call once it has been sent all of `data`. */
export function seenTool(data: PartData): SeenTool {
  const { approved, reason, ...request }: Partial<Approval> = approvalOf(data) ?? {};
  return {
    state: String(data['state']),
    request: request.id === undefined ? '' : canonicalJson(request),
    response: approved === undefined ? '' : canonicalJson([approved, reason ?? null]),
    preliminary:
      data['preliminary'] === true
        ? canonicalJson([data['output'] ?? null, data['resultProviderMetadata'] ?? null])
        : '',
    metadata: canonicalJson(data['callProviderMetadata'] ?? null),
  };
}

/**
 * The chunks that bring a reader of a tool call from `before` (undefined: nothing sent yet) to the state of the row, whatever
 * states it missed.
 *
 * @param input whether the reader has some of the raw input, and the text that is new to it
 * @param inStep whether the call is in the reader's current step: the reducer finds a call's input only there
 */
export function toolChunks(
  before: SeenTool | undefined,
  data: PartData,
  input: { had: boolean; fresh: string },
  inStep: boolean,
): UIMessageChunk[] {
  const call = new ToolCall(data);
  const state = String(data['state']);
  const isOpen = isInputOpen(data, input.had ? '…' : input.fresh);
  const failedAtInput = state === 'output-error' && call.approval === undefined;
  const starts = before === undefined && (state === 'input-streaming' || failedAtInput);
  const streams = starts || before?.state === 'input-streaming';
  const chunks: ToolChunk[] = starts ? [call.inputStart()] : [];
  if (isOpen) {
    if (streams && input.fresh !== '') chunks.push(call.inputDelta(input.fresh));
  } else if (streams && failedAtInput && inStep) {
    return [...chunks, call.inputError()];
  } else if (before === undefined || (streams && !failedAtInput)) {
    // Once: the AI SDK calls `onToolCall` for each. What a user or a rule decided comes with the response to the approval.
    chunks.push(call.inputAvailable());
  }
  return [...chunks, ...call.approvalChunks(before), ...call.outcome(before, state)];
}

export function approvalOf(data: PartData): Approval | undefined {
  return data['approval'] as Approval | undefined;
}

/** Creates the chunks of one call from its part. */
class ToolCall {
  readonly approval: Approval | undefined;
  private readonly data: PartData;
  private readonly toolCallId: string;

  constructor(data: PartData) {
    this.data = data;
    this.toolCallId = String(data['toolCallId']);
    this.approval = approvalOf(data);
  }

  inputStart(): ToolChunk {
    return {
      type: 'tool-input-start',
      ...this.named(),
      ...this.picked('title', 'inputEncoding'),
      ...this.metadata('callProviderMetadata'),
    } as ToolChunk;
  }

  inputDelta(inputTextDelta: string): ToolChunk {
    return { type: 'tool-input-delta', toolCallId: this.toolCallId, inputTextDelta };
  }

  inputAvailable(): ToolChunk {
    const { input } = this.data;
    const metadata = this.metadata('callProviderMetadata');
    return { type: 'tool-input-available', ...this.named(), ...this.picked('title'), input, ...metadata } as ToolChunk;
  }

  inputError(): ToolChunk {
    const { input, errorText } = this.data;
    const metadata = this.metadata('resultProviderMetadata');
    return { type: 'tool-input-error', ...this.named(), input, errorText, ...metadata } as ToolChunk;
  }

  /** Its metadata has changed since. */
  isDecidedSince(before: SeenTool): boolean {
    return before.metadata !== seenTool(this.data).metadata;
  }

  approvalChunks(seen: SeenTool | undefined): ToolChunk[] {
    if (!this.approval) return [];
    const now = seenTool(this.data);
    // A rule may deny what a user has approved: then there is another request, too.
    const isNew = seen?.request !== now.request;
    const { id: approvalId, approved, reason, descriptor, requestReason, ...rest } = this.approval;
    const chunks: unknown[] = [];
    if (isNew) {
      chunks.push({
        type: 'tool-approval-request',
        approvalId,
        toolCallId: this.toolCallId,
        ...rest,
        ...(descriptor !== undefined && { approvalDescriptor: descriptor }),
        ...(requestReason !== undefined && { reason: requestReason }),
      });
    }
    if (approved !== undefined && (isNew || seen?.response !== now.response)) {
      const decided = seen !== undefined && this.isDecidedSince(seen) ? this.metadata('callProviderMetadata') : {};
      chunks.push({
        type: 'tool-approval-response',
        approvalId,
        approved,
        ...(reason !== undefined && { reason }),
        ...decided,
      });
    }
    return chunks as ToolChunk[];
  }

  outcome(before: SeenTool | undefined, state: string): ToolChunk[] {
    const preliminary = seenTool(this.data).preliminary;
    if (!TOOL_OUTCOMES.has(state) || (before?.state === state && before.preliminary === preliminary)) return [];
    const { toolCallId } = this;
    if (state === 'output-denied') return [{ type: 'tool-output-denied', toolCallId }];
    const rest = { ...this.picked('providerExecuted', 'toolMetadata'), ...this.metadata('resultProviderMetadata') };
    const chunk =
      state === 'output-error'
        ? { type: 'tool-output-error', toolCallId, errorText: this.data['errorText'], ...rest }
        : {
            type: 'tool-output-available',
            toolCallId,
            output: this.data['output'],
            ...this.picked('preliminary'),
            ...rest,
          };
    return [chunk as ToolChunk];
  }

  private named() {
    return {
      toolCallId: this.toolCallId,
      toolName: toolNameOf(this.data),
      ...(this.data.type === 'dynamic-tool' && { dynamic: true }),
      ...this.picked('providerExecuted', 'toolMetadata'),
    };
  }

  private picked(...names: string[]): Record<string, unknown> {
    return Object.fromEntries(names.flatMap((name) => (name in this.data ? [[name, this.data[name]]] : [])));
  }

  private metadata(name: 'callProviderMetadata' | 'resultProviderMetadata'): { providerMetadata?: unknown } {
    return name in this.data ? { providerMetadata: this.data[name] } : {};
  }
}
