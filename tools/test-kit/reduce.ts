import { readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai';

/** A value as JSON carries it: what is undefined is not there. */
export function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/**
 * The message that the AI SDK's own reducer makes of chunks, after they have travelled as JSON.
 * @throws {Error} what the reducer finds wrong with them; the text of an `error` chunk is nothing wrong
 */
export async function reduced(chunks: UIMessageChunk[]): Promise<UIMessage | undefined> {
  const told = new Set(chunks.flatMap((chunk) => (chunk.type === 'error' ? [chunk.errorText] : [])));
  const errors: Error[] = [];
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of plain(chunks)) controller.enqueue(chunk);
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
