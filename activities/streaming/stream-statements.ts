import type { Bus } from '../../bus/bus.ts';
import type { Db } from '../../store/db.ts';
import { appendStream, appendStreams, type StreamWrite } from '../../store/streams.ts';
import type { Statements } from './stream-writer.ts';

/** Pointers of as many batches fit into one payload of NOTIFY. */
const MOST_TOLD = 50;

/** Statements that write batches of answers and tell readers of those that are stored. */
export function streamStatements(db: Db, bus: Bus): Statements {
  const tell = ({ claim }: StreamWrite) => bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
  return {
    shared: async (writes) => {
      const notify = writes.length <= MOST_TOLD && (bus.takeBatch?.() ?? false);
      const landed = await appendStreams(db, writes, { notify });
      if (!notify) for (const [index, write] of writes.entries()) if (landed[index]) tell(write);
      return landed;
    },
    alone: async (write) => {
      const state = await appendStream(db, write);
      if (state !== 'lost') tell(write);
      return state;
    },
  };
}
