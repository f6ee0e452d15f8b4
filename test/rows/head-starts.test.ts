// Head starts in the row: who waits for one, and when it is dead.
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { findLostWorker, renewLease, takeLease } from '../../store/leases.ts';
import { type Claim, renewClaim, reportHeadStart } from '../../store/runs.ts';
import { claimStep } from '../../store/steps.ts';
import { beginTool } from '../../store/tools.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { freshRows, Session } from './session.ts';

const db = await freshRows();

describe('a head start, which claims with attempt 0', () => {
  it('W1 in progress: an activity waits for it, another head start is refused, a load leaves its fence', async () => {
    const session = await Session.at('chatting', db);
    await session.load();
    const { run_seq: run } = (await session.say('hello')) as { run_seq: number };
    expect(await session.claim(run, [1, 2, 0])).toMatchObject({ kind: 'claimed' });
    expect(await session.claim(run, [1, 3, 0])).toEqual({ kind: 'lost' });
    expect(await session.claim(run, [1, 2, 0, 1]), 'its own claim again').toMatchObject({ kind: 'claimed' });
    expect(await session.claim(run, [1, 2, 1])).toEqual({ kind: 'underway' });
    expect(await session.load()).toMatchObject({ epoch: 2 });
    expect(await session.claim(run, [1, 4, 1]), 'of an older epoch').toEqual({ kind: 'lost' });
    expect(await session.claim(run, [2, 1, 1])).toEqual({ kind: 'underway' });
    expect(await session.settleStep(run, [1, 2, 0, 1], { end: true })).toMatchObject({
      kind: 'settled',
      state: 'finished',
    });
    expect(await session.claim(run, [2, 1, 1])).toMatchObject({ kind: 'settled', state: 'finished' });
  });

  const begun = async () => {
    const session = await Session.at('chatting', db);
    await session.load();
    const { run_seq: run } = (await session.say('hello')) as { run_seq: number };
    await session.claim(run, [1, 2, 0]);
    const silent = (seconds: number) =>
      db.query(
        `UPDATE chat_runs SET head_start_at = clock_timestamp() - $3 * interval '1 second'
          WHERE session_id = $1 AND seq = $2`,
        [session.id, run, seconds],
      );
    return { session, run, claim: { sessionId: session.id, runSeq: run, fence: [1, 2, 0] as const }, silent };
  };

  it('W1 of a worker without a lease, silent for two seconds: it is dead, and an activity takes over', async () => {
    const { session, run, claim, silent } = await begun();
    await reportHeadStart(db, claim, 'alive', randomUUID());
    expect(await session.claim(run, [1, 2, 1])).toEqual({ kind: 'underway' });
    await silent(2);
    expect(await session.claim(run, [1, 2, 1])).toMatchObject({ kind: 'claimed' });
    expect(await session.settleStep(run, [1, 2, 0], { end: true })).toEqual({ kind: 'lost' });
  });

  it('W1 T5 of a worker with a lease: alive however long Postgres stalls, until the lease is found lost', async () => {
    const { session, run, claim, silent } = await begun();
    const worker = randomUUID();
    await takeLease(db, worker, { leaseMs: 1, running: new Map(), agents: [] });
    await reportHeadStart(db, claim, 'alive', worker);
    await silent(20);
    expect(await session.claim(run, [1, 2, 1]), 'its lease has lapsed, but nobody found it lost').toEqual({
      kind: 'underway',
    });
    await reportHeadStart(db, claim, 'alive', worker);
    expect(await session.claim(run, [1, 2, 1])).toEqual({ kind: 'underway' });
    expect(await findLostWorker(db, worker)).toMatchObject({ tokens: [] });
    expect(await reportHeadStart(db, claim, 'alive', worker), 'it lives after all').toBe(false);
    expect(await session.claim(run, [1, 2, 1]), 'at once').toMatchObject({ kind: 'claimed' });
    expect(await session.settleStep(run, [1, 2, 0], { end: true })).toEqual({ kind: 'lost' });
  });

  it('T5 of a worker that is found lost just after it has begun: who goes on is ahead of it, and not of the activity', async () => {
    const session = await Session.at('chatting', db);
    const { epoch } = await session.load();
    const { run_seq: run } = (await session.say('hello')) as { run_seq: number };
    const [worker, next] = [randomUUID(), randomUUID()];
    const claim: Claim = { sessionId: session.id, runSeq: run, fence: [epoch, 2, 0], worker };
    await takeLease(db, worker, { leaseMs: 1, running: new Map(), agents: [] });
    expect(await claimStep(db, claim, { step: 0, startedAt: Date.now() })).toMatchObject({ kind: 'claimed' });
    const found = await findLostWorker(db, worker);
    const [left] = found!.runs;
    expect(left).toEqual({ session_id: session.id, run_seq: run, step: 0, calls: [], fence: [epoch, 2, 0, 1_000_000] });
    const { fence } = left!;
    expect(await claimStep(db, { ...claim, fence, worker: next }, { step: 0, startedAt: 0 })).toMatchObject({
      kind: 'claimed',
    });
    await renewClaim(db, claim);
    expect(await session.settleStep(run, claim.fence, { end: true }), 'the lost one, renewed').toEqual({
      kind: 'lost',
    });
    expect(await session.claim(run, [epoch, 2, 2])).toEqual({ kind: 'underway' });
    await takeLease(db, next, { leaseMs: 1, running: new Map(), agents: [] });
    const lost = await eventually(async () => {
      const work = await findLostWorker(db, next);
      expect(work).toBeDefined();
      return work!;
    });
    expect(lost.runs).toMatchObject([{ fence: [epoch, 2, 0, 2_000_000] }]);
    expect(await session.claim(run, [epoch, 2, 2])).toMatchObject({ kind: 'claimed' });
  });

  it('T5 of a lost worker whose session was loaded since: who goes on has the new epoch', async () => {
    const session = await Session.at('chatting', db);
    await session.load();
    const run = await session.runWithCalls(['call_1', 'call_2'], [1, 1, 0]);
    const worker = randomUUID();
    await takeLease(db, worker, { leaseMs: 1, running: new Map(), agents: [] });
    const pending = { tool_call_id: 'call_1', name: 'pay', message_id: 'msg', step: 1 };
    await beginTool(db, { sessionId: session.id, runSeq: run, fence: [1, 2, 0], worker }, pending, { raise: null });
    await session.load();
    const { runs } = (await findLostWorker(db, worker))!;
    expect(runs).toEqual([
      {
        ...{ session_id: session.id, run_seq: run, step: 1, fence: [2, 1, 0] },
        calls: [
          expect.objectContaining({ tool_call_id: 'call_1' }),
          expect.objectContaining({ tool_call_id: 'call_2' }),
        ],
      },
    ]);
  });

  it('W1 of a worker that renews its lease, but is silent for half a minute: its main thread hangs', async () => {
    const { session, run, claim, silent } = await begun();
    const worker = randomUUID();
    await takeLease(db, worker, { leaseMs: 60_000, running: new Map(), agents: [] });
    await reportHeadStart(db, claim, 'alive', worker);
    await silent(30);
    expect(await renewLease(db, worker, 60_000, [])).toBeDefined();
    expect(await session.claim(run, [1, 2, 1])).toMatchObject({ kind: 'claimed' });
  });

  it('W1 over: what follows may be claimed at once', async () => {
    const session = await Session.at('chatting', db);
    await session.load();
    const run = await session.runWithCalls(['call_1'], [1, 2, 0]);
    const late = { sessionId: session.id, runSeq: run, fence: [1, 2, 0] as const };
    expect(await reportHeadStart(db, late, 'alive', randomUUID()), 'a report that arrives late').toBe(false);
    expect(await session.beginTool(run, [1, 3, 1], 'call_1')).toMatchObject({ kind: 'begun' });
  });
});
