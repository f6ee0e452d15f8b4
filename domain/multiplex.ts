/**
 * Names the connection that is to carry the response's stream, and the stream: `<connection>/<stream>`. Of a response: the stream is
 * carried there.
 */
export const MULTIPLEX_HEADER = 'x-perdure-multiplex';

/** The events of a connection that carries the streams of other responses. */
export type MultiplexEvent =
  /** The first one: the connection's name. */
  | { event: 'opened'; data: { connection: string } }
  /** What a stream goes on with. */
  | { event: 'piece'; data: { stream: string; text: string } }
  /** A stream is over; `complete`: it has not been cut off. */
  | { event: 'end'; data: { stream: string; complete: boolean } };
