// What a subagent may do: at most what the sessions above it may.
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import * as names from '../../workflows/definitions.ts';
import { subagentAgents } from './agents.ts';
import { childrenOf, play, runOver, untilItWaits } from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: subagentAgents });
});

const ask = (agent: string, prompt: string) => callTool('call_1', 'task', { agent, prompt });
const pay = callTool('call_1', 'pay', { amount: 5 });
const look = callTool('call_1', 'look', { at: 'tea' });

/** An answer of the model that waits for the test. */
const after = (gate: Gate, action: ModelAction) =>
  async function* () {
    await gate.pass();
    yield action;
  };

/** The calls of a session's run. */
async function callsOf(session: TestSession, run = 1) {
  const { answer_id: answer } = await session.run(run);
  return (await session.parts(answer)).filter(({ type }) => type.startsWith('tool-'));
}

/** The call by which a session waits, once it does. */
function asking(session: TestSession) {
  return eventually(async () => {
    expect(await session.run(1)).toMatchObject({ state: 'waiting' });
    const found = (await callsOf(session)).find(({ state }) => state === 'approval-requested');
    if (found === undefined) throw new Error('no call asks');
    return found as typeof found & { toolCallId: string; approval: { descriptor: Record<string, unknown> } };
  });
}

const answer = (
  session: TestSession,
  { toolCallId }: { toolCallId: string },
  decision: 'once' | 'session' | 'always',
) => session.command(names.updates.answer, { tool_call_id: toolCallId, decision });

it('P4 a parent’s deny stands in its child and grandchild, and the part names the rule and whose it is', async () => {
  runtime.model.script(
    play({
      Parent: [[ask('helper', 'Child go')], [say('Done.')]],
      Child: [[look], [ask('helper', 'Grandchild go')], [say('no')]],
      Grandchild: [[look], [say('no')]],
    }),
  );
  const session = await TestSession.open(runtime, { agent: 'chief' });
  // A newer build may have made a rule above.
  const other = { rule_id: 'rul_new', permission: 'pay', pattern: '6', action: 'allow', source: 'session', note: [1] };
  await runtime.db.query('UPDATE chat_sessions SET permissions = $2 WHERE session_id = $1', [
    ...[session.id, JSON.stringify([other])],
  ]);
  await session.ended(await session.send('Parent go'));
  const [child] = await childrenOf(runtime, session.id);
  const [grandchild] = await childrenOf(runtime, child!.id);
  for (const each of [child!, grandchild!]) {
    expect((await callsOf(each))[0]).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason: 'a rule of the manifest of a session above denies it' },
      callProviderMetadata: {
        perdure: { permission: { rule: 'manifest-1', scope: 'manifest', session_id: session.id, decision: 'deny' } },
      },
    });
  }
});

it('P4 P3 a parent’s ask stands; "for this session" makes a rule in each session that asks, which a moment later counts', async () => {
  runtime.model.script(
    play({
      Parent: [[ask('payer', 'Child go')], [say('Done.')]],
      Child: [[pay], [pay], [pay], [say('paid')]],
    }),
  );
  const session = await TestSession.open(runtime, { agent: 'chief' });
  const run = await session.send('Parent go');
  const [child] = await childrenOf(runtime, session.id);
  const first = await asking(child!);
  // Of two that are as strict, the nearest decides.
  expect(first.approval.descriptor).toMatchObject({
    rule: 'manifest-0',
    scope: 'manifest',
    asking: [child!.id, session.id],
  });
  expect(first.approval.descriptor).not.toHaveProperty('session_id');
  // Before the second call, the parent's new rule is taken back: it asks again, the child does not.
  const rule = `rul_${first.toolCallId}`;
  const gate = new Gate();
  runtime.model.script(play({ Child: [after(gate, pay), [pay], [say('paid')]], Parent: [[say('Done.')]] }));
  await answer(child!, first, 'session');
  const { rows } = await runtime.db.query('SELECT revoke_rule($1, $2, $3) AS scope', [session.id, 'ada', rule]);
  expect(rows).toEqual([{ scope: 'session' }]);
  gate.open();
  const second = await eventually(async () => {
    const asked = await asking(child!);
    if (asked.toolCallId === first.toolCallId) throw new Error('the first call still asks');
    return asked;
  });
  expect(second.approval.descriptor).toMatchObject({ session_id: session.id, asking: [session.id] });
  await answer(child!, second, 'session');
  expect((await session.ended(run)).state).toBe('finished');
  const calls = await callsOf(child!);
  expect(calls.map(({ state }) => state)).toEqual(Array(3).fill('output-available'));
  const decisions = calls.map(
    ({ callProviderMetadata }) =>
      (callProviderMetadata as { perdure: { permission: { decision: string } } }).perdure.permission.decision,
  );
  expect(decisions).toEqual(['session', 'session', 'allow']);
});

it('P4 what a session above denies, no rule of the child allows', async () => {
  const gate = new Gate();
  runtime.model.script(
    play({ Parent: [[ask('payer', 'Child go')], [say('Done.')]], Child: [after(gate, look), [say('no')]] }),
  );
  const session = await TestSession.open(runtime, { agent: 'chief' });
  const run = await session.send('Parent go');
  const [child] = await childrenOf(runtime, session.id);
  const allows = { rule_id: 'rul_own', permission: 'look', pattern: '*', action: 'allow', source: 'session' };
  await runtime.db.query('UPDATE chat_sessions SET permissions = $2 WHERE session_id = $1', [
    child!.id,
    JSON.stringify([allows]),
  ]);
  gate.open();
  await session.ended(run);
  expect((await callsOf(child!))[0]).toMatchObject({ state: 'output-denied' });
});

it('P3 P4 a child of a headless session is denied what a session above asks for', async () => {
  runtime.model.script(
    play({ Parent: [[ask('helper', 'Child go')], [say('Done.')]], Child: [[pay], [say('not paid')]] }),
  );
  const session = await TestSession.open(runtime, { agent: 'chief' });
  await runtime.db.query('UPDATE chat_sessions SET headless = true WHERE session_id = $1', [session.id]);
  await session.ended(await session.send('Parent go'));
  const [child] = await childrenOf(runtime, session.id);
  expect((await callsOf(child!))[0]).toMatchObject({
    state: 'output-denied',
    approval: { reason: 'it needs an approval, and nobody can be asked in this session' },
  });
});

it('P4 the calls of a child below an agent that is not configured any more are denied', async () => {
  const gate = new Gate();
  runtime.model.script(
    play({
      Parent: [[ask('helper', 'Child go')], [say('Done.')]],
      Child: [after(gate, pay), [say('not paid')]],
    }),
  );
  const session = await TestSession.open(runtime, { agent: 'owner' });
  await session.send('Parent go');
  const [child] = await childrenOf(runtime, session.id);
  // Until then the parent's own call needs the agent.
  await untilItWaits(session);
  await runtime.db.query(`UPDATE chat_sessions SET agent = 'gone' WHERE session_id = $1`, [session.id]);
  gate.open();
  await runOver(child!, 1);
  expect((await callsOf(child!))[0]).toMatchObject({
    state: 'output-denied',
    approval: { reason: expect.stringContaining('not configured') as string },
  });
});
