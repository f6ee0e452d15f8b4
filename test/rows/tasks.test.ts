// Subagents in the rows: spawning once, results once, and what ends a child.
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { STEP, TOOL } from './asking.ts';
import { type Asked, childOf, parentAndChild as family, spawn, withCall } from './family.ts';
import { type Answer, call, freshRows, rows, Session, textPart, toolPart } from './session.ts';

let db: pg.Pool;
beforeAll(async () => {
  db = await freshRows();
});

/** A session of this file with a child. */
const parentAndChild = (asked: Asked = {}, calls?: readonly string[]) => family(db, asked, calls && { calls });

const deliver = (child: Session, message: object | null = null) =>
  call<Answer & { run_seq: number }>(db, 'deliver_task', [child.id, message && JSON.stringify(message)]);
const message = () => ({
  ...{ id: newId('msg'), answer_id: newId('msg'), metadata: { origin: 'task' } },
  parts: [{ id: newId('prt'), type: 'text', data: { type: 'text', text: 'the result' } }],
});

/** Answers the child's only message. */
async function answer(child: Session, text = 'green', tokens = 1): Promise<void> {
  const fence: Fence = [0, 1, 1];
  await child.claim(1, fence);
  const parts = [toolPart('call_c', 0, 'output-available'), { ...textPart(1, text), settled: true }];
  await child.settleStep(1, fence, { parts, end: true });
  await rows(db, 'UPDATE chat_runs SET tokens = $2 WHERE session_id = $1', [child.id, tokens]);
}

const task = async (child: Session) => (await rows(db, 'SELECT * FROM tasks WHERE child_id = $1', [child.id]))[0]!;

describe('spawn_task', () => {
  it('P4 opens one child per call, whatever is repeated, under the fence', async () => {
    const { parent, run, child } = await parentAndChild();
    expect(await spawn(parent, run, 'call_1')).toMatchObject({ kind: 'waiting', session_id: child.id, is_new: false });
    expect(await spawn(parent, run, 'call_1', { fence: STEP })).toEqual({ kind: 'lost' });
    expect(await spawn(parent, run, 'call_none')).toEqual({ kind: 'lost' });
    expect(await rows(db, 'SELECT FROM chat_sessions WHERE parent_id = $1', [parent.id])).toHaveLength(1);
    expect(await child.runs()).toMatchObject([{ seq: 1, state: 'queued', model: 'test/fallback' }]);
    expect(await child.chat()).toMatchObject({
      depth: 1,
      workspace_root: '/w',
      metadata: { task: { tool_call_id: 'call_1', depth: 1 } },
    });
    expect((await parent.run(run))['progress']).toEqual({ tool_call_id: 'call_1', data: { session_id: child.id } });
  });

  it('P4 a repeat of the settled call names the child whose workflow may not have been started', async () => {
    const { parent, run, child } = await parentAndChild({ background: true });
    await parent.finishTool(run, TOOL, 'call_1');
    const settled = { kind: 'settled', child: { session_id: child.id, agent: 'helper' } };
    expect(await parent.beginTool(run, [0, 3, 1], 'call_1')).toMatchObject(settled);
    expect(await parent.finishTool(run, TOOL, 'call_1')).toMatchObject(settled);
    // A head start of the child may be over before its parent's workflow hears of it.
    await answer(child);
    await deliver(child, message());
    expect(await parent.beginTool(run, [0, 3, 1], 'call_1')).toMatchObject(settled);
    await call<Answer>(db, 'erase_session', [child.id, 'ada', 'home', false]);
    expect(await parent.beginTool(run, [0, 3, 1], 'call_1')).not.toHaveProperty('child');
  });

  it('P4 by two attempts at once: one child', async () => {
    const parent = await Session.at('chatting', db);
    const run = await parent.runWithCalls(['call_1'], STEP);
    await parent.beginTool(run, TOOL, 'call_1');
    const both = await Promise.all([spawn(parent, run, 'call_1'), spawn(parent, run, 'call_1')]);
    expect(new Set(both.map(({ session_id }) => session_id)).size).toBe(1);
    expect(both.filter(({ is_new }) => is_new === true)).toHaveLength(1);
  });

  it('P4 not once the run is to be aborted', async () => {
    const parent = await Session.at('chatting', db);
    const run = await parent.runWithCalls(['call_1'], STEP);
    await parent.beginTool(run, TOOL, 'call_1');
    await parent.abort();
    expect(await spawn(parent, run, 'call_1')).toEqual({ kind: 'abort' });
    expect(await rows(db, 'SELECT FROM tasks WHERE parent_id = $1', [parent.id])).toEqual([]);
  });

  it('P4 not more per turn than the limit, and not at depth 5', async () => {
    const { parent, run } = await parentAndChild({ maxChildren: 1, background: true }, ['call_1', 'call_2']);
    expect(await spawn(parent, run, 'call_2', { maxChildren: 1 })).toEqual({ kind: 'refused', code: 'TooMany' });
    await rows(db, 'UPDATE chat_sessions SET depth = 5 WHERE session_id = $1', [parent.id]);
    expect(await spawn(parent, run, 'call_2')).toEqual({ kind: 'refused', code: 'TooDeep' });
  });
});

