// What a user message of the benchmark asks of the scripted model. The message says it all, so that the model needs to
// be told nothing else.
import { setTimeout as delay } from 'node:timers/promises';
import { callTool, hang, type ModelAction, say } from '../test-kit/model-actions.ts';
import type { ChatRequest } from '../test-kit/model-server.ts';
import { lastUserText } from '../test-kit/model-server.ts';

/** An answer's shape. */
export interface Ask {
  /** Names the request among all. */
  key: string;
  /** Deltas of text. */
  chunks?: number;
  /** Characters of each delta. */
  size?: number;
  /** Milliseconds between deltas; without it they come as fast as they can be sent. */
  pace?: number;
  /** Calls the tool `ping` first, in a step of its own. */
  tool?: boolean;
  /** Characters that the tool is to answer. */
  output?: number;
  /** Says its text and then nothing more. */
  hang?: boolean;
}

/** The message that asks for it, `padding` characters longer than it need be. */
export function messageOf(ask: Ask, padding = 0): string {
  return `${JSON.stringify(ask)}\n${'x'.repeat(padding)}`;
}

export function askOf(request: ChatRequest): Ask {
  return JSON.parse(lastUserText(request).split('\n')[0]!) as Ask;
}

/** What the model does. */
export async function* script(request: ChatRequest): AsyncGenerator<ModelAction> {
  const { chunks = 20, size = 8, pace, ...ask } = askOf(request);
  if (ask.tool && request.messages.at(-1)?.role !== 'tool') {
    yield callTool('call_1', 'ping', { output: ask.output ?? 4 });
    return;
  }
  const text = 'lorem ipsum dolor sit amet '.repeat(Math.ceil(size / 27)).slice(0, size);
  for (let sent = 0; sent < chunks; sent += 1) {
    if (pace !== undefined) await delay(pace);
    yield say(text);
  }
  if (ask.hang) yield hang();
}
