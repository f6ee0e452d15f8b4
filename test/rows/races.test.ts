import fc from 'fast-check';
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { SEED } from '../../tools/test-kit/cases.ts';
import { call, type Answer, freshRows, phaseByLog, rows, Session, textPart, toolPart } from './session.ts';

const RACES = 500;
const CONNECTIONS = 8;
const db = await freshRows({ max: 20 });

it('S7 publish and cancel race: exactly one wins the phase, and the other gets an error', async () => {
  const [tabA, tabB] = await Promise.all([db.connect(), db.connect()]);
  const winners = { publish: 0, cancel: 0 };
  try {
    for (let race = 0; race < RACES; race += 1) {
      const session = await Session.at('verifying', db);
      const running = race % 4 >= 2;
      if (running) await session.say('more');
      const publish = () => session.through(tabA).raise('publish');
      const cancel = () => session.through(tabB).cancel();
      // The order alternates, so that neither always wins.
      const racing = race % 2 === 0 ? [publish(), cancel()] : [cancel(), publish()].toReversed();
      const [published, cancelled] = (await Promise.all(racing)) as [Answer, Answer];
      if (published['ok'] === true) {
        winners.publish += 1;
        expect(published).toMatchObject({ phase: 'done' });
        expect(cancelled).toMatchObject(
          running
            ? { ok: true, phase: 'done', cancelled: false, aborted: true }
            : { ok: false, code: 'InvalidTransition', phase: 'done', event: 'cancel' },
        );
      } else {
        winners.cancel += 1;
        expect(published).toMatchObject({
          ok: false,
          code: 'InvalidTransition',
          phase: 'chatting',
          event: 'publish',
        });
        expect(cancelled).toMatchObject({ ok: true, phase: 'chatting', cancelled: true, aborted: running });
      }
      const row = await session.row();
      expect(row['phase']).toBe(published['ok'] === true ? 'done' : 'chatting');
      expect(row['cancel_token'] !== null).toBe(cancelled['ok'] === true);
      expect(await phaseByLog(session)).toBe(row['phase']);
    }
  } finally {
    tabA.release();
    tabB.release();
  }
  expect(winners.publish + winners.cancel).toBe(RACES);
  expect(Math.min(winners.publish, winners.cancel)).toBeGreaterThan(0);
});

it('S7 concurrent revert, publish, cancel and the end of a build leave a legal event log', async () => {
  for (let race = 0; race < 60; race += 1) {
    const session = await Session.at('building', db);
    const run = await session.runWithCalls(['call_1']);
    await session.beginTool(run, [0, 2, 1], 'call_1');
    await Promise.all([
      session.finishTool(run, [0, 2, 1], 'call_1', { effects: { event: 'todo_done_build' } }),
      session.raise('publish'),
      session.raise('revert'),
      session.cancel(),
      session.raise('publish'),
    ]);
    expect(await phaseByLog(session)).toBe(await session.phase());
  }
});

/** An action on a session at any time; `pick` chooses from a small range, so that actions collide. */
type Action = (session: Session, pick: (below: number) => number) => Promise<unknown>;

const fenceOf = (pick: (below: number) => number): Fence => [pick(3), pick(4), 1 + pick(2)];
const runOf = async (session: Session, pick: (below: number) => number): Promise<number> => {
  const open = (await session.runs()).filter(({ state }) => state === 'running' || state === 'queued');
  return (open.at(pick(2))?.['seq'] as number | undefined) ?? 1 + pick(3);
};
/** The running run with its current fence and step, as its worker knows them. */
const atWork = async (session: Session): Promise<[run: number, fence: Fence, step: number]> => {
  const run = (await session.runs()).find(({ state }) => state === 'running');
  return run ? [run['seq'] as number, run['fence'] as Fence, run['step'] as number] : [1, [0, 0, 0], 0];
};

let place = 0;
/** A unique index for a part. */
const nextPlace = () => (place += 1);

