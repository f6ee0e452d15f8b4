// The model server: a process with the chat completions API on loopback and records the times of its requests.
import { type RecordedRequest, startModelServer } from '../test-kit/model-server.ts';
import { serveParent } from './child.ts';
import { now } from './clock.ts';
import { askOf, script } from './script.ts';

/** Times of a request; see `now`. */
export interface Moments {
  cameAt: number;
  closedAt: number;
}

const moments = new Map<string, Promise<Moments>[]>();
const server = await startModelServer((request, index) => {
  note(server.requests[index]!);
  // Requests are not kept: there are tens of thousands.
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
  /** Times of the finished requests of a key, which are then dropped. */
  moments: async ({ key }: { key: string }) => {
    const found = await Promise.all(moments.get(key) ?? []);
    moments.delete(key);
    return found;
  },
  /** Number of requests of a key so far. */
  requests: ({ key }: { key: string }) => moments.get(key)?.length ?? 0,
});
