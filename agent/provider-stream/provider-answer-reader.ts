import type { StreamProviderError } from 'ai';

/** The data of one event of a provider's stream. */
export type ProviderEvent = Readonly<Record<string, unknown>>;

/** Reads the events of one answer in one provider's protocol. */
export interface ProviderAnswerReader {
  /**
   * The event as the protocol's specification has it, so that an SDK can read it: the same object if nothing was odd,
   * undefined if it says nothing; the error if it tells of one.
   */
  read(event: ProviderEvent): ProviderEvent | StreamProviderError | undefined;
  /** The provider has said why the answer ends: nothing that follows or fails costs the answer. */
  readonly isWhole: boolean;
  /** The last event of the protocol has arrived. */
  readonly isOver: boolean;
  /**
   * The events that are missing when the stream ends.
   * @param isDone it ended with `[DONE]`
   */
  missing(isDone: boolean): ProviderEvent[];
}

/** An object of JSON; undefined for all else. */
export function objectOf(value: unknown): ProviderEvent | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as ProviderEvent) : undefined;
}

/** The JSON that a provider has sent as an object instead of as a string, as a string. */
export function jsonText(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
}

/** A copy with one field changed; the same object if the field is the same. */
export function withField(event: ProviderEvent, name: string, value: unknown): ProviderEvent {
  return event[name] === value ? event : { ...event, [name]: value };
}

/** The values as `mend` returns them; the same array if all are the same. */
export function eachMended(values: unknown[], mend: (value: unknown) => unknown): unknown[] {
  const mended = values.map(mend);
  return mended.some((value, at) => value !== values[at]) ? mended : values;
}

const COUNT = /tokens$/;
const DETAILS = /_details$/;

/** Reported tokens with counts that are numbers: those in strings are read, and what is no count is left out. */
export function readableUsage(usage: unknown): ProviderEvent | undefined {
  const object = objectOf(usage);
  if (object === undefined) return undefined;
  let readable = object;
  for (const [name, value] of Object.entries(object)) {
    if (value === null || !(COUNT.test(name) || DETAILS.test(name))) continue;
    readable = withField(readable, name, COUNT.test(name) ? count(value) : readableUsage(value));
  }
  return readable;
}

function count(value: unknown): number | undefined {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}
