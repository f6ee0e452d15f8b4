// Payloads in histories are { metadata: { encoding }, data }, both in base64.

/** A payload of a history in JSON. */
interface Payload {
  metadata?: Record<string, string>;
  data?: string;
}

const JSON_PLAIN = Buffer.from('json/plain').toString('base64');

/** True for a payload with JSON. */
function isJsonPayload(value: unknown): value is Payload & { data: string } {
  if (typeof value !== 'object' || value === null) return false;
  const { metadata, data } = value as Payload;
  return metadata?.['encoding'] === JSON_PLAIN && typeof data === 'string';
}

/** The value of a JSON payload; undefined: it is not one. */
export function contentOf(payload: unknown): unknown {
  return isJsonPayload(payload) ? JSON.parse(Buffer.from(payload.data, 'base64').toString('utf8')) : undefined;
}

function encode<P extends Payload>(payload: P, value: unknown): P {
  return { ...payload, data: Buffer.from(JSON.stringify(value)).toString('base64') };
}

/** A copy of a value in which `change` is applied to every JSON payload. */
export function mapPayloads(value: unknown, change: (content: unknown) => unknown): unknown {
  if (isJsonPayload(value)) return encode(value, change(contentOf(value)));
  if (Array.isArray(value)) return value.map((item) => mapPayloads(item, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapPayloads(item, change)]));
}

/** A history with decoded payloads, as one text to search. */
export function readable(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => (isJsonPayload(item) ? contentOf(item) : item));
}
