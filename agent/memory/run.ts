import { setTimeout as delay } from 'node:timers/promises';
import type { UIMessage, UIMessageChunk } from 'ai';
import { newId } from '../../domain/ids.ts';
import { modelView } from '../../domain/model-view.ts';
import { fillPromptTemplate } from '../../domain/prompt-template.ts';
import type { RunFailure } from '../../domain/runs.ts';
import { type StepNext, turnLoop } from '../../domain/turn-loop.ts';
import { addUsage, limitedTokens, type Usage, ZERO_USAGE } from '../../domain/usage.ts';
import { limitsOf } from '../definition/define.ts';
import type { ResolvedModel } from '../models/models.ts';
import { refusedIn } from '../models/refused-files.ts';
import type { StepToolCall } from '../parts/call-chunks.ts';
import { ChunksToRows } from '../parts/chunks-to-rows.ts';
import { type AssembledPrompt, assemblePrompt, systemText } from '../prompt/assemble-prompt.ts';
import type { Stamps } from '../prompt/instructions.ts';
import { isPromptFunction, promptText } from '../prompt/prompt-text.ts';
import { attemptStep, type BrokenStep, type ModelCall, type Retry, type StepRecorder } from '../step/attempt-step.ts';
import type { CompletedStep } from '../step/completed-step.ts';
import type { StepResult } from '../step/stream-model-call.ts';
import { StopSignal } from '../stop-signal.ts';
import { attemptToolCall } from '../tools/attempt-tool-call.ts';
import { MemoryAnswer } from './memory-answer.ts';
import { type MemorySession, sessionOfTurn } from './memory-session.ts';
import { MemoryToolRecorder } from './memory-tool-recorder.ts';

export interface RunOptions {
  /** Aborts the run: the model call and the tool in flight stop at once. */
  signal?: AbortSignal;
  /** Outermost folder whose instruction files are read; default the session's workspace. */
  boundary?: string;
  /** The day as `yyyy-mm-dd`; default today's. */
  date?: string;
  /** Attempts at a step while the provider fails temporarily; default 6, as a worker makes. */
  attempts?: number;
}

/** The metadata of an answer. */
export type AnswerMetadata = {
  session_id: string;
  system_prompt_digest: string;
  model: string;
  /** The sum of the steps and of the answers that were discarded; like them it is missing before there is one. */
  usage?: Usage;
  steps?: ModelCallUsage[];
  /** Answers that were whole, but with a finish reason that is a failure. */
  discarded?: ModelCallUsage[];
};

interface ModelCallUsage {
  usage: Usage;
  model: string;
  finish_reason: string;
}

/** How a turn ends. */
type TurnEnd = 'finished' | 'aborted' | RunFailure;
type Next = StepNext<StepToolCall, Retry, TurnEnd>;

const ATTEMPTS = 6;

/**
 * A whole turn in memory: the user's message, then steps until the model calls no more tools. Loop, steps and tool calls
 * are those of the worker, recorded in memory instead of Postgres. Yields the chunks of one UIMessage, `start` to
 * `finish`; a failure is an `error` chunk and an abort an `abort` chunk at the end. Both messages are added to
 * `session.messages`.
 */
export async function* run(
  session: MemorySession,
  input: string | UIMessage,
  model: ResolvedModel,
  options: RunOptions = {},
): AsyncGenerator<UIMessageChunk, void, void> {
  session.messages.push(typeof input === 'string' ? userMessage(input) : input);
  using turn = new MemoryTurn(session, model, options);
  const played = turn.play();
  played.catch(() => {});
  try {
    yield* turn.chunks;
  } finally {
    turn.stop.fire('abort');
    await played;
    for (const key of session.state.keys()) if (key.startsWith('temp:')) session.state.delete(key);
    const message = turn.message();
    if (message.parts.length > 0) session.messages.push(message);
  }
}

