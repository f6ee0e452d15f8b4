// Workers with subagents that are killed, frozen, replaced, and whose workflows are terminated: nothing is lost, and nothing
// happens twice.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { subagentAgents } from '../subagents/agents.ts';
import { childrenOf, said, workflowIsOver } from '../subagents/kit.ts';
import faultAgent, { effects } from './agent.ts';
import { expectOnce, treeModel, whileStreaming } from './subagents.ts';
import { type CrashPoint, startWorkerProcess, WHEN_LOST } from './worker-process.ts';

const agents = [faultAgent, ...subagentAgents];
const SIGNALS = ['SIGKILL', 'SIGSTOP'] as const;

const open = (runtime: TestRuntime) => TestSession.open(runtime, { agent: 'owner' });

/** The call by which a child waits, once it does. */
function asking(runtime: TestRuntime, child: TestSession): Promise<string> {
  return eventually(async () => {
    const { rows } = await runtime.db.query<{ call: string }>(
      `SELECT waiting ->> 'tool_call_id' AS call FROM chat_runs WHERE session_id = $1 AND state = 'waiting'`,
      [child.id],
    );
    if (rows[0] === undefined) throw new Error('it does not wait yet');
    return rows[0].call;
  });
}

const POINTS: readonly CrashPoint[] = [
  { after: 'begin_tool' },
  { before: 'spawn_task' },
  { after: 'spawn_task' },
  { before: 'finish_tool' },
  { after: 'finish_tool' },
];

describe.each(SIGNALS)('a worker that gets %s while it calls a child', (signal) => {
  const cases: { session: TestSession; role: 'Foreground' | 'Background' }[] = [];
  let runtime: TestRuntime;
  let lost: Awaited<ReturnType<typeof startWorkerProcess>>;
  beforeAll(async () => {
    runtime = await startRuntime({ agents, settings: WHEN_LOST, script: treeModel(new Gate()) });
    await runtime.first.stop();
    const crashesAt: Record<string, CrashPoint> = {};
    for (const role of ['Foreground', 'Background'] as const) {
      for (const point of POINTS) {
        const session = await open(runtime);
        cases.push({ session, role });
        crashesAt[session.id] = point;
      }
    }
    lost = await startWorkerProcess(runtime, { crashesAt, signal });
    afterFile(lost.stop);
    const sent = cases.map(({ session, role }) => session.send(`${role} go`));
    // That worker is lost when all have arrived at their points.
    const log = path.join(runtime.workspaces, 'worker.log');
    await eventually(
      async () => {
        const lines = (await readFile(log, 'utf8')).split('\n');
        expect(lines.filter((line) => line.includes('"arrived"'))).toHaveLength(cases.length);
      },
      { timeout: 60_000 },
    );
    await runtime.startWorker();
    await Promise.all(sent);
  });

  it.each(['Foreground', 'Background'] as const)('P4 R3 %s: one child and one outcome', async (role) => {
    for (const each of cases) if (each.role === role) await expectOnce(runtime, each.session, role);
  });

  it('P4 T5 and that goes on later changes nothing', async () => {
    if (signal === 'SIGSTOP') process.kill(lost.pid, 'SIGCONT');
    await lost.stop();
    for (const { session, role } of cases) await expectOnce(runtime, session, role);
  });
});

describe.each(SIGNALS)('a worker that gets %s while its children work', (signal) => {
  const gate = new Gate();
  let runtime: TestRuntime;
  let tree: TestSession;
  let paying: TestSession;
  let lost: Awaited<ReturnType<typeof startWorkerProcess>>;
  beforeAll(async () => {
    runtime = await startRuntime({ agents, settings: WHEN_LOST, script: treeModel(gate) });
    await runtime.first.stop();
    lost = await startWorkerProcess(runtime);
    afterFile(lost.stop);
    [tree, paying] = [await open(runtime), await open(runtime)];
    await Promise.all([tree.send('Tree go'), paying.send('Asking go')]);
    await whileStreaming(runtime, tree);
    await asking(runtime, (await childrenOf(runtime, paying.id))[0]!);
    process.kill(lost.pid, signal);
    await runtime.startWorker();
  });

  it('P4 W6 those in the foreground and in the background go on, and each result comes once', async () => {
    gate.open();
    await expectOnce(runtime, tree, 'Tree');
  });

  it('P4 H14 one that waits for an approval waits on, and is answered at its parent', async () => {
    const [child] = await childrenOf(runtime, paying.id);
    const call = await asking(runtime, child!);
    await paying.command(updates.answer, { tool_call_id: call, decision: 'once' });
    await expectOnce(runtime, paying, 'Asking');
    expect(await effects(runtime.workspaces, paying.id)).toEqual([`pay ${call}`]);
  });

  it('P4 T5 and that goes on later changes nothing', async () => {
    if (signal === 'SIGSTOP') process.kill(lost.pid, 'SIGCONT');
    await lost.stop();
    await expectOnce(runtime, tree, 'Tree');
    await expectOnce(runtime, paying, 'Asking');
  });
});

