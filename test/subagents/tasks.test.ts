// Subagents: what calls of `task` return, and what their sessions are.
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, fail, hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import * as names from '../../workflows/definitions.ts';
import { expectSound } from '../faults/sound.ts';
import { boss, careful, helper } from './agents.ts';
import { children, childrenOf, type Counts, play, runOver, said, untilItWaits, workflowIsOver } from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [boss, helper, careful], settings: { maxSubagents: 3 } });
});

const open = (agent = 'boss') => TestSession.open(runtime, { agent });
const ask = (prompt: string, background?: boolean) =>
  callTool('call_1', 'task', { agent: 'helper', prompt, ...(background !== undefined && { background }) });

it.each([false, true])(
  'P3 P4 a call that asks opens its child once it is approved; background: %j',
  async (background) => {
    runtime.model.script(
      play({
        Parent: [[ask('Child, look.', background)], [say('Done.')]],
        'Child,': [[say('It is green.')]],
        Result: [[]],
      }),
    );
    const session = await open('careful');
    const seq = await session.send('Parent go');
    await eventually(async () => expect((await session.run(seq)).state).toBe('waiting'));
    expect(await children(runtime, session.id)).toEqual([]);
    const { answer_id: answer } = await session.run(seq);
    const call = async () => (await session.parts(answer)).find(({ type }) => type === 'tool-task')!;
    const asked = await call();
    expect(asked).toMatchObject({ state: 'approval-requested', approval: { descriptor: { pattern: 'helper' } } });
    await session.command(names.updates.answer, { tool_call_id: String(asked['toolCallId']), decision: 'once' });
    expect((await session.ended(seq)).state).toBe('finished');
    const [child] = await childrenOf(runtime, session.id);
    expect(await call()).toMatchObject({
      state: 'output-available',
      output: background ? { session_id: child!.id } : { session_id: child!.id, text: 'It is green.' },
    });
    // Or else its turn would be played by the next test's script.
    if (background) await runOver(session, 2);
  },
);

it('P3 P4 the child of a headless session is headless', async () => {
  runtime.model.script(play({ Parent: [[ask('Child, look.')], [say('Done.')]], 'Child,': [[say('It is green.')]] }));
  const session = await open();
  await runtime.db.query('UPDATE chat_sessions SET headless = true WHERE session_id = $1', [session.id]);
  await session.ended(await session.send('Parent go'));
  const [child] = await childrenOf(runtime, session.id);
  const { rows } = await runtime.db.query('SELECT headless FROM chat_sessions WHERE session_id = $1', [child!.id]);
  expect(rows).toEqual([{ headless: true }]);
});