const ACTIONS: Record<string, Action> = {
  say: (session, pick) => session.say(`${pick(9) === 0}`, { id: `m${pick(150)}`, maxQueue: 5 }),
  open: (session, pick) => session.openExisting(`prj-${pick(2)}`, `open:${pick(20)}`),
  build: (session, pick) => session.raise('start_build', `build:${pick(40)}`),
  built: (session, pick) => session.raise('todo_done_build', `built:${pick(40)}`),
  publish: (session, pick) => session.raise('publish', `publish:${pick(40)}`),
  revert: (session, pick) => session.raise('revert', `revert:${pick(40)}`),
  cancel: (session, pick) => session.cancel(`cancel:${pick(40)}`),
  abort: (session, pick) => session.abort(`abort:${pick(40)}`),
  cancelQueued: (session, pick) => session.cancelQueued(`m${pick(150)}`, `dequeue:${pick(40)}`),
  close: (session, pick) => session.close(pick(4) === 0, `close:${pick(40)}`),
  load: (session) => session.load(),
  reason: (session) => call(session.db, 'log_reason', [session.id, 'user', 'because', newId('cmd')]),
  claim: async (session, pick) => session.claim(await runOf(session, pick), [pick(3), pick(9), 1 + pick(2)]),
  work: async (session) => {
    const run = (await session.runs()).find(({ state }) => state === 'running' || state === 'queued');
    if (!run) return;
    const [epoch, ordinal] = run['fence'] as Fence;
    return session.claim(run['seq'] as number, [epoch, ordinal + 1, 1], run['step'] as number);
  },
  zombie: async (session, pick) => session.append(await runOf(session, pick), fenceOf(pick), [textPart(nextPlace())]),
  append: async (session) => {
    const [run, fence] = await atWork(session);
    const part = textPart(nextPlace(), 'a');
    return session.append(run, fence, [part], [{ part_id: part.id, start: 1, text: 'b' }]);
  },
  settleStep: async (session, pick) => {
    const [run, fence, step] = await atWork(session);
    const callId = newId('call');
    const parts = [toolPart(callId, nextPlace())];
    const toolCalls = [{ tool_call_id: callId, name: 'build_and_deploy' }];
    return session.settleStep(run, fence, {
      step,
      parts,
      toolCalls,
      usage: { input: 3, output: 1 },
      end: pick(3) === 0,
    });
  },
  tool: async (session, pick) => {
    const [run, [epoch, ordinal]] = await atWork(session);
    const [part] = await rows(
      session.db,
      `SELECT p.tool_call_id FROM chat_parts p JOIN chat_runs r ON r.session_id = p.session_id AND r.answer_id = p.message_id
        WHERE p.session_id = $1 AND r.seq = $2 AND p.tool_state = 'input-available' LIMIT 1`,
      [session.id, run],
    );
    if (!part) return;
    const [callId, fence] = [part['tool_call_id'] as string, [epoch, ordinal + 1, 1] as const];
    const at = pick(2) === 0 ? 'start' : 'result';
    await session.beginTool(run, fence, callId, pick(2) === 0 ? null : { event: 'start_build', at, project: null });
    const effects = { event: 'todo_done_build', state: [{ scope: 'user', key: `k${pick(3)}`, value: 1 }] };
    await session.finishTool(run, fence, callId, { effects: pick(2) === 0 ? effects : {} });
  },
  retry: async (session) => session.noteRetry(...((await atWork(session)).slice(0, 2) as [number, Fence])),
  settleRun: async (session, pick) =>
    session.settleRun(await runOf(session, pick), pick(3) === 0 ? 'error' : 'aborted'),
};

/** Actions that are chosen more often, so that the others have work to disturb. */
const USUAL = ['say', 'work', 'append', 'append', 'settleStep', 'tool', 'build'];

