import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { type Claim, renewClaim } from '../../store/runs.ts';
import { freshRows, Session, untilBlocked, textPart, toolPart } from './session.ts';

const db = await freshRows();

const ZOMBIE: Fence = [1, 2, 1];
/** The possible successors of the zombie. */
const NEXT: Record<string, Fence> = {
  'the next attempt': [1, 2, 2],
  'the next step': [1, 3, 1],
  'the next workflow': [2, 1, 1],
};

/** A run at its second step, with a started tool call, claimed by the later zombie. */
async function atWork(): Promise<{ session: Session; run: number }> {
  const session = await Session.at('building', db, { project: newId('prj') });
  const run = await session.runWithCalls(['call_1'], [1, 1, 1]);
  await session.beginTool(run, ZOMBIE, 'call_1');
  return { session, run };
}

/** Every write that a zombie may try, and its result. */
const ATTEMPTS: Record<string, [told: unknown, attempt: (session: Session, run: number) => Promise<unknown>]> = {
  append_stream: ['lost', (session, run) => session.append(run, ZOMBIE, [textPart(1, 'late')])],
  'append_stream of a delta': [
    'lost',
    (session, run) => session.append(run, ZOMBIE, [], [{ part_id: 'prt_x', start: 0, text: 'late' }]),
  ],
  append_streams: [null, (session, run) => session.appendShared(run, ZOMBIE, [textPart(1, 'late')])],
  'append_streams of a delta': [
    null,
    (session, run) => session.appendShared(run, ZOMBIE, [], [{ part_id: 'prt_x', start: 0, text: 'late' }]),
  ],
  settle_step: [{ kind: 'lost' }, (session, run) => session.settleStep(run, ZOMBIE, { step: 1, end: true })],
  'settle_step of a step that has settled': [
    { kind: 'lost' },
    (session, run) => session.settleStep(run, ZOMBIE, { step: 0, usage: { input: 7 } }),
  ],
  finish_tool: [
    { kind: 'lost' },
    (session, run) => session.finishTool(run, ZOMBIE, 'call_1', { effects: { event: 'todo_done_build' } }),
  ],
  begin_tool: [{ kind: 'lost' }, (session, run) => session.beginTool(run, ZOMBIE, 'call_1')],
  settle_run: [{ kind: 'lost' }, (session, run) => session.settleRun(run, 'error', ZOMBIE)],
  note_retry: [false, (session, run) => session.noteRetry(run, ZOMBIE)],
  claim_step: [{ kind: 'lost' }, (session, run) => session.claim(run, ZOMBIE, 1)],
};

describe.each(Object.entries(ATTEMPTS))('%s of a zombie', (name, [told, attempt]) => {
  it.each(Object.entries(NEXT))(`S8 ${name} changes no row once %s has claimed`, async (_who, next) => {
    const { session, run } = await atWork();
    expect(await session.claim(run, next, 1)).toMatchObject({ kind: 'claimed' });
    const stored = await session.everything();
    expect(await attempt(session, run)).toEqual(told);
    expect(await session.everything()).toEqual(stored);
  });

  it(`S8 ${name} changes no row once another workflow has loaded, before its first claim`, async () => {
    const { session, run } = await atWork();
    for (let epoch = 1; epoch <= 2; epoch += 1) await session.load();
    const stored = await session.everything();
    expect(await attempt(session, run)).toEqual(told);
    expect(await session.everything()).toEqual(stored);
    expect(await session.claim(run, [2, 1, 1], 1)).toMatchObject({ kind: 'claimed' });
  });

  it(`S8 ${name} changes no row once the run has ended`, async () => {
    const { session, run } = await atWork();
    await session.settleRun(run, 'aborted');
    const stored = await session.everything();
    await attempt(session, run);
    expect(await session.everything()).toEqual(stored);
  });
});

