// The wire format of a scripted model's answer.
import type { ServerResponse } from 'node:http';
import type { FinishReason, ModelAction, ReportedUsage } from './model-actions.ts';

type AnswerAction = Exclude<ModelAction, { do: 'raw' | 'cut' | 'hang' | 'fail' }>;
type ContentAction = Extract<ModelAction, { do: 'text' | 'reasoning' | 'tool' }>;

/** What streamed and whole answers have in common: finish reason and usage. */
export abstract class Answer {
  protected readonly response: ServerResponse;
  protected readonly head: { id: string; created: number; model: string };
  protected deltas = 0;
  protected tools = 0;
  private reason: FinishReason | undefined;
  private usage: ReportedUsage | undefined;

  constructor(model: string, response: ServerResponse) {
    this.response = response;
    this.head = { id: 'chatcmpl-scripted', created: Math.floor(Date.now() / 1000), model };
  }

  add(action: AnswerAction): void {
    if (action.do === 'usage') this.usage = action.usage;
    else if (action.do === 'finish') this.reason = action.reason;
    else {
      this.deltas++;
      this.content(action);
      if (action.do === 'tool') this.tools++;
    }
  }

  abstract end(): void;
  protected abstract content(action: ContentAction): void;

  protected finishReason(): FinishReason {
    return this.reason ?? (this.tools > 0 ? 'tool_calls' : 'stop');
  }

  protected usageOnWire() {
    const { input, output, reasoning = 0, cached = 0, cacheWritten } = this.usage ?? { input: 1, output: this.deltas };
    return {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      prompt_tokens_details: {
        cached_tokens: cached,
        ...(cacheWritten !== undefined && { cache_write_tokens: cacheWritten }),
      },
      completion_tokens_details: { reasoning_tokens: reasoning },
    };
  }
}

/** `stream: true`: server-sent events, one per delta. */
export class StreamedAnswer extends Answer {
  protected content(action: ContentAction): void {
    if (action.do === 'text') return this.delta({ content: action.text });
    if (action.do === 'reasoning') return this.delta({ reasoning_content: action.text });
    const { id, name, pieces } = action;
    const index = this.tools;
    this.delta({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] });
    for (const piece of pieces) this.delta({ tool_calls: [{ index, function: { arguments: piece } }] });
    return undefined;
  }

  end(): void {
    this.event({ choices: [{ index: 0, delta: {}, finish_reason: this.finishReason() }] });
    this.event({ choices: [], usage: this.usageOnWire() });
    this.response.end('data: [DONE]\n\n');
  }

  private delta(delta: object): void {
    this.event({ choices: [{ index: 0, delta: { role: 'assistant', ...delta }, finish_reason: null }] });
  }

  private event(fields: object): void {
    if (!this.response.headersSent) this.response.writeHead(200, { 'content-type': 'text/event-stream' });
    const event = { ...this.head, object: 'chat.completion.chunk', ...fields };
    this.response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
}

/** Without `stream`: one JSON body. */
export class WholeAnswer extends Answer {
  private text = '';
  private reasoning = '';
  private readonly calls: object[] = [];

  protected content(action: ContentAction): void {
    if (action.do === 'text') this.text += action.text;
    else if (action.do === 'reasoning') this.reasoning += action.text;
    else {
      const { id, name, pieces } = action;
      this.calls.push({ id, type: 'function', function: { name, arguments: pieces.join('') } });
    }
  }

  end(): void {
    const message = {
      role: 'assistant',
      content: this.text,
      ...(this.reasoning && { reasoning_content: this.reasoning }),
      ...(this.calls.length > 0 && { tool_calls: this.calls }),
    };
    const choices = [{ index: 0, message, finish_reason: this.finishReason() }];
    this.response.writeHead(200, { 'content-type': 'application/json' });
    this.response.end(JSON.stringify({ ...this.head, object: 'chat.completion', choices, usage: this.usageOnWire() }));
  }
}