/** A failure outside of the model call, such as an unreadable instruction file. */
function internalFailure(cause: unknown): RunFailure {
  return { code: 'Internal', message: 'An internal error occurred: send a new message.', cause };
}

function userMessage(text: string): UIMessage {
  return { id: newId('msg'), role: 'user', parts: [{ type: 'text', text }] };
}

/** One turn of a session in memory, and the recorder of its steps. */
class MemoryTurn implements StepRecorder<Next>, Disposable {
  readonly chunks: ReadableStream<UIMessageChunk>;
  readonly stop = new StopSignal();
  private readonly output: WritableStreamDefaultWriter<UIMessageChunk>;
  private readonly session: MemorySession;
  private readonly model: ResolvedModel;
  private readonly options: RunOptions;
  private readonly id = newId('msg');
  private readonly answer: MemoryAnswer<AnswerMetadata>;
  private rows = new ChunksToRows(0);
  /** Index of the first part that no settled step wrote. */
  private settledParts = 0;
  private tokens = 0;
  private assembled: Promise<AssembledPrompt> | undefined;
  /** The messages of the newest call. */
  private sent: UIMessage[] = [];

  constructor(session: MemorySession, model: ResolvedModel, options: RunOptions) {
    this.session = session;
    this.model = model;
    this.options = options;
    const { readable, writable } = new TransformStream<UIMessageChunk, UIMessageChunk>();
    this.chunks = readable;
    this.output = writable.getWriter();
    this.answer = new MemoryAnswer(session.id, this.id, {
      session_id: session.id,
      system_prompt_digest: '',
      model: model.ref,
      ...(model.variant !== undefined && { variant: model.variant }),
    });
  }

  /** Plays the turn to its end; its chunks go into the stream. */
  async play(): Promise<void> {
    const { signal } = this.options;
    if (signal !== undefined) this.stop.follow(signal, () => 'abort');
    this.stop.limitTo(limitsOf(this.session.agent).wall_clock_ms);
    await this.show(this.answer.start());
    const end = await this.steps().catch(internalFailure);
    // A turn in memory ends with its error: the `finish` after it is for readers of stored answers.
    await this.show(this.answer.end(end).filter(({ type }) => typeof end === 'string' || type !== 'finish'));
    await this.output.close().catch(() => {});
  }

  message(): UIMessage {
    const parts = this.answer.parts as unknown as UIMessage['parts'];
    return { id: this.id, role: 'assistant', metadata: this.answer.metadata, parts };
  }

  private steps(): Promise<TurnEnd> {
    const { agent } = this.session;
    return turnLoop<StepToolCall, Retry, TurnEnd>(
      { step: 0, calls: [] },
      {
        step: async (attempt) => {
          using stop = this.stop.part();
          const { attempts = ATTEMPTS } = this.options;
          const step = this.answer.metadata.steps?.length ?? 0;
          return await attemptStep({ agent, step, tokens: this.tokens, attempt, waited: 0, attempts, stop }, this);
        },
        tool: (call) => this.tool(call),
        // An aborted wait ends early; the next attempt detects the abort.
        wait: ({ delayMs }) => delay(delayMs, undefined, { signal: this.stop.signal }).catch(() => {}),
      },
    );
  }

  private async tool({ toolCallId, toolName, input }: StepToolCall): Promise<TurnEnd | undefined> {
    const { session, answer, stop } = this;
    const { tool_output_bytes: maxOutputBytes } = limitsOf(session.agent);
    const end = await attemptToolCall(
      { tools: session.agent.tools, toolName, input, stop, maxOutputBytes },
      new MemoryToolRecorder({
        session,
        answer,
        toolCallId,
        toolName,
        stop,
        boundary: this.boundary,
        show: (chunks) => this.show(chunks),
      }),
    );
    return end === 'stopped' ? 'aborted' : undefined;
  }

