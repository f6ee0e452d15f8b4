import type { FinishReason, UIMessageChunk } from 'ai';
import { canonicalJson } from './canonical-json.ts';
import { isTextPart, isToolPart, type PartData, type PartSnapshot, settledText } from './part-data.ts';
import type { RunState } from './runs.ts';
import { NOTHING_SEEN, type Seen, type SeenPart } from './seen-part.ts';
import { approvalOf, seenTool, TOOL_OUTCOMES, toolChunks } from './seen-tool.ts';

/** The rows of an answer at one moment, with its parts from some index on. */
export interface AnswerSnapshot {
  session_id: string;
  /** Id of the answer's message. */
  message_id: string;
  /** Null until the answer's row exists: it is written with the first content. */
  metadata: Record<string, unknown> | null;
  run_state: RunState;
  error_code: string | null;
  error_message: string | null;
  /** The run is queued, and an error has stopped the queue until the next message. */
  paused?: boolean;
  parts: PartSnapshot[];
}

/** The error of a message in a paused queue. */
export const QUEUE_PAUSED =
  'An earlier message failed, so the queue is paused and this message was not answered: send a message to resume the queue, or take this one back.';

/**
 * The chunks for the difference between what a reader has seen and what the rows contain now. Replay and live streaming both
 * use this function: whenever a reader reads, the AI SDK's reduction of all its chunks equals the stored message.
 *
 * Begins with `start`, which contains the session's id; ends with `finish`, `abort`, or `error` and `finish`. While the run waits
 * for an answer or for the page, it ends with `finish`, too; while it waits in a paused queue, with `error` and `finish`. Parts of
 * an aborted answer that were streaming get no end chunk.
 */
export function rowsToChunks(seen: Seen, snapshot: AnswerSnapshot): { seen: Seen; chunks: UIMessageChunk[] } {
  if (seen.ended) return { seen, chunks: [] };
  const reader = new Reader(seen);
  if (!seen.started) reader.start(snapshot);
  for (const part of snapshot.parts) reader.read(part);
  reader.readMetadata(snapshot);
  const isOpen = snapshot.run_state === 'queued' || snapshot.run_state === 'running';
  if (!isOpen || snapshot.paused === true) reader.end(snapshot);
  return { seen: reader.seen(), chunks: reader.chunks };
}

/** A tool's progress as a transient chunk, for stored answers and those in memory. */
export function progressChunk(data: { tool_call_id: string; data: unknown }): UIMessageChunk {
  return { type: 'data-progress', transient: true, data };
}

/**
 * What a reader has been sent who has an answer up to the step of a tool call, without what was decided about that call and the later
 * ones of its step, and without their outcomes: for a page that goes on with its own copy of the message.
 * @param given ids of the calls that this copy shows with an outcome: of those it knows the user's approval
 */
export function seenUntilCall(snapshot: AnswerSnapshot, toolCallId: string, given: readonly string[] = []): Seen {
  const { parts } = snapshot;
  const at = parts.findIndex(({ data }) => data['toolCallId'] === toolCallId);
  const next = parts.findIndex(({ data }, place) => place > at && data.type === 'step-start');
  const asOfThen = (part: PartSnapshot, place: number): PartSnapshot => {
    if (place < at || !isToolPart(part.data)) return part;
    const isKnown = given.includes(String(part.data['toolCallId'])) && isApprovedByUser(part.data);
    return { ...part, data: (isKnown ? withoutOutcome : undecided)(part.data) };
  };
  const known = parts.slice(0, next < 0 ? undefined : next).map(asOfThen);
  const { seen } = rowsToChunks(NOTHING_SEEN, { ...snapshot, run_state: 'running', parts: known });
  return { ...seen, started: false, metadata: NOTHING_SEEN.metadata };
}

/** A call as it was when the step had settled. What it asked then is told again: the page may have missed that. */
function undecided(data: PartData): PartData {
  const { output: _output, errorText: _error, approval: _approval, callProviderMetadata: metadata, ...call } = data;
  const { perdure, ...others } = (metadata ?? {}) as Record<string, Record<string, unknown> | undefined>;
  const { permission: _permission, ...own } = perdure ?? {};
  const rest = { ...others, ...(Object.keys(own).length > 0 && { perdure: own }) };
  return { ...call, ...(Object.keys(rest).length > 0 && { callProviderMetadata: rest }), state: 'input-available' };
}

/** A page that has made an outcome early knows nothing of a question, a denial or the decision of a rule that came later. */
function isApprovedByUser(data: PartData): boolean {
  const approval = approvalOf(data);
  return approval?.approved === true && approval.isAutomatic !== true;
}