describe('a subagent in the foreground', () => {
  it('P4 works in a session of its own, and its last words are the output of the call', async () => {
    runtime.model.script(
      play({
        Parent: [[say('Let me ask.'), ask('Child, look.')], [say('Done.')]],
        'Child,': [
          [say('Looking.'), callTool('call_1', 'look', { at: 'tea' })],
          [say('It is '), say('green.')],
        ],
      }),
    );
    const session = await open();
    const run = await session.ended(await session.send('Parent go'));
    expect(run.state).toBe('finished');
    const [child] = await childrenOf(runtime, session.id);
    const parts = await session.parts(run.answer_id);
    expect(parts.find(({ type }) => type === 'tool-task')).toMatchObject({
      state: 'output-available',
      output: { session_id: child!.id, text: 'It is green.' },
    });
    const { rows } = await runtime.db.query(
      'SELECT * FROM chat_sessions JOIN sessions USING (session_id) WHERE session_id = $1',
      [child!.id],
    );
    expect(rows[0]).toMatchObject({
      parent_id: session.id,
      parent_message_id: run.answer_id,
      depth: 1,
      user_id: 'ada',
      agent: 'helper',
      metadata: { task: { depth: 1, tool_call_id: expect.stringMatching(/^call_/) as string } },
    });
    const { parentExecution } = // Its turn may be over before its workflow is started.
      (await eventually(() => child!.handle.describe())).raw.workflowExecutionInfo as {
        parentExecution?: { workflowId: string };
      };
    expect(parentExecution?.workflowId).toBe(session.id);
    await eventually(async () => expect((await child!.handle.describe()).status.name).toBe('COMPLETED'));
    expect(await children(runtime, session.id)).toHaveLength(1);
    await expectSound(runtime, session.id);
    await expectSound(runtime, child!.id);
  });

  it('P4 whose turn is over before its parent’s workflow hears of the call has a workflow, too', async () => {
    runtime.model.script(
      play({ Parent: [[say('Hello.')], [ask('Child, look.')], [say('Done.')]], 'Child,': [[say('It is green.')]] }),
    );
    const session = await open();
    await session.ended(await session.send('Parent go'));
    // Accepted as by the client, but its workflow is told later: a worker begins the turn meanwhile.
    const { run, message } = await session.accept('and now');
    runtime.bus.publish({ session: session.id, run, kind: 'accepted' });
    const [child] = await childrenOf(runtime, session.id);
    expect((await child!.ended(1)).state).toBe('finished');
    await session.wake(run, message);
    expect((await session.ended(run)).state).toBe('finished');
    await eventually(async () => expect((await child!.handle.describe()).status.name).toBe('COMPLETED'));
    await expectSound(runtime, child!.id);
  });

  it('P4 a parent that waits holds no activity, and shows which session works', async () => {
    const gate = new Gate();
    runtime.model.script(
      play({
        Parent: [[ask('Child wait')], [say('Done.')]],
        Child: [
          async function* () {
            await gate.pass();
            yield say('There.');
          },
        ],
      }),
    );
    const session = await open();
    const seq = await session.send('Parent go');
    await gate.reached;
    const [child] = await childrenOf(runtime, session.id);
    await untilItWaits(session);
    const { rows } = await runtime.db.query('SELECT progress FROM chat_runs WHERE session_id = $1', [session.id]);
    expect(rows[0]).toMatchObject({ progress: { data: { session_id: child!.id } } });
    expect(await session.handle.query(names.statusQuery)).toMatchObject({ state: 'busy' });
    gate.open();
    expect((await session.ended(seq)).state).toBe('finished');
  });

  it('P4 one that fails is a tool error that says why', async () => {
    runtime.model.script(play({ Parent: [[ask('Child go')], [say('Oh.')]], Child: [[fail(401)]] }));
    const session = await open();
    const run = await session.ended(await session.send('Parent go'));
    expect((await session.parts(run.answer_id)).find(({ type }) => type === 'tool-task')).toMatchObject({
      state: 'output-error',
      errorText: expect.stringMatching(/^The agent failed \(\w+\): /) as string,
    });
    expect(run.state).toBe('finished');
  });

  it('P4 calls of a call work, down to depth 5', async () => {
    const down = [[ask('Child deeper')], [say('up')]];
    const counts: Counts = new Map();
    // Every session below the parent plays the same role: the first five requests go down, the others come back.
    runtime.model.script(
      play(
        { Parent: [[ask('Child deeper')], [say('Done.')]], Child: [...Array(5).fill(down[0]), [say('up')]] as never },
        counts,
      ),
    );
    const session = await open();
    const run = await session.ended(await session.send('Parent go'), 40_000);
    expect(run.state).toBe('finished');
    let at = session;
    for (let depth = 1; depth <= 5; depth += 1) at = (await childrenOf(runtime, at.id))[0]!;
    expect(await children(runtime, at.id)).toEqual([]);
    const { answer_id } = await at.run(1);
    expect((await at.parts(answer_id)).find(({ type }) => type === 'tool-task')).toMatchObject({
      errorText: expect.stringContaining('TooDeep') as string,
    });
  });

  it('P4 a turn calls at most as many as the setting says', async () => {
    runtime.model.script(
      play({
        Parent: [[ask('Child go')], [ask('Child go')], [ask('Child go')], [ask('Child go')], [say('Done.')]],
        Child: [[say('ok')]],
      }),
    );
    const session = await open();
    const run = await session.ended(await session.send('Parent go'));
    const calls = (await session.parts(run.answer_id)).filter(({ type }) => type === 'tool-task');
    expect(calls.map(({ state }) => state)).toEqual([...Array(3).fill('output-available'), 'output-error']);
    expect(calls.at(-1)).toMatchObject({ errorText: expect.stringContaining('TooMany') as string });
    expect(await children(runtime, session.id)).toHaveLength(3);
  });
});

