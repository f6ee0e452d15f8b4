// The questions of subagents, at the sessions above them.
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { eventsOf, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { statusQuery } from '../../workflows/definitions.ts';
import { subagentAgents } from './agents.ts';
import { startWithHost } from './host.ts';
import { childrenOf, play } from './kit.ts';

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
let bob: TestCaller;
beforeAll(async () => {
  ({ runtime, host } = await startWithHost(subagentAgents, ['owner', 'chief']));
  [ada, bob] = [host.as('ada'), host.as('bob')];
});

const ask = (agent: string, prompt: string, background = false) =>
  callTool('call_1', 'task', { agent, prompt, background });
const pay = callTool('call_1', 'pay', { amount: 5 });

interface Asked {
  session_id: string;
  tool_call_id: string;
}

/** A user's session whose child waits for an approval. */
async function waiting({ background = false, deeper = false } = {}) {
  const asks = [[pay], [say('It is done.')]];
  runtime.model.script(
    play({
      Parent: [[ask(deeper ? 'helper' : 'payer', 'Child go', background)], [say('It works.')], [say('Thanks.')]],
      Child: deeper ? [[ask('helper', 'Grandchild go')], [say('Well.')]] : asks,
      Grandchild: asks,
    }),
  );
  const { body } = await ada.post('/api/sessions', { agent: deeper ? 'chief' : 'owner' });
  const session = TestSession.of(runtime, body.session.session_id as string);
  await ada.post(`/api/sessions/${session.id}/messages`, { text: 'Parent go' });
  const [child] = await childrenOf(runtime, session.id);
  const asked = await questions(session, 1);
  return { session, child: child!, asked: asked[0]! };
}

/** The questions that a session shows, once there are so many. */
function questions(session: TestSession, count: number): Promise<Asked[]> {
  return eventually(async () => {
    const { questions: found = [] } = (await ada.get(`/api/sessions/${session.id}/status`)).body as {
      questions?: Asked[];
    };
    expect(found).toHaveLength(count);
    return found;
  });
}

const answer = (session: TestSession, { tool_call_id }: Asked, decision: string, caller = ada) =>
  caller.post(`/api/sessions/${session.id}/answer`, { tool_call_id, decision });

async function callsOf(session: TestSession, run = 1) {
  const { answer_id: id } = await session.run(run);
  return (await session.parts(id)).filter(({ type }) => type.startsWith('tool-'));
}

describe('a question of a child', () => {
  it('H14 is shown by its parent: status, stream and events; and is answered there', async () => {
    const { session, child, asked } = await waiting();
    const { message_id, answer_id } = { ...(await session.run(1)), answer_id: (await child.run(1)).answer_id };
    const { body: status } = await ada.get(`/api/sessions/${session.id}/status`);
    const question = {
      ...{ session_id: child.id, agent: 'payer', message_id: answer_id, tool_call_id: asked.tool_call_id },
      ...{ tool: 'pay', background: false, for: 'approval', pattern: '5', decisions: ['once', 'session', 'reject'] },
    };
    expect(status).toEqual({ state: 'waiting', message_id, questions: [question] });
    expect((await ada.get(`/api/sessions/${session.id}`)).body.status).toEqual(status);
    // Its workflow does not know what its children wait for.
    expect(await session.handle.query(statusQuery)).toMatchObject({ state: 'busy' });
    // Its own status has none: the call is its own.
    expect((await ada.get(`/api/sessions/${child.id}/status`)).body).toMatchObject({ state: 'waiting' });
    const reading = new AbortController();
    const stream = await ada.fetch(`/api/chat/${session.id}/stream`, { signal: reading.signal });
    const told: unknown[] = [];
    for await (const { data } of eventsOf(stream)) {
      const chunk = data as { type: string; data?: { state: string; questions?: unknown } };
      if (chunk.type !== 'data-status') continue;
      told.push(chunk.data);
      if (chunk.data?.questions === undefined) break;
      expect((await answer(session, asked, 'once')).body).toMatchObject({
        ...{ tool_call_id: asked.tool_call_id, decision: 'once', message_id: answer_id, run_seq: null },
        child: { session_id: child.id, run_seq: 1 },
      });
    }
    reading.abort();
    expect(told).toMatchObject([{ state: 'waiting', questions: [question] }, { state: 'busy' }]);
    expect((await session.ended(1)).state).toBe('finished');
    expect((await callsOf(child))[0]).toMatchObject({ state: 'output-available', approval: { approved: true } });
    expect((await callsOf(session))[0]).toMatchObject({ output: { session_id: child.id, text: 'It is done.' } });
    expect((await ada.get(`/api/sessions/${session.id}/status`)).body).toEqual({ state: 'idle' });
    const { body: log } = await ada.get(`/api/sessions/${child.id}/log`);
    expect(log.items).toContainEqual(
      expect.objectContaining({
        kind: 'approval',
        data: { tool_call_id: asked.tool_call_id, decision: 'once', answered_in: session.id },
      }),
    );
  });

  it('H14 of one in the background is shown by its idle parent, whose followers hear of it', async () => {
    const { session, child, asked } = await waiting({ background: true });
    expect((await session.ended(1)).state).toBe('finished');
    const { body } = await ada.get(`/api/sessions/${session.id}/status`);
    expect(body).toMatchObject({ state: 'waiting', questions: [{ session_id: child.id, background: true }] });
    expect(body).not.toHaveProperty('message_id');
    const { body: list } = await ada.get('/api/sessions');
    const listed = (list.items as { session: { session_id: string }; status: { state: string } }[]).find(
      (each) => each.session.session_id === session.id,
    );
    expect(listed?.status.state).toBe('waiting');
    const reading = new AbortController();
    const events = await ada.fetch(`/api/sessions/${session.id}/events`, { signal: reading.signal });
    const states: string[] = [];
    for await (const { event, data } of eventsOf(events)) {
      if (event !== 'status') continue;
      states.push((data as { state: string }).state);
      if (states.length === 1) await answer(session, asked, 'reject');
      else break;
    }
    reading.abort();
    expect(states[0]).toBe('waiting');
    expect(states[1]).not.toBe('waiting');
    await child.ended(1);
    expect((await callsOf(child))[0]).toMatchObject({ state: 'output-denied', approval: { approved: false } });
    await eventually(async () => expect((await session.run(2)).state).toBe('finished'));
  });

  it('H14 of a grandchild is shown and answered in every session above it', async () => {
    const { session, child, asked } = await waiting({ deeper: true });
    const [grandchild] = await childrenOf(runtime, child.id);
    expect(asked.session_id).toBe(grandchild!.id);
    expect(await questions(child, 1)).toEqual([asked]);
    expect((await answer(child, asked, 'session')).status).toBe(200);
    expect((await session.ended(1)).state).toBe('finished');
    // The rule that asked is the root's.
    const rulesOf = async ({ id }: TestSession) =>
      (
        await runtime.db.query<{ permissions: unknown[] }>(
          'SELECT permissions FROM chat_sessions WHERE session_id = $1',
          [id],
        )
      ).rows[0]!.permissions;
    expect(await rulesOf(session)).toMatchObject([{ permission: 'pay', action: 'allow' }]);
    for (const each of [child, grandchild!]) expect(await rulesOf(each)).toEqual([]);
    const { body } = await ada.get(`/api/sessions/${grandchild!.id}/permissions`);
    expect(body.items).toContainEqual(expect.objectContaining({ session_id: session.id, action: 'allow' }));
  });
});

describe('an answer', () => {
  it('H13 H14 counts once, wherever it comes first: the same again is a repeat, another one NotWaiting', async () => {
    const { session, child, asked } = await waiting();
    const both = await Promise.all([answer(session, asked, 'once'), answer(child, asked, 'reject')]);
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 409]));
    const won = both.findIndex(({ status }) => status === 200);
    const decision = won === 0 ? 'once' : 'reject';
    expect(both[1 - won]!.body).toMatchObject({ code: 'NotWaiting' });
    for (const each of [session, child]) {
      expect((await answer(each, asked, decision)).body).toMatchObject({ decision });
      expect((await answer(each, asked, decision === 'once' ? 'reject' : 'once')).body).toMatchObject({
        code: 'NotWaiting',
      });
    }
    expect((await session.ended(1)).state).toBe('finished');
    expect((await callsOf(child))[0]).toMatchObject({ approval: { approved: won === 0 } });
  });

  it('H14 the same key is the same answer; another user’s is 404; a call of nobody is NotWaiting', async () => {
    const { session, child, asked } = await waiting();
    for (const each of [session, child]) expect((await answer(each, asked, 'once', bob)).status).toBe(404);
    expect((await answer(session, { ...asked, tool_call_id: 'call_none' }, 'once')).body).toMatchObject({
      code: 'NotWaiting',
    });
    const path = `/api/sessions/${session.id}/answer`;
    const sent = { tool_call_id: asked.tool_call_id, decision: 'once' };
    const headers = { 'idempotency-key': 'ans-1' };
    const first = await ada.post(path, sent, headers);
    expect(first.status).toBe(200);
    expect((await ada.post(path, sent, headers)).body).toEqual(first.body);
    expect((await session.ended(1)).state).toBe('finished');
  });

  it('P4 is no longer needed when the parent is aborted: the call is denied, and nothing is shown', async () => {
    const { session, child, asked } = await waiting();
    expect((await ada.post(`/api/sessions/${session.id}/abort`, {})).body.children).toHaveLength(1);
    expect((await callsOf(child))[0]).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason: 'aborted by parent' },
    });
    await questions(session, 0);
    const late = (await answer(session, asked, 'once')).body;
    expect(late).toMatchObject({ code: 'NotWaiting', detail: expect.stringContaining('aborted by parent') as string });
    await session.ended(1);
  });

  it('P4 when the child is aborted alone, its parent shows nothing any more', async () => {
    const { session, child } = await waiting();
    await ada.post(`/api/sessions/${child.id}/abort`, {});
    expect((await session.ended(1)).state).toBe('finished');
    await questions(session, 0);
  });

  it('W8 goes through while the child’s workflow is gone', async () => {
    const { session, child, asked } = await waiting();
    await eventually(() => child.handle.terminate());
    expect((await answer(session, asked, 'once')).status).toBe(200);
    expect((await session.ended(1)).state).toBe('finished');
    expect((await callsOf(child))[0]).toMatchObject({ state: 'output-available' });
  });
});
