// A reader process: follows answers on request and reports when it received each chunk.
import { serveParent } from './child.ts';
import { connectClient } from './client.ts';

const client = connectClient(process.env);
const following = new Map<string, ReturnType<typeof client.follow>>();

serveParent({
  /** Starts to follow a run, which may not exist yet. */
  follow: ({ sessionId, runSeq }: { sessionId: string; runSeq: number }) => {
    following.set(`${sessionId}/${runSeq}`, client.follow(sessionId, runSeq));
  },
  /** The observations, once the run is over. */
  followed: async ({ sessionId, runSeq }: { sessionId: string; runSeq: number }) => {
    const key = `${sessionId}/${runSeq}`;
    const followed = await following.get(key);
    following.delete(key);
    return followed;
  },
});