describe('a subagent in the background', () => {
  it('P4 several at once: the turn goes on, and each result starts a turn, once', async () => {
    const gate = new Gate();
    const late = (text: string) =>
      async function* () {
        await gate.pass();
        yield say(text);
      };
    const counts: Counts = new Map();
    runtime.model.script(
      play(
        {
          Parent: [[ask('One go', true), ask('Two go', true)], [say('They work.')], [say('Thanks.')]],
          One: [late('first')],
          Two: [late('second')],
        },
        counts,
      ),
    );
    const session = await open();
    const run = await session.ended(await session.send('Parent go'));
    const calls = (await session.parts(run.answer_id)).filter(({ type }) => type === 'tool-task');
    const found = await childrenOf(runtime, session.id, 2);
    expect(calls.map(({ output }) => output)).toEqual(found.map(({ id }) => ({ session_id: id })));
    gate.open();
    await Promise.all([runOver(session, 2), runOver(session, 3)]);
    const messages = (await said(runtime, session.id)).slice(1);
    expect(new Set(messages.map(({ text }) => text.split('\n').at(-1)))).toEqual(new Set(['first', 'second']));
    expect(messages[0]!.metadata).toMatchObject({ origin: 'task', task: { agent: 'helper', state: 'finished' } });
    expect(counts.get('Parent')).toBe(4);
    await eventually(async () => {
      for (const task of await children(runtime, session.id)) expect(task.delivered_at).not.toBeNull();
    });
    await expectSound(runtime, session.id);
  });

  it('P4 a subagent with a subagent in the background answers when that has', async () => {
    runtime.model.script(
      play({
        Parent: [[ask('Child go')], [say('Done.')]],
        Child: [[ask('Grandchild go', true)], [say('not yet')], [say('now')]],
        Grandchild: [[say('result')]],
      }),
    );
    const session = await open();
    const run = await session.ended(await session.send('Parent go'));
    expect((await session.parts(run.answer_id)).find(({ type }) => type === 'tool-task')).toMatchObject({
      output: { text: 'now' },
    });
  });
});

describe('an abort of the parent', () => {
  it('P4 R4 ends what it waits for, and all that this waits for: "aborted by parent"', async () => {
    runtime.model.script(
      play({
        Parent: [[ask('Child go')], [say('never')]],
        Child: [[ask('Grandchild go')], [say('never')]],
        Grandchild: [[callTool('call_1', 'wait', {})]],
      }),
    );
    const session = await open();
    const seq = await session.send('Parent go');
    const [child] = await childrenOf(runtime, session.id);
    const [grandchild] = await childrenOf(runtime, child!.id);
    await eventually(async () => expect((await grandchild!.row()).pending_tool).not.toBeNull());
    const outcome = await session.command(names.updates.abort);
    expect(outcome).toMatchObject({ aborted: true, run_seq: seq });
    expect(outcome.children.map(({ session_id }) => session_id).toSorted()).toEqual(
      [child!.id, grandchild!.id].toSorted(),
    );
    // In the same transaction.
    for (const each of [child!, grandchild!]) expect((await each.run(1)).state).toBe('aborted');
    const run = await session.ended(seq);
    expect(run.state).toBe('aborted');
    const ended = { state: 'output-error', errorText: 'aborted by parent' };
    for (const [each, answer, tool] of [
      [session, run.answer_id, 'tool-task'],
      [child!, (await child!.run(1)).answer_id, 'tool-task'],
      [grandchild!, (await grandchild!.run(1)).answer_id, 'tool-wait'],
    ] as const) {
      expect((await each.parts(answer)).find(({ type }) => type === tool)).toMatchObject(ended);
    }
    await eventually(async () => {
      for (const each of [child!, grandchild!]) expect(await workflowIsOver(each)).toBe(true);
    });
    await expectSound(runtime, session.id);
  });

  it('P4 without a run ends those in the background, and nothing is injected', async () => {
    runtime.model.script(
      play({ Parent: [[ask('Child go', true)], [say('It works.')]], Child: [[say('Once'), hang()]] }),
    );
    const session = await open();
    const calls = runtime.model.requests.length;
    await session.ended(await session.send('Parent go'));
    const [child] = await childrenOf(runtime, session.id);
    const requests = () => runtime.model.requests.slice(calls);
    await eventually(() => expect(requests()).toHaveLength(3));
    expect(await session.command(names.updates.abort)).toMatchObject({
      aborted: false,
      children: [{ session_id: child!.id }],
    });
    expect((await child!.run(1)).state).toBe('aborted');
    await Promise.all(requests().map(({ ended }) => ended));
    await eventually(async () => expect((await child!.handle.describe()).status.name).toBe('COMPLETED'));
    expect(await said(runtime, session.id)).toHaveLength(1);
    expect(await session.run(2)).toBeUndefined();
  });

  it('P4 of the child alone: the parent is told', async () => {
    runtime.model.script(play({ Parent: [[ask('Child go')], [say('Oh.')]], Child: [[say('Once'), hang()]] }));
    const session = await open();
    const seq = await session.send('Parent go');
    const [child] = await childrenOf(runtime, session.id);
    await eventually(async () => expect((await child!.run(1)).state).toBe('running'));
    await child!.command(names.updates.abort);
    const run = await session.ended(seq);
    expect(run.state).toBe('finished');
    expect((await session.parts(run.answer_id)).find(({ type }) => type === 'tool-task')).toMatchObject({
      errorText: 'aborted by the user',
    });
  });
});
