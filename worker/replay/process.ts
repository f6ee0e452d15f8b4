// A process of its own in which a worker replays histories: the SDK replays in the thread that asks for it, which in a worker
// serves its streams. It is given the histories, and gets no addresses or keys.
import proto from '@temporalio/proto';
import { historyOf } from './history.ts';
import { capturingBundle, replay } from './replay.ts';

/** What the worker sends: a history in Temporal's binary format, and its name. */
export interface GivenHistory {
  name: string;
  bytes: Uint8Array;
}

/** What the process answers: of each history in the same order at which event it broke, or null. Or why it could not. */
export type Answered = { broke: (string | null)[] } | { problem: string };

const send = (answer: Answered) => process.send?.(answer, undefined, undefined, () => process.disconnect());

process.once('disconnect', () => process.exit());
process.once('message', (given) => {
  replayed(given as GivenHistory[]).then(send, (error: unknown) => send({ problem: String(error) }));
});

async function replayed(given: readonly GivenHistory[]): Promise<Answered> {
  const histories = await Promise.all(
    given.map(async ({ name, bytes }) => ({
      name,
      history: await historyOf(proto.temporal.api.history.v1.History.decode(bytes)),
    })),
  );
  const results = await replay(await capturingBundle(), histories);
  return { broke: results.map(({ broke }) => broke ?? null) };
}
