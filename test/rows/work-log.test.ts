// Who did a step or a tool call, as it is noted when that is settled.
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { readTurns } from '../../store/console-turns.ts';
import { freshRows, rows, Session, toolPart } from './session.ts';

const db = await freshRows();

const work = (more: object = {}) => ({ worker: randomUUID(), attempt: 1, ms: 120, ...more });
const noted = ({ id }: Session) =>
  rows(db, 'SELECT step, tool_call_id, worker, fence, attempt, ms, first_ms FROM work_log WHERE session_id = $1', [id]);

it('W6 R2 a settled step is noted once with its worker and fence, and an overtaken attempt notes nothing', async () => {
  const session = await Session.saying(db, 'hello');
  await session.claim(1, [0, 1, 1]);
  await session.claim(1, [0, 1, 2]);
  const [late, last] = [work(), work({ attempt: 2, first_ms: 40 })];
  expect(await session.settleStep(1, [0, 1, 1], { work: late, end: true })).toEqual({ kind: 'lost' });
  expect(await noted(session)).toEqual([]);
  await session.settleStep(1, [0, 1, 2], { work: last, end: true });
  // It has lost the response.
  await session.settleStep(1, [0, 1, 2], { work: work(), end: true });
  expect(await noted(session)).toEqual([{ ...last, step: 0, tool_call_id: '', fence: [0, 1, 2] }]);
  const { items } = await readTurns(db, session.id, { limit: 1 });
  expect(items).toMatchObject([
    { run_seq: 1, text: 'hello', steps: [{ step: 0, work: { ...last, fence: [0, 1, 2] } }] },
  ]);
  // The answer's metadata, which users get, does not say which worker it was.
  expect(JSON.stringify(await session.messages())).not.toContain(last.worker);
});

it('W6 a tool call is noted with the step that called it', async () => {
  const session = await Session.at('chatting', db);
  const run = await session.runWithCalls(['call_1', 'call_2'], [0, 1, 1]);
  await session.beginTool(run, [0, 2, 1], 'call_1');
  const done = work();
  await session.finishTool(run, [0, 2, 1], 'call_1', { effects: { state: [], work: { ...done, step: 0 } } });
  await session.beginTool(run, [0, 3, 1], 'call_2');
  await session.finishTool(run, [0, 3, 1], 'call_2', { effects: { state: [] } });
  expect(await noted(session)).toEqual([
    { ...done, step: 0, tool_call_id: 'call_1', fence: [0, 2, 1], first_ms: null },
  ]);
  const { items } = await readTurns(db, session.id, { limit: 1 });
  expect(items[0]!.calls).toMatchObject([
    { tool_call_id: 'call_1', name: 'build_and_deploy', state: 'output-available', step: 0, work: done },
    { tool_call_id: 'call_2', name: 'build_and_deploy', state: 'output-available', step: null, work: null },
  ]);
});

it('W6 turns from before steps and calls were noted have no worker, and are not made up', async () => {
  const session = await Session.saying(db, 'hello');
  await session.claim(1, [0, 1, 1]);
  await session.settleStep(1, [0, 1, 1], { parts: [toolPart('call_1', 0)], end: true });
  const { items } = await readTurns(db, session.id, { limit: 1 });
  expect(items[0]).toMatchObject({ steps: [{ work: null }], calls: [{ step: null, work: null }] });
});
