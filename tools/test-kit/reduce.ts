import { readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai';

/** The value after a round trip through JSON: undefined members are dropped. */
export function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Chunks of which those that append to the same text follow each other as one: the reducer copies the message for each. */
function merged(chunks: readonly UIMessageChunk[]): UIMessageChunk[] {
  const all: UIMessageChunk[] = [];
  for (const chunk of chunks) {
    const last = all.at(-1);
    const isText = (chunk.type === 'text-delta' || chunk.type === 'reasoning-delta') && !chunk.providerMetadata;
    if (isText && last?.type === chunk.type && last.id === chunk.id && !last.providerMetadata) {
      all[all.length - 1] = { ...last, delta: last.delta + chunk.delta };
    } else all.push(chunk);
  }
  return all;
}

/**
 * The message that the AI SDK's reducer builds from chunks, after a round trip through JSON.
 * @throws {Error} the reducer's error for invalid chunks; an `error` chunk is valid
 */
export async function reduced(chunks: UIMessageChunk[]): Promise<UIMessage | undefined> {
  const told = new Set(chunks.flatMap((chunk) => (chunk.type === 'error' ? [chunk.errorText] : [])));
  const errors: Error[] = [];
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of plain(merged(chunks))) controller.enqueue(chunk);
      controller.close();
    },
  });
  let message: UIMessage | undefined;
  for await (const state of readUIMessageStream({ stream, onError: (error) => void errors.push(error as Error) })) {
    message = state;
  }
  const wrong = errors.find((error) => !told.has(error.message));
  if (wrong) throw wrong;
  return message && plain(message);
}
