// A reader in a process of its own: told which answer to follow, it says when it saw what.
import { serveParent } from './child.ts';
import { connectClient } from './client.ts';

const client = connectClient(process.env);
const following = new Map<string, ReturnType<typeof client.follow>>();

serveParent({
  /** Begins to follow a run that may not be there yet. */
  follow: ({ sessionId, runSeq }: { sessionId: string; runSeq: number }) => {
    following.set(`${sessionId}/${runSeq}`, client.follow(sessionId, runSeq));
  },
  /** What was seen of it, when it is over. */
  followed: async ({ sessionId, runSeq }: { sessionId: string; runSeq: number }) => {
    const key = `${sessionId}/${runSeq}`;
    const followed = await following.get(key);
    following.delete(key);
    return followed;
  },
});
