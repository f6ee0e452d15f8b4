// The user message of a benchmark turn is the script of the model's answer, so the model server needs no other input.
import { setTimeout as delay } from 'node:timers/promises';
import { callTool, hang, type ModelAction, say } from '../test-kit/model-actions.ts';
import type { ChatRequest } from '../test-kit/model-server.ts';
import { lastUserText } from '../test-kit/model-server.ts';
import { CHILD } from './agents.ts';

/** An answer's shape. */
export interface Ask {
  /** Identifies the request. */
  key: string;
  /** Number of text deltas. */
  chunks?: number;
  /** Characters of each delta. */
  size?: number;
  /** Milliseconds between deltas; default: none. */
  pace?: number;
  /** Calls the tool `ping` in a first step. */
  tool?: boolean;
  /** Calls the tool `approved` in a first step, which asks. */
  asks?: boolean;
  /** Characters of the tool's output. */
  output?: number;
  /** Sends its text and then stalls. */
  hang?: boolean;
  /** Calls so many subagents in the background in a first step, each with this script. */
  subagents?: { count: number; ask: Ask };
}

const TEXT = 'lorem ipsum dolor sit amet ';

/** The user message of a script, padded by `padding` characters. */
export function messageOf(ask: Ask, padding = 0): string {
  return `${JSON.stringify(ask)}\n${'x'.repeat(padding)}`;
}

export function askOf(request: ChatRequest): Ask {
  return JSON.parse(lastUserText(request).split('\n')[0]!) as Ask;
}

/** The model's actions for a script. */
export async function* script(request: ChatRequest): AsyncGenerator<ModelAction> {
  const { chunks = 20, size = 8, pace, ...ask } = askOf(request);
  if (ask.tool && request.messages.at(-1)?.role !== 'tool') {
    yield callTool('call_1', 'ping', { output: ask.output ?? 4 });
    return;
  }
  if (ask.asks && request.messages.at(-1)?.role !== 'tool') {
    yield callTool('call_1', 'approved', {});
    return;
  }
  if (ask.subagents && request.messages.at(-1)?.role !== 'tool') {
    const input = { agent: CHILD, prompt: messageOf(ask.subagents.ask), background: true };
    for (let n = 0; n < ask.subagents.count; n += 1) yield callTool(`call_${n}`, 'task', input);
    return;
  }
  const text = TEXT.repeat(Math.ceil(size / TEXT.length)).slice(0, size);
  for (let sent = 0; sent < chunks; sent += 1) {
    if (pace !== undefined) await delay(pace);
    yield say(text);
  }
  if (ask.hang) yield hang();
}