it('S8 a claim succeeds only with a greater fence: epoch before ordinal before attempt', async () => {
  const session = await Session.at('chatting', db);
  await session.say('hello');
  const order: Fence[] = [
    [0, 1, 1],
    [0, 1, 2],
    [0, 2, 1],
    [0, 10, 1],
    [1, 1, 1],
    [1, 1, 10],
    [1, 9, 9],
    [2, 0, 1],
    [10, 0, 0],
  ];
  for (const [index, fence] of order.entries()) {
    for (const smaller of order.slice(0, index)) expect(await session.claim(1, smaller)).toEqual({ kind: 'lost' });
    expect(await session.claim(1, fence)).toMatchObject({ kind: 'claimed' });
    expect(await session.claim(1, fence)).toEqual({ kind: 'lost' });
    expect((await session.run(1))['fence']).toEqual(fence);
  }
});

it('S8 of concurrent claims the one with the greatest fence holds the run in the end, and no smaller one claims it later', async () => {
  const session = await Session.at('chatting', db);
  await session.say('hello');
  const attempts = Array.from({ length: 8 }, (_, index): Fence => [1, 1, index + 1]);
  const claims = await Promise.all(attempts.map((fence) => session.claim(1, fence)));
  expect(claims.at(-1)).toMatchObject({ kind: 'claimed' });
  const writes = await Promise.all(attempts.map((fence, n) => session.append(1, fence, [textPart(n, `${n}`)])));
  expect(writes).toEqual([...attempts.slice(1).map(() => 'lost'), 'live']);
});

it('S8 a claim waits for a batch that is being written, and includes it', async () => {
  const { session, run } = await atWork();
  const client = await db.connect();
  try {
    await client.query('BEGIN');
    const part = textPart(1, 'Hello');
    const zombie = session.through(client);
    expect(await zombie.append(run, ZOMBIE, [part], [{ part_id: part.id, start: 5, text: ' world' }])).toBe('live');
    const claim = session.claim(run, [1, 2, 2], 1);
    await untilBlocked(db);
    await client.query('COMMIT');
    expect(await claim).toMatchObject({
      kind: 'claimed',
      next_index: 1,
      lost: [{ id: part.id, index: 1, data: { text: 'Hello' }, text: ' world' }],
    });
  } finally {
    client.release();
  }
});

it('S8 a batch during a claim waits for it, and is refused', async () => {
  const { session, run } = await atWork();
  const client = await db.connect();
  try {
    await client.query('BEGIN');
    expect(await session.through(client).claim(run, [1, 2, 2], 1)).toMatchObject({ kind: 'claimed' });
    const late = session.append(run, ZOMBIE, [textPart(1, 'late')]);
    await untilBlocked(db);
    await client.query('COMMIT');
    expect(await late).toBe('lost');
    expect(await session.parts(run)).toHaveLength(1);
  } finally {
    client.release();
  }
});

it('S8 until the next claim an attempt holds the run: the next one sees what it wrote', async () => {
  const { session, run } = await atWork();
  await session.finishTool(run, ZOMBIE, 'call_1');
  await session.claim(run, [1, 3, 1], 1);
  expect(await session.append(run, [1, 3, 1], [textPart(1, 'first words')])).toBe('live');
  const found = await session.claim(run, [1, 3, 2], 1);
  expect(found).toMatchObject({ kind: 'claimed', lost: [{ index: 1, data: { text: 'first words' }, text: null }] });
});

