import { EventSourceParserStream } from 'eventsource-parser/stream';

/** The server sends at least a keep-alive every 15 s. After this much silence the connection counts as dead. */
const SILENCE_MS = 40_000;

/**
 * Reads a stream of server-sent events to its end. A stream that is silent for 40 s is aborted.
 * @param request gets the signal of `reading`
 * @returns the response's status; if it is not a success, nothing was read
 * @throws if the connection is lost or aborted
 */
export async function readEventStream(
  request: (signal: AbortSignal) => Promise<Response>,
  reading: AbortController,
  dispatch: (name: string | undefined, data: string) => void,
): Promise<number> {
  let silence = setTimeout(() => reading.abort(), SILENCE_MS);
  const received = () => {
    clearTimeout(silence);
    silence = setTimeout(() => reading.abort(), SILENCE_MS);
  };
  try {
    const { ok, status, body } = await request(reading.signal);
    if (!ok || body === null) return status;
    const parser = new EventSourceParserStream({ onComment: received });
    const events = body.pipeThrough(new TextDecoderStream()).pipeThrough(parser).getReader();
    for (let next = await events.read(); !next.done; next = await events.read()) {
      received();
      dispatch(next.value.event, next.value.data);
    }
    return status;
  } finally {
    clearTimeout(silence);
  }
}
