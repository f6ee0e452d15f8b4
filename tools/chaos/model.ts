// The model server: answers as the message asks, marks every word with the number of the request, and logs output and
// billed usage.
import { setTimeout as delay } from 'node:timers/promises';
import { callTool, cut, fail, type ModelAction, report, say } from '../test-kit/model-actions.ts';
import { type ChatRequest, type ModelServer, startModelServer } from '../test-kit/model-server.ts';
import type { Random } from '../test-kit/random.ts';
import {
  askedBy,
  CANARY,
  childText,
  filesIn,
  messagesIn,
  summariesIn,
  SUMMARIZER_MODEL,
  summaryText,
  taskIn,
} from './plan.ts';

/** A request for a summary and its outcome. */
export interface SummaryCall {
  /** Unique among all requests. */
  number: number;
  usage: { input: number; output: number; reasoning: number; cached: number };
  /** The response was sent completely, usage included. */
  whole: boolean;
  /** The provider fault of this call. */
  fault: ProviderFault | undefined;
}

/** A request for a step and its outcome. */
export interface ModelCall extends SummaryCall {
  messageId: string;
  /** Index of the step in its turn. */
  step: number;
  /** Ids of the user messages in the request. */
  saw: string[];
  /** The summaries in it, as the numbers of the calls that made them. */
  summaries: number[];
  /** SHA-256 of the files with its last user message. */
  files: string[];
  startedAt: number;
  /** When the response ended. */
  endedAt: number | undefined;
  /** Text chunks sent, and when. */
  pieces: { text: string; at: number }[];
  /** Provider ids of the tool calls, in order. */
  tools: string[];
  /** Tool calls in the request without an outcome. */
  open: string[];
}

export type ProviderFault = 'cut' | 'rate-limit' | 'server-error' | 'refusal';

/** The model server and its log. */
export interface Model {
  url: string;
  calls: ModelCall[];
  summaries: SummaryCall[];
  /** Share of requests that fail, 0 to 1. */
  faulty: number;
  close(): Promise<void>;
}

const SLOW_MS = 300;
const PROVIDER_FAULTS = { cut: 5, 'rate-limit': 2, 'server-error': 2, refusal: 1 } as const;
const INPUTS: Readonly<Record<string, { name: string; input: (what: string, request: ChatRequest) => object }>> = {
  build: { name: 'build_and_deploy', input: () => ({ confirm_new_project: true }) },
  done: { name: 'todo_complete', input: () => ({ name: 'build' }) },
  task: { name: 'task', input: (what) => ({ agent: 'helper', prompt: childText(what) }) },
  spawn: { name: 'task', input: (what) => ({ agent: 'helper', prompt: childText(what), background: true }) },
  note: { name: 'notes_write', input: (what) => ({ what }) },
  next: { name: 'task_next', input: () => ({}) },
  start: { name: 'task_start', input: (_what, request) => ({ task_id: taskIn(request) }) },
  progress: { name: 'task_progress', input: (what, request) => ({ task_id: taskIn(request), note: what }) },
  complete: { name: 'task_complete', input: (what, request) => ({ task_id: taskIn(request), note: what }) },
  decide: { name: 'decision_add', input: (what) => ({ context: what, decision: what, reason: what }) },
  end: { name: 'session_end', input: (what) => ({ notes: what }) },
};

export async function startModel(random: Random): Promise<Model> {
  const calls: ModelCall[] = [];
  const summaries: SummaryCall[] = [];
  const model: Model = { url: '', calls, summaries, faulty: 0, close: async () => server.close() };
  const server: ModelServer = await startModelServer((request, index) => {
    const fault = random.chance(model.faulty) ? random.weighted<ProviderFault>(PROVIDER_FAULTS) : undefined;
    if (request.model === nameOf(SUMMARIZER_MODEL)) {
      const summary = { number: index, usage: usageOf(request, index), whole: false, fault };
      summaries.push(summary);
      return summarize(summary, random);
    }
    const call = callOf(request, index, fault);
    calls.push(call);
    return speak(call, request, random);
  });
  model.url = server.url;
  return model;
}

function callOf(request: ChatRequest, number: number, fault: ProviderFault | undefined): ModelCall {
  const { messageId, index } = askedBy(request);
  const answered = new Set(request.messages.flatMap((message) => message.tool_call_id ?? []));
  const asked = request.messages.flatMap((message) => message.tool_calls ?? []).map(({ id }) => id);
  return {
    number,
    messageId,
    step: index,
    saw: messagesIn(request),
    summaries: summariesIn(request),
    files: filesIn(request),
    startedAt: performance.now(),
    endedAt: undefined,
    pieces: [],
    tools: [],
    usage: usageOf(request, number),
    whole: false,
    fault,
    open: asked.filter((id) => !answered.has(id)),
  };
}

/** Grows with the conversation, as compactions need it, and is another one for each attempt at a step. */
function usageOf({ messages }: ChatRequest, number: number): SummaryCall['usage'] {
  const input = 500 + 120 * messages.length + (number % 100);
  return { input, output: 100 + (number % 50), reasoning: number % 7, cached: number % 11 };
}

/** The name of `provider/model` in requests. */
function nameOf(ref: string): string {
  return ref.slice(ref.indexOf('/') + 1);
}

async function* summarize(call: SummaryCall, random: Random): AsyncGenerator<ModelAction> {
  const refusal = refusalOf(call.fault);
  if (refusal !== undefined) {
    yield refusal;
    return;
  }
  await delay(random.between(20, 400));
  yield say(summaryText(call.number));
  if (call.fault === 'cut') {
    yield cut();
    return;
  }
  yield report(call.usage);
  call.whole = true;
}

async function* speak(call: ModelCall, request: ChatRequest, random: Random): AsyncGenerator<ModelAction> {
  const { step } = askedBy(request);
  try {
    const refusal = refusalOf(call.fault);
    if (refusal !== undefined) {
      yield refusal;
      return;
    }
    const cutAt = call.fault === 'cut' ? random.between(0, step.pieces) : Infinity;
    const pause = step.slow ? SLOW_MS : random.between(20, 90);
    for (let n = 0; n < step.pieces && n < cutAt; n += 1) {
      const text = `${CANARY}${call.number}.${n} `;
      call.pieces.push({ text, at: performance.now() });
      yield say(text);
      await delay(pause);
    }
    if (cutAt !== Infinity) {
      yield cut();
      return;
    }
    for (const [n, tool] of step.tools.entries()) {
      const id = `${CANARY}-r${call.number}-${n}`;
      call.tools.push(id);
      const { name, input } = INPUTS[tool] ?? { name: tool, input: (what: string) => ({ what }) };
      yield callTool(id, name, input(id, request));
    }
    yield report(call.usage);
    call.whole = true;
  } finally {
    call.endedAt = performance.now();
  }
}

/** The error response of a fault, if it has one. */
function refusalOf(fault: ProviderFault | undefined): ModelAction | undefined {
  switch (fault) {
    case 'rate-limit':
      return fail(429, { retryAfter: 1 });
    case 'server-error':
      return fail(500);
    case 'refusal':
      return fail(400, { message: `${CANARY} refuses` });
    default:
      return undefined;
  }
}