  async prepare(): Promise<ModelCall> {
    this.rows = new ChunksToRows(this.settledParts);
    await this.rows.interrupt(this.answer.from(this.settledParts));
    this.assembled ??= this.prompt();
    const { tools } = this.session.agent;
    const { sections, digest } = await this.assembled;
    const [prompt = '', ...others] = sections;
    const text = isPromptFunction(this.session.agent)
      ? prompt
      : fillPromptTemplate(prompt, (name) => this.session.state.get(name));
    const system = systemText([text, ...others]);
    this.answer.metadata = { ...this.answer.metadata, system_prompt_digest: digest };
    this.sent = modelView([...this.session.messages, this.settled()]);
    return { model: this.model, system, messages: this.sent, tools };
  }

  async add(chunk: UIMessageChunk): Promise<void> {
    this.rows.add(chunk);
    if (this.rows.dirty) await this.show(this.answer.write(this.rows.take()));
  }

  async close(): Promise<void> {}

  async complete({ result, calls, isLast, failure }: CompletedStep): Promise<Next> {
    this.count('steps', result);
    if (failure) this.refuse(failure);
    await this.show(this.answer.write(this.rows.take()));
    this.settledParts = this.rows.nextIndex;
    if (failure) return { kind: 'end', end: failure };
    return isLast ? { kind: 'end', end: 'finished' } : { kind: 'settled', calls };
  }

  async breakOff(end: BrokenStep): Promise<Next> {
    // Readers of a stored call parse its input from the raw input; in memory it is parsed here.
    if (end.kind !== 'retry') await this.rows.freeze();
    if (end.kind === 'error') this.refuse(end.failure);
    if ('discarded' in end && end.discarded) this.count('discarded', end.discarded);
    if (this.rows.dirty) await this.show(this.answer.write(this.rows.take()));
    if (end.kind === 'retry') return { kind: 'retry', retry: end.retry };
    return { kind: 'end', end: end.kind === 'error' ? end.failure : 'aborted' };
  }

  private count(as: 'steps' | 'discarded', { usage, model, finishReason }: StepResult): void {
    const { metadata } = this.answer;
    this.answer.metadata = {
      ...metadata,
      usage: addUsage(metadata.usage ?? ZERO_USAGE, usage),
      [as]: [...(metadata[as] ?? []), { usage, model, finish_reason: finishReason }],
    };
    this.tokens += limitedTokens(usage);
  }

  /** Says in the answer what the provider refused. */
  private refuse({ refused }: RunFailure): void {
    if (refused === undefined) return;
    const own = this.session.messages.at(-1)?.id ?? '';
    this.rows.refuse(refusedIn(refused, this.sent, { own, modalities: this.model.modalities }));
  }

  /** The answer of the settled steps, which is what the model sees. */
  private settled(): UIMessage {
    const { parts, ...message } = this.message();
    return { ...message, parts: parts.slice(0, this.settledParts) };
  }

  /** Waits until the reader has taken the chunks. Without a reader they are dropped. */
  private async show(chunks: UIMessageChunk[]): Promise<void> {
    for (const chunk of chunks) await this.output.write(chunk).catch(() => {});
  }

  private async prompt(): Promise<AssembledPrompt> {
    const { agent, workspaceRoot, writtenInstructions } = this.session;
    const { boundary } = this;
    const { date = new Date().toISOString().slice(0, 10) } = this.options;
    const prompt = await promptText(agent, { ...sessionOfTurn(this.session), date }, this.stop.signal);
    const writtenByTools = (found: Stamps) => Promise.resolve(writtenInstructions.of(found));
    const model = this.model.ref;
    return assemblePrompt({
      ...{ agent: { ...agent, prompt }, workspaceRoot, boundary, writtenByTools, date },
      ...{ model, variant: this.model.variant },
    });
  }

  private get boundary(): string {
    return this.options.boundary ?? this.session.workspaceRoot;
  }

  [Symbol.dispose](): void {
    this.stop[Symbol.dispose]();
  }
}
