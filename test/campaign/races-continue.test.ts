// Messages and commands arrive while their workflow continues as new. RACES=5000 runs that many.
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { askedAbout, wakeSurely } from '../faults/answered.ts';
import { inParallel } from '../faults/parallel.ts';
import { expectSound } from '../faults/sound.ts';

const SESSIONS = 10;
const ROUNDS = Math.ceil(Number(process.env['RACES']) / SESSIONS);

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    // Every turn has enough events to continue as new. No sweeper, so that a lost message stays lost.
    settings: { continueAsNewEvents: 10, sweepIntervalMs: 3_600_000 },
    script: (request) => [say(`re ${lastUserText(request)}`)],
  });
});

describe('a workflow that continues as new', { timeout: patient(60_000 + SESSIONS * ROUNDS * 300) }, () => {
  it(`W4 ${SESSIONS * ROUNDS} times as a message arrives: none is lost, none answered twice`, async () => {
    await inParallel(SESSIONS, SESSIONS, async (s) => {
      const session = await TestSession.open(runtime);
      for (let round = 0; round < ROUNDS; round += 1) {
        // The row says that the turn has ended; its workflow continues as new now or some milliseconds later.
        await delay(round);
        const accepted = await session.accept(`next ${s} ${round}`);
        await wakeSurely(session, accepted);
        const run = await session.ended(accepted.run);
        expect(run.state).toBe('finished');
        expect(await session.parts(run.answer_id)).toMatchObject([{}, { text: `re next ${s} ${round}` }]);
      }
      await expectSound(runtime, session.id);
      await eventually(async () => expect(await loads(session), 'it did continue').toBeGreaterThan(1));
    });
  });

  it('W4 under load: messages and commands at once, all answered, in order', async () => {
    const texts: string[] = [];
    await inParallel(SESSIONS, SESSIONS, async (s) => {
      const session = await TestSession.open(runtime);
      const sending = Array.from({ length: ROUNDS }, async (_, round) => {
        const text = `load ${s} ${round}`;
        texts.push(text);
        const accepted = await session.accept(text);
        const [failures] = await Promise.all([
          wakeSurely(session, accepted),
          // It may abort the run of an accepted message, which then ends as aborted.
          round % 5 === 0 ? session.command(updates.abort) : undefined,
        ]);
        expect(failures).toBeLessThanOrEqual(1);
        return accepted.run;
      });
      const runs = await Promise.all(sending);
      for (const run of runs) expect(['finished', 'aborted']).toContain((await session.ended(run, 60_000)).state);
      await expectSound(runtime, session.id);
    });
    const asked = askedAbout(runtime.model.requests);
    expect(texts.filter((text) => (asked.get(text) ?? 0) > 1)).toEqual([]);
  });
});

async function loads(session: TestSession): Promise<number> {
  const { rows } = await runtime.db.query<{ epoch: number }>('SELECT epoch FROM chat_sessions WHERE session_id = $1', [
    session.id,
  ]);
  return rows[0]!.epoch;
}