describe('a child', () => {
  it('P4 H14 takes messages from nobody else', async () => {
    const { child } = await parentAndChild();
    const [asked] = await child.messages();
    const id = String(asked!['id']);
    const refused = { ok: false, code: 'ChildSession' };
    expect(await child.say('hello', { metadata: { origin: 'task' } })).toEqual(refused);
    expect(await child.edit(id, 'else')).toEqual(refused);
    expect(await child.regenerate(id)).toEqual(refused);
    expect(await child.rewind(id)).toMatchObject(refused);
  });

  it('P4 that is over tells the call what it said after its last tool call', async () => {
    const { parent, run, child } = await parentAndChild();
    expect(await deliver(child)).toEqual({ kind: 'early' });
    await answer(child, 'green');
    expect(await deliver(child)).toMatchObject({
      kind: 'tell',
      session_id: parent.id,
      run_seq: run,
      background: false,
    });
    expect(await spawn(parent, run, 'call_1')).toMatchObject({ kind: 'over', state: 'finished', text: 'green' });
    await parent.finishTool(run, TOOL, 'call_1');
    await deliver(child);
    expect((await task(child))['due_at']).toBeNull();
  });

  it('P4 in the background: its result is injected once, by whomever', async () => {
    const { parent, run, child } = await parentAndChild({ background: true });
    await answer(child, 'green');
    expect(await deliver(child)).toMatchObject({ kind: 'inject', text: 'green', state: 'finished' });
    const both = await Promise.all([deliver(child, message()), deliver(child, message())]);
    expect(both.map(({ run_seq }) => run_seq)).toEqual([run + 1, run + 1]);
    expect(await parent.messages()).toHaveLength(3);
    expect(await task(child)).toMatchObject({ due_at: null, message_id: expect.any(String) as string });
  });

  it('P4 in the background: a session that waits for a message in place of a rewound one gets the result after that', async () => {
    const { parent, run, child } = await parentAndChild({ background: true });
    await parent.finishTool(run, TOOL, 'call_1');
    await parent.settleStep(run, TOOL, { step: 1, end: true });
    await parent.say('second', { id: 'second' });
    await answer(child);
    await parent.rewind('second', { abort: true });
    expect(await deliver(child)).toEqual({ kind: 'later' });
    await parent.say('other', { id: 'other' });
    expect(await deliver(child, message())).toMatchObject({ kind: 'tell' });
  });

  it('P4 is over when its own children in the background are', async () => {
    const { child } = await parentAndChild();
    const grandchild = await childOf(child);
    await child.finishTool(1, TOOL, 'call_g');
    await child.settleStep(1, TOOL, { step: 1, end: true });
    expect(await deliver(child)).toEqual({ kind: 'early' });
    await answer(grandchild);
    expect(await deliver(grandchild, message())).toMatchObject({ session_id: child.id, run_seq: 2 });
    expect(await deliver(child)).toEqual({ kind: 'early' });
    await child.answer(2, [0, 3, 1]);
    expect(await deliver(child)).toMatchObject({ kind: 'tell' });
  });
});

