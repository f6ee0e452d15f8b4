/**
 * A body that asks for the next piece when its reader has taken the one before it.
 * @param onOver called once when the body is over, for any reason
 */
export function byteStream(pieces: AsyncIterable<Uint8Array>, onOver: () => void): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const next: IteratorResult<Uint8Array, unknown> = await iterator.next();
          if (next.done !== true) return controller.enqueue(next.value);
          controller.close();
        } catch (error) {
          controller.error(error);
        }
        onOver();
      },
      async cancel() {
        onOver();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}
