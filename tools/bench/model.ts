// The model: a process of its own that speaks a provider's protocol on loopback and knows when requests came and went.
import { type RecordedRequest, startModelServer } from '../test-kit/model-server.ts';
import { serveParent } from './child.ts';
import { now } from './clock.ts';
import { askOf, script } from './script.ts';

/** The moments of a request; see `now`. */
export interface Moments {
  cameAt: number;
  closedAt: number;
}

const moments = new Map<string, Promise<Moments>[]>();
const server = await startModelServer((request, index) => {
  note(server.requests[index]!);
  // Not kept: there are tens of thousands.
  server.requests.fill(undefined as never, index, index + 1);
  return script(request);
});

function note({ body, ended }: RecordedRequest): void {
  const cameAt = now();
  const { key } = askOf(body);
  const known = moments.get(key) ?? [];
  known.push(ended.then(() => ({ cameAt, closedAt: now() })));
  moments.set(key, known);
}

serveParent({
  url: () => server.url,
  /** The moments of the requests of a key, once they are over; forgets them. */
  moments: async ({ key }: { key: string }) => {
    const found = await Promise.all(moments.get(key) ?? []);
    moments.delete(key);
    return found;
  },
  /** How many requests of a key have come. */
  requests: ({ key }: { key: string }) => moments.get(key)?.length ?? 0,
});