describe('permissions', () => {
  const ALLOWED = { action: 'allow', record: {} };
  const rulesOf = async (session: Session, run: number, callId: string) => {
    const { rules, above } = await call<Answer>(db, 'load_tool_call', [session.id, run, callId]);
    return { rules, above };
  };

  it('P4 P3 a call begins only under the rules that hold now in all sessions above it', async () => {
    const { parent, child } = await parentAndChild();
    const grandchild = await childOf(child);
    await withCall(grandchild, 'call_x');
    const known = await rulesOf(grandchild, 1, 'call_x');
    const seen = { agent: 'helper', has_project: false, rules: [] };
    expect(known).toEqual({
      rules: [],
      above: [
        { session_id: child.id, ...seen },
        { session_id: parent.id, ...seen, agent: 'site-builder' },
      ],
    });
    await rows(db, 'SELECT put_rule($1, false, $2, $3, $4)', [parent.id, 'rul_1', 'pay', '5']);
    const begin = (permission: object) => grandchild.beginTool(1, TOOL, 'call_x', { project: null, permission });
    const before = await grandchild.everything();
    const refused = await begin({ ...known, ...ALLOWED });
    expect(refused).toMatchObject({ kind: 'rules', rules: [] });
    expect(refused['above']).toMatchObject([{ rules: [] }, { rules: [{ rule_id: 'rul_1', source: 'session' }] }]);
    expect(await grandchild.everything()).toEqual(before);
    expect(await begin({ rules: [], above: refused['above'], ...ALLOWED })).toMatchObject({ kind: 'begun' });
  });

  it('P4 an answer that makes a rule above, and an abort there at once deadlock nothing', async () => {
    for (let n = 0; n < 10; n += 1) {
      const { parent, child } = await parentAndChild();
      await withCall(child, 'call_x');
      const descriptor = {
        ...{ permission: 'pay', pattern: '5', rule: 'manifest-0', scope: 'manifest' },
        ...{ decisions: ['once', 'session', 'reject'], session_id: parent.id, asking: [child.id, parent.id] },
      };
      const permission = {
        ...(await rulesOf(child, 1, 'call_x')),
        ...{ action: 'ask', record: {}, approval: { id: 'call_x', descriptor } },
      };
      expect(await child.beginTool(1, TOOL, 'call_x', { project: null, permission })).toMatchObject({
        kind: 'waiting',
      });
      const args = { tool_call_id: 'call_x', decision: 'session' };
      const [there, here, abort] = await Promise.all([
        child.apply('answer', args),
        parent.apply('answer', args),
        parent.abort(),
      ]);
      expect(abort).toMatchObject({ ok: true });
      // Both say the same, so both count; unless the abort came first.
      for (const each of [there, here]) expect(each['ok'] === true || each['code'] === 'NotWaiting').toBe(true);
      const made = (await parent.chat())['permissions'] as unknown[];
      expect(made).toHaveLength(there['ok'] === true || here['ok'] === true ? 1 : 0);
      expect(await child.run(1)).toMatchObject({ state: 'aborted' });
    }
  });
});

describe('limits', () => {
  it('R7 P4 a turn’s tokens are those of its children, and no child has more than is left', async () => {
    const { parent, run, child } = await parentAndChild({ background: true, tokenLimit: 100 }, ['call_1', 'call_2']);
    await parent.finishTool(run, TOOL, 'call_1');
    await parent.beginTool(run, [0, 3, 1], 'call_2');
    const { session_id } = await spawn(parent, run, 'call_2', { background: true, tokenLimit: 100, fence: [0, 3, 1] });
    await answer(child, 'green', 60);
    await parent.finishTool(run, [0, 3, 1], 'call_2');
    expect(await parent.claim(run, [0, 4, 1], 1)).toMatchObject({ tokens: 61, tokens_left: null });
    expect(await new Session(db, session_id).claim(1, [0, 1, 1])).toMatchObject({ tokens: 0, tokens_left: 39 });
  });

  it('R7 P4 the time that a turn waits for a child is not the turn’s', async () => {
    const { parent, run, child } = await parentAndChild();
    await rows(db, `UPDATE chat_runs SET started_at = now() - interval '1 hour' WHERE session_id = $1`, [parent.id]);
    await rows(db, `UPDATE tasks SET created_at = now() - interval '59 minutes' WHERE child_id = $1`, [child.id]);
    await answer(child);
    await parent.finishTool(run, TOOL, 'call_1');
    const { elapsed_ms } = (await parent.claim(run, [0, 3, 1], 1)) as { elapsed_ms: number };
    expect(elapsed_ms).toBeGreaterThanOrEqual(59_000);
    expect(elapsed_ms).toBeLessThan(30 * 60_000);
  });
});