/** Expects what must hold for a session after any actions in any order. */
async function expectSound(session: Session): Promise<void> {
  const [row, chat, messages, runs, events] = await Promise.all([
    session.row(),
    session.chat(),
    session.messages(),
    session.runs(),
    session.events(),
  ]);
  expect(await phaseByLog(session)).toBe(row['phase']);
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(runs.map(({ seq }) => seq)).toEqual(runs.map((_, index) => index + 1));
  const asked = messages.filter(({ role }) => role === 'user');
  expect(asked.map(({ position }) => position)).toEqual(asked.map((_, index) => (index + 1) * 1000));
  expect(runs.map(({ message_id }) => message_id)).toEqual(asked.map(({ id }) => id));
  const placeOf = new Map(asked.map(({ id, position }) => [id, position as number]));
  for (const run of runs) {
    const answer = messages.find(({ id }) => id === run['answer_id']);
    if (answer) expect(answer['position']).toBe(placeOf.get(run['message_id'])! + 1);
    const over = !['queued', 'running', 'waiting'].includes(run['state'] as string);
    expect(run['finished_at'] !== null).toBe(over);
    if (run['state'] === 'cancelled')
      expect(asked.find(({ id }) => id === run['message_id'])!['hidden_at']).not.toBeNull();
  }
  const atWorkNow = runs.filter(({ state }) => state === 'running');
  expect(atWorkNow.length).toBeLessThanOrEqual(1);
  // Runs start in order: no run after the running or the first queued one has been answered.
  const firstOpen = runs.findIndex(({ state }) => state === 'running' || state === 'queued');
  if (firstOpen >= 0) expect(runs.slice(firstOpen + 1).filter(({ step }) => step !== 0)).toEqual([]);
  if (row['pending_tool'] !== null) expect(atWorkNow).toHaveLength(1);
  if (chat['paused_at'] !== null) expect(runs.some(({ state }) => state === 'error')).toBe(true);
  const steps = runs.reduce((all, { step }) => all + (step as number), 0);
  expect(chat).toMatchObject({ prompt_tokens: 3 * steps, completion_tokens: steps, total_tokens: 4 * steps });
  const leftDeltas = `SELECT FROM part_deltas d WHERE d.session_id = $1 AND NOT EXISTS (
                        SELECT FROM chat_parts p JOIN chat_runs r ON r.session_id = p.session_id AND r.answer_id = p.message_id
                         WHERE p.session_id = d.session_id AND p.id = d.part_id AND r.state IN ('running', 'finished', 'aborted'))`;
  expect(await rows(session.db, leftDeltas, [session.id])).toEqual([]);
}

it('S7 all actions on one session concurrently from 8 connections: no deadlock, no error, all invariants hold', async () => {
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => db.connect()));
  const answered = new Map<string, number>();
  try {
    const names = [...Object.keys(ACTIONS), ...Array.from({ length: 6 }, () => USUAL).flat()];
    const stories = fc.sample(fc.array(fc.integer({ min: 0, max: 2 ** 30 }), { minLength: 600, maxLength: 600 }), {
      seed: SEED,
      numRuns: CONNECTIONS * 3,
    });
    for (let game = 0; game < 3; game += 1) {
      const session = await Session.at('chatting', db);
      await Promise.all(
        clients.map(async (client, player) => {
          const numbers = stories[game * CONNECTIONS + player]!;
          let next = 0;
          const pick = (below: number) => numbers[next++ % numbers.length]! % below;
          for (let move = 0; move < 100; move += 1) {
            const name = names[pick(names.length)]!;
            const answer = (await ACTIONS[name]!(session.through(client), pick)) as Answer | string | null | undefined;
            const told = typeof answer === 'object' ? (answer?.['kind'] ?? answer?.['code'] ?? answer?.['ok']) : answer;
            const key = `${name} ${String(told)}`;
            answered.set(key, (answered.get(key) ?? 0) + 1);
          }
        }),
      );
      await expectSound(session);
    }
  } finally {
    for (const client of clients) client.release();
  }
  // The actions were mixed: runs were started, finished and refused.
  for (const key of [
    'work claimed',
    'append live',
    'settleStep settled',
    'say true',
    'zombie lost',
    'cancel true',
    'tool undefined',
  ]) {
    expect([...answered.keys()]).toContain(key);
  }
});

it('S7 concurrent sessions of one user and one project: no deadlock', async () => {
  const sessions = await Promise.all(
    Array.from({ length: 6 }, () => Session.at('chatting', db, { user: 'many', project: 'prj-many' })),
  );
  await Promise.all(
    sessions.map(async (session) => {
      for (let round = 0; round < 15; round += 1) {
        await session.say('go on');
        await session.raise('start_build');
        await session.cancel();
        await session.openExisting(round % 2 ? 'prj-many' : 'prj-other');
        await session.close(true);
      }
    }),
  );
  for (const session of sessions) expect(await phaseByLog(session)).toBe(await session.phase());
});