describe('a tree of sessions', () => {
  let runtime: TestRuntime;
  beforeAll(async () => {
    runtime = await startRuntime({ agents });
  });

  /** A tree whose slow children stream until the gate opens. */
  async function streaming(role: 'Tree' | 'Deep' = 'Tree') {
    const gate = new Gate();
    runtime.model.script(treeModel(gate));
    const tree = await open(runtime);
    await tree.send(`${role} go`);
    const all = await whileStreaming(runtime, tree);
    // Workers begin before the workflows do.
    for (const { handle } of [tree, ...all]) await eventually(() => handle.describe());
    return { gate, tree, all };
  }

  /** As if half a minute had passed: the sweeper looks at runs without an activity. */
  const later = (sessions: readonly TestSession[]) =>
    runtime.db.query(
      `UPDATE chat_runs SET check_at = now(), updated_at = updated_at - interval '31 seconds'
        WHERE session_id = ANY ($1) AND state = 'running' AND check_at IS NOT NULL`,
      [sessions.map(({ id }) => id)],
    );

  it.each(['parent', 'child', 'all'] as const)('P4 W8 goes on when the workflow of %s is terminated', async (which) => {
    const { gate, tree, all } = await streaming();
    const terminated = { parent: [tree], child: all, all: [tree, ...all] }[which];
    await Promise.all(terminated.map(({ handle }) => handle.terminate()));
    gate.open();
    // An activity ends with its workflow, unless it is faster.
    await eventually(
      async () => {
        await later([tree, ...all]);
        const { rows } = await runtime.db.query<{ state: string }>(
          'SELECT state FROM chat_runs WHERE session_id = ANY ($1) AND seq = 1',
          [[tree, ...all].map(({ id }) => id)],
        );
        expect(rows.map(({ state }) => state)).toEqual(Array(4).fill('finished'));
      },
      { timeout: 60_000 },
    );
    await expectOnce(runtime, tree, 'Tree');
  });

  it('P4 R4 an abort of the topmost ends all below it at once, down to depth 3, and each connection to the provider', async () => {
    const before = runtime.model.requests.length;
    const { gate, tree, all } = await streaming('Deep');
    const requests = runtime.model.requests.slice(before).filter(({ end }) => end === undefined);
    expect(requests).toHaveLength(2);
    const { children } = await tree.command(updates.abort);
    const ids = all.map(({ id }) => id);
    expect(new Set(children.map(({ session_id }) => session_id))).toEqual(new Set(ids));
    const { rows } = await runtime.db.query(
      `SELECT max(c.depth) AS depth, array_agg(DISTINCT r.state) AS states
         FROM chat_sessions c JOIN chat_runs r USING (session_id) WHERE session_id = ANY ($1)`,
      [ids],
    );
    expect(rows).toEqual([{ depth: 3, states: ['aborted'] }]);
    await Promise.all(requests.map(({ ended }) => ended));
    expect(requests.map(({ end }) => end)).toEqual(['client-closed', 'client-closed']);
    expect((await tree.ended(1)).state).toBe('aborted');
    await eventually(async () => {
      for (const each of all) expect(await workflowIsOver(each), each.id).toBe(true);
    });
    expect(await said(runtime, tree.id)).toHaveLength(1);
    gate.open();
  });

  it('P4 W5 goes on when its worker is replaced', async () => {
    const { gate, tree } = await streaming();
    await Promise.all([runtime.startWorker(), runtime.first.stop()]);
    gate.open();
    await expectOnce(runtime, tree, 'Tree');
  });
});
