import type { LanguageModelStreamPart } from 'ai';
import { MAX_ANSWER } from '../../domain/max-answer.ts';
import type { RunFailure } from '../../domain/runs.ts';

/** The model's answer is longer than `MAX_ANSWER`. Repeating the call would probably not help. */
export class AnswerTooLongError extends Error {
  constructor() {
    super(`the model's answer is longer than ${MAX_ANSWER} characters`);
    this.name = 'AnswerTooLongError';
  }
}

/** How a turn ends because of an answer that is too long, if this is the error's cause. Providers wrap the error. */
export function answerTooLong(error: unknown): RunFailure | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth += 1) {
    if (!(at instanceof AnswerTooLongError)) continue;
    const message = `The turn reached its limit of ${MAX_ANSWER / 1024 ** 2} MiB in one answer of the model. Send a message to continue.`;
    return { code: 'LimitReached', message };
  }
  return undefined;
}

/** Counts what a model has sent in one call. */
export class AnswerSize {
  private units = 0;
  /** Tool calls whose input was counted while it was streamed. */
  private readonly streamed = new Set<string>();

  /** @throws {AnswerTooLongError} */
  add(part: LanguageModelStreamPart): void {
    this.units += this.sizeOf(part);
    if (this.units > MAX_ANSWER) throw new AnswerTooLongError();
  }

  private sizeOf(part: LanguageModelStreamPart): number {
    switch (part.type) {
      case 'text-delta':
      case 'reasoning-delta':
        return part.text.length + sizeOf(part.providerMetadata);
      case 'tool-input-delta':
        this.streamed.add(part.id);
        return part.delta.length;
      case 'tool-call':
        return this.streamed.has(part.toolCallId) ? 0 : sizeOf(part.input);
      case 'file':
      case 'reasoning-file':
        return part.file.base64.length;
      default:
        return sizeOf(part);
    }
  }
}

function sizeOf(value: unknown): number {
  return value === undefined ? 0 : (JSON.stringify(value)?.length ?? 0);
}
