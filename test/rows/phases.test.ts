import { describe, expect, it } from 'vitest';
import { invalidTransitionMessage } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { nextPhase, PHASE_EVENTS, PHASES, transitionRows, type Phase, type PhaseEvent } from '../../domain/phases.ts';
import { migrate } from '../../migrations/migrate.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { type Answer, freshRows, rows, Session } from './session.ts';

const db = await freshRows();

const PAIRS = PHASES.flatMap((phase) => PHASE_EVENTS.map((event) => ({ phase, event, next: nextPhase(phase, event) })));
const storedTable = 'SELECT phase, event, next FROM phase_transitions';
const byPair = (table: readonly object[]) => table.map((row) => Object.values(row).join(' ')).toSorted();

it('S4 the stored table equals the domain table; drift is detected, and the next migration repairs it', async () => {
  const url = await freshDatabase();
  const own = patientPool(url);
  try {
    const wanted = byPair(transitionRows());
    expect(byPair(await rows(own, storedTable))).toEqual(wanted);
    await own.query(`DELETE FROM phase_transitions WHERE event = 'publish'`);
    await own.query(`INSERT INTO phase_transitions VALUES ('chatting', 'publish', 'done')`);
    await own.query(`UPDATE phase_transitions SET next = 'done' WHERE phase = 'building' AND event = 'cancel'`);
    expect(byPair(await rows(own, storedTable))).not.toEqual(wanted);
    await migrate(url);
    expect(byPair(await rows(own, storedTable))).toEqual(wanted);
  } finally {
    await own.end();
  }
});

/** Expects of a pair: a legal event changed the phase and was logged, an illegal one was refused and only logged. */
async function expectJudged(session: Session, answer: Answer, { phase, event, next }: (typeof PAIRS)[number]) {
  const [before, after] = [phase, await session.phase()];
  const events = await session.events();
  const last = events.at(-1)!;
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  if (next === undefined) {
    expect(answer).toMatchObject({ code: 'InvalidTransition', phase, event });
    expect(after).toBe(before);
    expect(last).toMatchObject({ kind: 'refused', data: { outcome: { code: 'InvalidTransition', phase, event } } });
  } else {
    expect(answer).toMatchObject({ phase: next, event_seq: last.seq });
    expect(after).toBe(next);
    expect(last).toMatchObject({ kind: 'transition', data: { event, from: before, to: next } });
  }
}

describe.each(PAIRS)('$event at $phase', ({ phase, event, next }) => {
  const pair = { phase, event, next };
  const sentence = invalidTransitionMessage(phase, event);

  it(`S4 ${event} at ${phase} as a command`, async () => {
    const session = await Session.at(phase, db);
    const answer = await session.raise(event);
    expect(answer['ok']).toBe(next !== undefined);
    await expectJudged(session, answer, pair);
    if (next === undefined) {
      const { phase: at, event: asked } = answer as { phase: Phase; event: PhaseEvent };
      expect(invalidTransitionMessage(at, asked)).toBe(sentence);
    }
  });

  it(`S4 S5 ${event} at ${phase} raised by a tool at its start`, async () => {
    const session = await Session.at(phase, db);
    const run = await session.runWithCalls(['call_1']);
    const answer = await session.beginTool(run, [0, 2, 1], 'call_1', { event, at: 'start', project: null });
    expect(answer['kind']).toBe(next === undefined ? 'refused' : 'begun');
    await expectJudged(session, answer, pair);
    expect((await session.row())['pending_tool'] === null).toBe(next === undefined);
  });

  it(`S4 S5 ${event} at ${phase} raised by a tool at its result`, async () => {
    const session = await Session.at(phase, db);
    const run = await session.runWithCalls(['call_1']);
    await session.beginTool(run, [0, 2, 1], 'call_1');
    const illegal = invalidTransitionMessage('%s' as Phase, event);
    const answer = await session.finishTool(run, [0, 2, 1], 'call_1', { effects: { event }, illegal });
    expect(answer).toMatchObject({ kind: 'settled', ok: next !== undefined, phase: next ?? phase });
    await expectJudged(session, next === undefined ? { ...answer, code: 'InvalidTransition', event } : answer, pair);
    const [part] = await session.parts(run);
    const outcome = next === undefined ? { state: 'output-error', errorText: sentence } : { state: 'output-available' };
    expect(part!['data']).toMatchObject(outcome);
    expect((part!['data'] as Answer)['output']).toBe(next === undefined ? undefined : 'made');
  });

  it(`S4 S5 ${event} at ${phase} that a tool raises at its result is checked before the tool runs`, async () => {
    const session = await Session.at(phase, db);
    const run = await session.runWithCalls(['call_1']);
    const answer = await session.beginTool(run, [0, 2, 1], 'call_1', { event, at: 'result', project: null });
    expect(answer['kind']).toBe(next === undefined ? 'refused' : 'begun');
    expect(await session.phase()).toBe(phase);
  });
});