describe('idempotency records', () => {
  it('S8 claiming a settled step returns its recorded result', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1'], [1, 1, 1]);
    const stored = await session.everything();
    expect(await session.claim(run, [1, 1, 2])).toEqual({
      ...{ kind: 'settled', state: 'running', code: null, finish_reason: 'stop', model: 'test/model', tokens: 1 },
      ...{ end: false, tool_calls: [{ tool_call_id: 'call_1', name: 'build_and_deploy' }] },
    });
    expect(await session.everything()).toEqual(stored);
  });

  it('S8 the record of the last step contains how the run ended', async () => {
    const session = await Session.at('chatting', db);
    await session.say('hello');
    await session.claim(1, [1, 1, 1]);
    await session.settleStep(1, [1, 1, 1], { end: true });
    expect(await session.claim(1, [1, 1, 2])).toMatchObject({ kind: 'settled', state: 'finished', end: true });
  });

  it('S8 an older step has no record any more, and does not claim the run from the newer one', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls([], [1, 1, 1]);
    await session.claim(run, [1, 2, 1], 1);
    await session.settleStep(run, [1, 2, 1], { step: 1 });
    const stored = await session.everything();
    expect(await session.claim(run, [1, 1, 9], 0)).toEqual({ kind: 'lost' });
    expect(await session.everything()).toEqual(stored);
  });

  it('U2 a settlement that its attempt repeats is counted once', async () => {
    const session = await Session.at('chatting', db);
    await session.say('hello');
    await session.claim(1, [1, 1, 1]);
    for (const end of [false, true]) {
      const step = end ? 1 : 0;
      const settlement = {
        step,
        end,
        usage: { input: 5, output: 2 },
        parts: [textPart(step, 'answer')],
        nextIndex: step + 1,
      };
      const first = await session.settleStep(1, [1, 1, 1], settlement);
      const stored = await session.everything();
      expect(await session.settleStep(1, [1, 1, 1], settlement)).toEqual(first);
      expect(await session.everything()).toEqual(stored);
    }
    expect(await session.chat()).toMatchObject({ prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 });
  });

  it('U2 only the next step can be settled', async () => {
    const session = await Session.at('chatting', db);
    await session.say('hello');
    await session.claim(1, [1, 1, 1]);
    for (const step of [0, 1]) await session.settleStep(1, [1, 1, 1], { step, usage: { input: 1 } });
    const stored = await session.everything();
    for (const step of [0, 3]) expect(await session.settleStep(1, [1, 1, 1], { step })).toEqual({ kind: 'lost' });
    expect(await session.everything()).toEqual(stored);
  });

  it('T4 a repeated batch is stored once', async () => {
    const session = await Session.at('chatting', db);
    await session.say('hello');
    await session.claim(1, [1, 1, 1]);
    const part = textPart(0, 'Hel');
    const batch = [[part, toolPart('call_1', 1)], [{ part_id: part.id, start: 3, text: 'lo' }]] as const;
    expect(await session.append(1, [1, 1, 1], ...batch)).toBe('live');
    const live = await session.live();
    expect(await session.append(1, [1, 1, 1], ...batch)).toBe('live');
    expect(await session.live()).toEqual(live);
    expect(await session.messages()).toHaveLength(2);
  });
});

describe('a claim that its attempt renews', () => {
  it('S8 a statement sent before the renewal, but executed after it, changes no row', async () => {
    const { session, run } = await atWork();
    const claim: Claim = { sessionId: session.id, runSeq: run, fence: ZOMBIE };
    await renewClaim(db, claim);
    expect(claim.fence).toEqual([...ZOMBIE, 1]);
    const stored = await session.everything();
    expect(await session.append(run, ZOMBIE, [textPart(1, 'late')])).toBe('lost');
    expect(await session.everything()).toEqual(stored);
    expect(await session.append(run, claim.fence, [textPart(2, 'again')])).toBe('live');
  });

  it.each(Object.entries(NEXT))('S8 is not raised above %s', async (_who, next) => {
    const { session, run } = await atWork();
    await session.claim(run, next, 1);
    const stored = await session.everything();
    const claim: Claim = { sessionId: session.id, runSeq: run, fence: ZOMBIE };
    await renewClaim(db, claim);
    expect(await session.everything()).toEqual(stored);
    expect(await session.append(run, claim.fence, [textPart(1, 'late')])).toBe('lost');
  });

  it('S8 returns the recorded result of a settlement that was committed', async () => {
    const session = await Session.at('chatting', db);
    const { run_seq: run } = (await session.say('hello')) as { run_seq: number };
    await session.claim(run, ZOMBIE);
    const settled = await session.settleStep(run, ZOMBIE, { end: true, usage: { input: 7 } });
    const claim: Claim = { sessionId: session.id, runSeq: run, fence: ZOMBIE };
    await renewClaim(db, claim);
    expect(await session.settleStep(run, claim.fence, { end: true, usage: { input: 7 } })).toEqual(settled);
    expect(await session.chat()).toMatchObject({ prompt_tokens: 7 });
  });
});