describe('what happens to the parent', () => {
  const ended = { state: 'output-error', errorText: 'aborted by parent' };

  it.each(['abort', 'cancel', 'close'] as const)('P4 %s ends its child in the same transaction', async (name) => {
    const { parent, run, child } = await parentAndChild();
    await child.claim(1, [0, 1, 1]);
    await child.append(1, [0, 1, 1], [toolPart('call_c', 0)]);
    const outcome = await parent.apply(name, { abort: true });
    const { id } = (await child.messages())[0]!;
    expect(outcome).toMatchObject({ ok: true, children: [{ session_id: child.id, run_seq: 1, message_id: id }] });
    expect(await child.run(1)).toMatchObject({ state: 'aborted' });
    expect((await child.parts(1)).map(({ data }) => data)).toMatchObject([ended]);
    expect((await parent.parts(run)).map(({ data }) => data)).toMatchObject([ended]);
    expect(await child.settleStep(1, [0, 1, 1], { end: true })).toEqual({ kind: 'lost' });
  });

  it('P4 S9 a close without abort is RunInFlight while a child works', async () => {
    const { parent, run } = await parentAndChild({ background: true });
    await parent.finishTool(run, TOOL, 'call_1');
    await parent.settleStep(run, TOOL, { step: 1, end: true });
    expect(await parent.close()).toMatchObject({ ok: false, code: 'RunInFlight' });
    expect(await parent.close(true)).toMatchObject({ ok: true, aborted: false, children: [{}] });
  });

  it('P4 X1 a rewind, an edit and a new answer end the children that were called after the message, and drop results', async () => {
    for (const goBack of ['rewind', 'edit', 'regenerate', 'none'] as const) {
      const { parent, run, child } = await parentAndChild({ background: true });
      await parent.finishTool(run, TOOL, 'call_1');
      await parent.settleStep(run, TOOL, { step: 1, end: true });
      const { message_id: first } = (await parent.run(run)) as { message_id: string };
      await parent.say('second', { id: 'second' });
      const done = {
        rewind: () => parent.rewind(first, { abort: true }),
        edit: () => parent.edit(first, 'else'),
        regenerate: () => parent.regenerate(first),
        // The child was called before this message.
        none: () => parent.edit('second', 'else'),
      }[goBack];
      const outcome = await done();
      expect(await child.run(1)).toMatchObject({ state: goBack === 'none' ? 'queued' : 'aborted' });
      if (goBack === 'none') continue;
      expect(outcome).toMatchObject({ children: [{ session_id: child.id }] });
      expect(await deliver(child, message())).toEqual({ kind: 'none' });
    }
  });

  it.each<[string, (parent: Session, target: string) => Promise<Answer>]>([
    ['a rewind', (parent, target) => parent.rewind(target, { abort: true })],
    ['an edit', (parent, target) => parent.edit(target, 'else')],
    ['a new answer', (parent, target) => parent.regenerate(target)],
  ])('P4 X1 a result that %s takes out of the queue comes again, unless its call is hidden', async (what, goBack) => {
    for (const target of ['first', 'second']) {
      const { parent, run, child } = await parentAndChild({ background: true });
      await parent.finishTool(run, TOOL, 'call_1');
      await parent.settleStep(run, TOOL, { step: 1, end: true });
      const { message_id: first } = (await parent.run(run)) as { message_id: string };
      const { run_seq: second } = (await parent.say('second', { id: 'second' })) as { run_seq: number };
      await parent.claim(second, [0, second, 1]);
      await answer(child, 'green');
      const { run_seq: result } = await deliver(child, message());
      expect(await goBack(parent, target === 'first' ? first : target)).toMatchObject({ ok: true });
      expect(await parent.run(result)).toMatchObject({ state: 'cancelled' });
      if (target === 'first') {
        expect(await task(child), 'its call is hidden').toMatchObject({ due_at: null, delivered_at: expect.any(Date) });
        continue;
      }
      expect(await task(child), 'the sweeper looks at it').toMatchObject({ due_at: expect.any(Date) });
      if (what === 'a rewind') {
        expect(await deliver(child)).toEqual({ kind: 'later' });
        await parent.say('third', { id: 'third' });
      }
      expect(await deliver(child)).toMatchObject({ kind: 'inject', text: 'green' });
      const again = await deliver(child, message());
      const newest = (await parent.runs()).at(-1)!;
      expect(again).toMatchObject({ kind: 'tell', run_seq: newest['seq'] });
      expect(newest).toMatchObject({ state: 'queued' });
    }
  });

  it('P4 X1 a result to which a rewind goes back while it is queued is that message, and comes no second time', async () => {
    const { parent, run, child } = await parentAndChild({ background: true });
    await parent.finishTool(run, TOOL, 'call_1');
    await parent.settleStep(run, TOOL, { step: 1, end: true });
    await answer(child);
    const result = message();
    await deliver(child, result);
    expect(await parent.rewind(result.id, { abort: true })).toMatchObject({ ok: true });
    expect(await task(child)).toMatchObject({ message_id: result.id });
  });

  it('P4 an error of its turn ends what it waits for, and nothing in the background', async () => {
    const { parent, run, child } = await parentAndChild({ background: true }, ['call_1', 'call_2']);
    await parent.finishTool(run, TOOL, 'call_1');
    await parent.beginTool(run, [0, 3, 1], 'call_2');
    const { session_id } = await spawn(parent, run, 'call_2', { fence: [0, 3, 1] });
    expect(await parent.settleRun(run, 'error')).toMatchObject({
      state: 'error',
      children: [{ session_id, run_seq: 1 }],
    });
    expect(await parent.settleRun(run, 'error')).not.toHaveProperty('children');
    expect(await child.run(1)).toMatchObject({ state: 'queued' });
    expect(await new Session(db, session_id).run(1)).toMatchObject({ state: 'aborted' });
  });

  it('P4 a step that ends a child’s run as an error ends its own children, and names them', async () => {
    const { child } = await parentAndChild();
    const grandchild = await childOf(child);
    await child.finishTool(1, TOOL, 'call_g');
    const failure = { code: 'LimitReached', message: 'too long', toolError: 'the turn is over' };
    expect(await child.settleStep(1, TOOL, { step: 1, end: true, failure })).toMatchObject({
      ...{ kind: 'settled', state: 'error' },
      children: [{ session_id: grandchild.id, run_seq: 1 }],
    });
    expect(await grandchild.run(1)).toMatchObject({ state: 'aborted' });
  });

  it('P4 T9 an erasure erases its children; that of a child alone is told to the parent', async () => {
    const { parent, run, child } = await parentAndChild();
    const erase = (session: Session) => call<Answer>(db, 'erase_session', [session.id, 'ada', 'home', false]);
    expect(await erase(child)).toMatchObject({ sessions: [child.id] });
    expect(await spawn(parent, run, 'call_1')).toMatchObject({ kind: 'over', state: 'erased' });
    expect(await deliver(child)).toMatchObject({ kind: 'tell', session_id: parent.id });
    const another = await parentAndChild();
    expect((await erase(another.parent))['sessions']).toEqual([another.parent.id, another.child.id].toSorted());
    expect(await task(another.child)).toBeUndefined();
  });

  it('P4 an abort and the end of a child at once deadlock nothing', async () => {
    for (let n = 0; n < 10; n += 1) {
      const { parent, child } = await parentAndChild();
      await child.claim(1, [0, 1, 1]);
      await Promise.all([parent.abort(), child.settleStep(1, [0, 1, 1], { end: true }), deliver(child)]);
      expect(['finished', 'aborted']).toContain((await child.run(1))['state']);
    }
  });
});

describe('the sweeper', () => {
  it('P4 claims what nobody has told of two seconds after the end, one at a time', async () => {
    const { child } = await parentAndChild();
    await answer(child);
    expect(await call(db, 'claim_due_tasks', [50])).not.toContain(child.id);
    await rows(db, `UPDATE tasks SET due_at = now() WHERE child_id = $1`, [child.id]);
    const both = await Promise.all([1, 2].map(() => call<string[]>(db, 'claim_due_tasks', [50])));
    expect(both.flat().filter((id) => id === child.id)).toHaveLength(1);
  });
});