describe.each(PHASES)('cancel, abort and open at %s', (phase) => {
  it(`S4 S5 cancel at ${phase} with no run in flight`, async () => {
    const session = await Session.at(phase, db);
    const next = nextPhase(phase, 'cancel');
    const answer = await session.cancel('cmd-1');
    await expectJudged(session, answer, { phase, event: 'cancel', next });
    if (next) expect(answer).toMatchObject({ ok: true, cancelled: true, aborted: false, run_seq: null });
    expect((await session.row())['cancel_token']).toBe(next ? 'cmd-1' : null);
  });

  it(`S4 S5 cancel at ${phase} with a run in flight stops the run, whatever the phase`, async () => {
    const session = await Session.at(phase, db);
    await session.say('go on');
    const next = nextPhase(phase, 'cancel');
    const answer = await session.cancel('cmd-1');
    const cancelled = next !== undefined;
    expect(answer).toMatchObject({ ok: true, cancelled, aborted: true, run_seq: 1, phase: next ?? phase });
    expect(await session.run(1)).toMatchObject({ abort_requested_at: expect.any(Date) });
    expect(await session.phase()).toBe(next ?? phase);
    expect((await session.row())['cancel_token']).toBe('cmd-1');
    expect((await session.events()).at(-1)!.kind).toBe(cancelled ? 'transition' : 'abort');
  });

  it(`S4 abort at ${phase} moves no phase and writes no cancel token`, async () => {
    const session = await Session.at(phase, db);
    await session.say('go on');
    const before = await session.row();
    expect(await session.abort()).toMatchObject({ ok: true, aborted: true, run_seq: 1 });
    expect(await session.row()).toEqual(before);
  });

  it(`S4 opening a project at ${phase}`, async () => {
    const session = await Session.at(phase, db);
    const project = newId('prj');
    const next = nextPhase(phase, 'open_existing');
    await expectJudged(session, await session.openExisting(project), { phase, event: 'open_existing', next });
    expect((await session.row())['project_id']).toBe(next ? project : null);
    const opened = await rows(db, 'SELECT FROM projects WHERE project_id = $1', [project]);
    expect(opened).toHaveLength(next ? 1 : 0);
  });

  it(`S3 at ${phase} the phase is checked before the project`, async () => {
    const locked = newId('prj');
    const session = await Session.at(phase, db, { project: locked });
    const before = await session.row();
    const answer = await session.openExisting(newId('prj'));
    if (nextPhase(phase, 'open_existing')) {
      expect(answer).toMatchObject({ ok: false, code: 'ProjectAlreadyLocked', locked_project_id: locked });
    } else {
      expect(answer).toMatchObject({ ok: false, code: 'InvalidTransition', phase, event: 'open_existing' });
    }
    expect(await session.row()).toEqual(before);
  });
});
