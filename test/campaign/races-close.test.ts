// A message arrives while its workflow ends by a close or by the idle timer. RACES=5000 runs that many of each.
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { askedAbout, refusalOf, wakeSurely } from '../faults/answered.ts';
import { inParallel } from '../faults/parallel.ts';
import { expectSound } from '../faults/sound.ts';
import { aroundCalls, type SqlCall } from '../faults/sql-calls.ts';

/** How a message and a close meet: see {@link acceptIn}. */
const MEETINGS = ['at once', 'as the close is written', 'before it is written', 'after it was written'] as const;
const SESSIONS = 10;
const ROUNDS = Math.ceil(Number(process.env['RACES']) / SESSIONS);
const TIMES = `${SESSIONS * ROUNDS} times`;
/** No sweeper, so that a lost message stays lost and the test fails. */
const NEVER = 3_600_000;

describe('a message races with', { timeout: patient(60_000 + SESSIONS * ROUNDS * 300) }, () => {
  describe('a close', () => {
    let runtime: TestRuntime;
    beforeAll(async () => {
      runtime = await startRuntime({
        settings: { sweepIntervalMs: NEVER },
        script: (request) => [say(`re ${lastUserText(request)}`)],
      });
    });

    it(`W8 ${TIMES}: every message is answered once, every close gets a response`, async () => {
      let closed = 0;
      let refused = 0;
      await inParallel(SESSIONS, SESSIONS, async (s) => {
        const session = await TestSession.open(runtime);
        for (let round = 0; round < ROUNDS; round += 1) {
          const text = `close ${s} ${round}`;
          const accepting = acceptIn(round, runtime, session, text);
          const [run, closing] = await Promise.all([woken(session, accepting), closeOnce(session)]);
          if (closing === 'closed') closed += 1;
          else refused += 1;
          const ended = await session.ended(run);
          expect(ended.state).toBe('finished');
          expect(await session.parts(ended.answer_id)).toMatchObject([{}, { text: `re ${text}` }]);
        }
        await expectSound(runtime, session.id);
      });
      expect([...askedAbout(runtime.model.requests).values()].filter((count) => count !== 1)).toEqual([]);
      expect(runtime.model.requests).toHaveLength(SESSIONS * ROUNDS);
      const least = SESSIONS * Math.floor(ROUNDS / MEETINGS.length);
      expect(Math.min(closed, refused), 'both won').toBeGreaterThanOrEqual(Math.max(1, least));
    });

    it(`W8 that aborts, ${TIMES}: every message is answered, aborted, or listed as dropped`, async () => {
      await inParallel(SESSIONS, SESSIONS, async (s) => {
        const session = await TestSession.open(runtime);
        for (let round = 0; round < ROUNDS; round += 1) {
          const message = newId('msg');
          const [run, { dropped, aborted }] = await Promise.all([
            woken(session, acceptIn(round, runtime, session, `abort ${s} ${round}`, message)),
            session.command(updates.close, { abort: true }),
          ]);
          const { state } = await session.ended(run);
          expect(state === 'cancelled').toBe(dropped.includes(message));
          if (state === 'aborted') expect(aborted).toBe(true);
          expect(['finished', 'aborted', 'cancelled']).toContain(state);
        }
        await expectSound(runtime, session.id);
      });
    });
  });

  describe('the idle timer', () => {
    const IDLE_MS = 25;
    let runtime: TestRuntime;
    beforeAll(async () => {
      runtime = await startRuntime({
        settings: { sweepIntervalMs: NEVER, idleCloseMs: IDLE_MS },
        script: (request) => [say(`re ${lastUserText(request)}`)],
      });
    });

    it(`W8 ${TIMES}: every message is answered once, every command gets a response`, async () => {
      let closed = 0;
      let open = 0;
      await inParallel(SESSIONS, SESSIONS, async (s) => {
        const session = await TestSession.open(runtime);
        // A race needs a message that comes as the session closes. The pause before it grows after one that met an open
        // session and shrinks after one that met a closed one, so it stays near the time at which this machine closes it.
        let pauseMs = 4 * IDLE_MS;
        let loads = 1;
        for (let round = 0; round < ROUNDS; round += 1) {
          const accepted = await session.accept(`idle ${s} ${round}`);
          await wakeSurely(session, accepted);
          expect((await session.ended(accepted.run)).state).toBe('finished');
          const loadsNow = await loadsOf(runtime, session);
          const hadClosed = loadsNow > loads;
          loads = loadsNow;
          if (hadClosed) closed += 1;
          else open += 1;
          pauseMs *= hadClosed ? 0.7 : 1.6;
          await aMoment(pauseMs);
          if (round % 4 === 0) expect(await session.command(updates.abort)).toMatchObject({ aborted: false });
        }
        await expectSound(runtime, session.id);
      });
      expect([...askedAbout(runtime.model.requests).values()].filter((count) => count !== 1)).toEqual([]);
      expect(runtime.model.requests).toHaveLength(SESSIONS * ROUNDS);
      expect(Math.min(closed, open), 'messages met both closed and open sessions').toBeGreaterThan(0);
    });
  });
});

/** Wakes the session for an accepted message; returns its run. */
async function woken(session: TestSession, accepting: ReturnType<TestSession['accept']>): Promise<number> {
  const accepted = await accepting;
  await wakeSurely(session, accepted);
  return accepted.run;
}

/**
 * Accepts a message. Accepting one is faster than a close, so it is also started with the statement of the close; and one of
 * the two is held until the other is over, so that each wins.
 */
async function acceptIn(
  round: number,
  runtime: TestRuntime,
  session: TestSession,
  ...message: Parameters<TestSession['accept']>
): ReturnType<TestSession['accept']> {
  const meeting = MEETINGS[round % MEETINGS.length]!;
  if (meeting === 'at once') return session.accept(...message);
  const { promise, resolve } = Promise.withResolvers<void>();
  let accepting: ReturnType<TestSession['accept']> | undefined;
  const accept = async ({ name, args }: SqlCall) => {
    if (name !== 'apply_command' || args[0] !== session.id || args[1] !== 'close') return;
    accepting ??= session.accept(...message);
    resolve();
    if (meeting !== 'as the close is written') await accepting.catch(() => {});
  };
  const when = meeting === 'after it was written' ? 'after' : 'before';
  using _hook = aroundCalls(runtime.db, { [when]: accept });
  await promise;
  return await accepting!;
}

async function closeOnce(session: TestSession): Promise<'closed' | 'refused'> {
  const closing = session.command(updates.close);
  const won = await closing.then(
    () => true,
    () => false,
  );
  if (won) return 'closed';
  expect(await refusalOf(closing)).toMatchObject({ code: 'RunInFlight' });
  return 'refused';
}

/** How often an execution of the session has loaded it. */
async function loadsOf({ db }: TestRuntime, { id }: TestSession): Promise<number> {
  const { rows } = await db.query<{ epoch: number }>('SELECT epoch FROM chat_sessions WHERE session_id = $1', [id]);
  return rows[0]!.epoch;
}

/** Varies the start of a race; this is not a wait for a condition. */
function aMoment(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
