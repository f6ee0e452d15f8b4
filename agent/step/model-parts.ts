import { addAbortListener } from 'node:events';
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { LanguageModelStreamPart } from 'ai';
import { IdleLimit } from '../provider-stream/idle-limit.ts';

/** A call that is being opened. */
type Opening = Promise<{ stream: ReadableStream<LanguageModelStreamPart> }>;
type Reader = ReadableStreamDefaultReader<LanguageModelStreamPart>;

/**
 * How many parts of a stream are read before everything else in the process gets a turn: about 2 ms of work. Without this,
 * a stream whose next part has always arrived already would never return to the event loop.
 */
const PARTS_PER_TURN = 64;

/**
 * The parts of one model call as the provider sends them, no faster than they are taken. Ends without an error when the
 * signal fires, even if the provider ignores it. Leaving the generator early closes the provider's connection.
 *
 * @param open makes the call, which ends with its signal
 * @param idleMs how long the provider may be silent: before it answers, and between parts; with `providerFetch`, between bytes
 * @throws the provider's error; `ModelSilentError`
 */
export async function* modelParts(
  open: (signal: AbortSignal) => Opening,
  signal: AbortSignal,
  idleMs: number,
): AsyncGenerator<LanguageModelStreamPart, void, void> {
  using idle = new IdleLimit(signal, idleMs);
  idle.wait();
  const reader = await readerOf(open(idle.signal), idle.signal);
  if (reader === undefined) return idle.throwIfSilent();
  const abort = addAbortListener(idle.signal, () => close(reader, idle.signal.reason));
  try {
    for (let parts = 1; ; parts += 1) {
      idle.wait();
      const { done, value } = await reader.read();
      idle.pause();
      if (done || idle.signal.aborted) return idle.throwIfSilent();
      if (value.type === 'error') throw value.error;
      yield value;
      if (parts % PARTS_PER_TURN === 0) await othersTurn();
    }
  } finally {
    abort[Symbol.dispose]();
    close(reader);
  }
}

/** Undefined if the signal fires first. */
async function readerOf(opening: Opening, signal: AbortSignal): Promise<Reader | undefined> {
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const abort = addAbortListener(signal, () => resolve(undefined));
  const opened = opening.then(({ stream }) => stream.getReader());
  try {
    const reader = await Promise.race([opened, aborted]);
    if (reader === undefined) opened.then((late) => close(late, signal.reason)).catch(() => {});
    return reader;
  } finally {
    abort[Symbol.dispose]();
  }
}

/** Does not wait, because a provider may never settle the promise. */
function close(reader: Reader, reason?: unknown): void {
  reader.cancel(reason).catch(() => {});
}