/** An approved call whose outcome the page has given, which may come back as another one. */
function withoutOutcome({ output: _output, errorText: _error, ...call }: PartData): PartData {
  return { ...call, state: 'approval-responded' };
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

class Reader {
  readonly chunks: UIMessageChunk[] = [];
  private readonly state: Writable<Seen>;
  private readonly parts: Map<string, SeenPart>;

  constructor(seen: Seen) {
    this.state = { ...seen };
    this.parts = new Map(seen.parts);
  }

  seen(): Seen {
    return { ...this.state, parts: this.parts };
  }

  start({ session_id, message_id }: AnswerSnapshot): void {
    this.chunks.push({ type: 'start', messageId: message_id, messageMetadata: { session_id } });
    this.state.started = true;
    this.state.metadata = canonicalJson({ session_id });
  }

  read(part: PartSnapshot): void {
    const before = this.parts.get(part.id);
    if (before?.final) return;
    const fresh = freshText(part, before?.units ?? 0);
    const units = (before?.units ?? 0) + fresh.length;
    this.parts.set(part.id, { index: part.index, units, ...this.chunksOf(part, before, fresh) });
  }

  readMetadata(snapshot: AnswerSnapshot): void {
    if (snapshot.metadata === null || snapshot.run_state === 'finished') return;
    const messageMetadata = metadataOf(snapshot);
    const written = canonicalJson(messageMetadata);
    if (written === this.state.metadata) return;
    this.chunks.push({ type: 'message-metadata', messageMetadata });
    this.state.metadata = written;
  }

  end(snapshot: AnswerSnapshot): void {
    const { run_state, error_code, error_message } = snapshot;
    this.state.ended = true;
    if (run_state === 'aborted' || run_state === 'cancelled') {
      this.chunks.push({ type: 'abort', reason: run_state });
      return;
    }
    const error = snapshot.paused === true ? QUEUE_PAUSED : (error_message ?? error_code ?? 'error');
    if (endsInError(snapshot)) this.chunks.push({ type: 'error', errorText: error });
    else this.endStep();
    this.chunks.push({ type: 'finish', finishReason: finishReason(snapshot), messageMetadata: metadataOf(snapshot) });
  }

  private chunksOf(part: PartSnapshot, before: SeenPart | undefined, fresh: string) {
    if (isTextPart(part.data)) return this.readText(part, before, fresh);
    if (isToolPart(part.data)) return this.readTool(part, before, fresh);
    return this.readWhole(part);
  }

  private readText({ data, id }: PartSnapshot, before: SeenPart | undefined, delta: string) {
    const kind = data.type as 'text' | 'reasoning';
    const metadata = canonicalJson(data['providerMetadata']);
    const changed = metadata === (before?.metadata ?? 'null') ? {} : { providerMetadata: data['providerMetadata'] };
    const final = data['state'] === 'done';
    const chunks: unknown[] = before ? [] : [{ type: `${kind}-start`, id, ...changed }];
    const later = before ? changed : {};
    if (delta !== '' || (!final && 'providerMetadata' in later)) {
      chunks.push({ type: `${kind}-delta`, id, delta, ...later });
    }
    if (final) {
      const citations = 'citations' in data ? { citations: data['citations'] } : {};
      chunks.push({ type: `${kind}-end`, id, ...citations, ...later });
    }
    this.chunks.push(...(chunks as UIMessageChunk[]));
    return { final, metadata };
  }

  private readTool({ data, index }: PartSnapshot, before: SeenPart | undefined, fresh: string) {
    const input = { had: before !== undefined && before.units > 0, fresh };
    this.chunks.push(...toolChunks(before?.tool, data, input, index > this.state.stepIndex));
    const tool = seenTool(data);
    return { final: TOOL_OUTCOMES.has(tool.state) && tool.preliminary === '', tool };
  }

  /** Reads a part that is written once. */
  private readWhole({ data, index }: PartSnapshot) {
    if (data.type === 'step-start') {
      this.startStep(index);
      return { final: true };
    }
    if (data.type === 'data-interrupted') {
      this.state.stepOpen = false;
      this.state.interruptedIndex = Math.max(this.state.interruptedIndex, index);
    }
    this.chunks.push({ ...data } as unknown as UIMessageChunk);
    return { final: true };
  }

  private startStep(index: number): void {
    this.endStep();
    this.chunks.push({ type: 'start-step' });
    this.state.stepOpen = true;
    this.state.stepIndex = Math.max(this.state.stepIndex, index);
  }

  private endStep(): void {
    if (this.state.stepOpen) this.chunks.push({ type: 'finish-step' });
    this.state.stepOpen = false;
  }
}

/** The text of a part after its first `units`. */
function freshText({ data, text, text_start }: PartSnapshot, units: number): string {
  const settled = settledText(data);
  const behind = Math.max(0, units - (text_start ?? settled.length));
  return settled.slice(units) + (text ?? '').slice(behind);
}

function metadataOf({ metadata, session_id }: AnswerSnapshot): Record<string, unknown> {
  return { ...metadata, session_id };
}

const FINISH_REASONS: ReadonlySet<string> = new Set(['stop', 'length', 'content-filter', 'tool-calls', 'error']);

function endsInError({ run_state, paused }: AnswerSnapshot): boolean {
  return run_state === 'error' || paused === true;
}

function finishReason(snapshot: AnswerSnapshot): FinishReason {
  const { metadata } = snapshot;
  if (endsInError(snapshot)) return 'error';
  const steps = metadata?.['steps'] as { finish_reason?: string }[] | undefined;
  const reason = steps?.at(-1)?.finish_reason ?? 'stop';
  return FINISH_REASONS.has(reason) ? (reason as FinishReason) : 'other';
}
