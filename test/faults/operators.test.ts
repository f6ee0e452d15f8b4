// What operators see of a session in Temporal, and how closing works.
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, fail, hang, say } from '../../tools/test-kit/model-actions.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import * as names from '../../workflows/definitions.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/start.ts';
import faultAgent from './agent.ts';
import { summaries } from './history.ts';
import { raise } from './rows.ts';
import { expectSound } from './sound.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent], settings: { sweepIntervalMs: 3_600_000 } });
});

const open = (): Promise<TestSession> => TestSession.open(runtime, { agent: 'faults' });

/** The ids of the sessions that a query of the Temporal UI finds. */
async function found(query: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { workflowId } of runtime.temporal.workflow.list({ query })) ids.push(workflowId);
  return ids;
}

async function details(session: TestSession): Promise<string> {
  const metadata = await session.handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata');
  return String(metadata.currentDetails);
}

describe('operators see', () => {
  it('S4 a phase change as soon as a tool has made it, while the tool still runs', async () => {
    runtime.model.script(() => [callTool('call_1', 'build_long', {})]);
    const session = await open();
    const run = await session.send('build');
    await eventually(async () => expect((await session.row()).phase).toBe('building'));
    await eventually(async () => {
      expect(await session.handle.query(names.snapshotQuery)).toMatchObject({ phase: 'building' });
      const { typedSearchAttributes: shown } = await session.handle.describe();
      expect(shown.get(SEARCH_ATTRIBUTES.phase)).toBe('building');
      expect(shown.get(SEARCH_ATTRIBUTES.project)).toMatch(/^prj_/);
    });
    expect(await session.command(names.updates.cancel)).toMatchObject({
      phase: 'chatting',
      cancelled: true,
      aborted: true,
    });
    expect((await session.ended(run)).state).toBe('aborted');
    await expectSound(runtime, session.id);
  });

  it('W6 typed search attributes, and find sessions by them', async () => {
    runtime.model.script(() => [say('hello')]);
    const session = await open();
    await session.ended(await session.send('hi'));
    await session.command(names.updates.openExisting, { project_id: `p${session.id.slice(-10)}` });
    await eventually(async () => {
      expect(await found(`PerdureProject = 'p${session.id.slice(-10)}'`)).toEqual([session.id]);
      for (const each of ["PerdureUser = 'ada'", "PerdurePhase = 'chatting'", "PerdureStatus = 'open'"]) {
        expect(await found(each)).toContain(session.id);
      }
    });
    await session.command(names.updates.close);
    await eventually(async () => {
      expect((await session.handle.describe()).typedSearchAttributes.get(SEARCH_ATTRIBUTES.status)).toBe('closed');
    });
  });

  it('W6 a static summary, current details, and a summary on every activity', async () => {
    const before = runtime.model.requests.length;
    runtime.model.script((_request, index) =>
      index === before ? [callTool('call_1', 'linger', {})] : [say('Once'), hang()],
    );
    const session = await open();
    const run = await session.send('look');
    await runtime.model.request(before + 1);
    await session.send('and then');
    const lines = ['phase**: chatting', 'turn**: 1', 'step**: 2', 'tool**: none', 'model**: openai/test', 'queue**: 1'];
    // The second step may begin before the workflow gets the tool's outcome.
    const shown = await eventually(async () => {
      const text = await details(session);
      for (const line of lines) expect(text).toContain(`- **${line}\n`);
      return text;
    });
    expect(shown).toMatch(/- \*\*tokens\*\*: [1-9]\d*\n[^]*- \*\*last error\*\*: none$/);
    expect(await (await session.handle.describe()).staticSummary()).toBe('faults · ada');
    expect(await summaries(runtime.temporal, session.id)).toEqual([
      'step 1 · openai/test',
      'tool linger',
      'step 2 · openai/test',
    ]);
    runtime.model.script(() => [fail(401)]);
    await session.command(names.updates.abort);
    await session.ended(run);
    expect((await session.ended(run + 1)).error_code).toBe('ProviderUnauthorized');
    await eventually(async () => expect(await details(session)).toMatch(/turn\*\*: none\n[^]*error\*\*: Provider/));
  });
});

describe('a step whose activity an operator has paused', () => {
  let own: TestRuntime;
  beforeAll(async () => {
    const settings = { heartbeatTimeoutMs: patient(2_000), shutdownGraceMs: 500, sweepIntervalMs: 3_600_000 };
    own = await startRuntime({ agents: [faultAgent], settings });
  });

  /** A step that has said "Once", and whose worker has heard of the pause. */
  async function paused() {
    const held = new Gate();
    const before = own.model.requests.length;
    own.model.script(async function* (_request, index) {
      yield say('Once');
      if (index === before) await held.pass();
      yield say(' only');
    });
    const session = await TestSession.open(own, { agent: 'faults' });
    const run = await session.send('go');
    await held.reached;
    const { workflowService, options } = own.temporal;
    const of = { namespace: options.namespace, execution: { workflowId: session.id } };
    const pending = async () => {
      const { pendingActivities } = await workflowService.describeWorkflowExecution(of);
      expect(pendingActivities).toHaveLength(1);
      return pendingActivities[0]!;
    };
    const { activityId: id } = await eventually(pending);
    await workflowService.pauseActivity({ ...of, id: id! });
    // The answer to a heartbeat tells of the pause; the next one comes after it.
    const beatAfter = (last: unknown) =>
      eventually(async () => {
        const { lastHeartbeatTime } = await pending();
        expect(lastHeartbeatTime).not.toEqual(last);
        return lastHeartbeatTime;
      });
    await beatAfter(await beatAfter((await pending()).lastHeartbeatTime));
    const unpause = () => workflowService.unpauseActivity({ ...of, id: id! });
    return { session, run, held, unpause, calls: () => own.model.requests.length - before };
  }

  it('T5 goes on: only a next attempt would wait', async () => {
    const { session, run, held, calls } = await paused();
    held.open();
    const ended = await session.ended(run);
    expect(ended.state).toBe('finished');
    expect(await session.parts(ended.answer_id)).toMatchObject([{ type: 'step-start' }, { text: 'Once only' }]);
    expect(calls()).toBe(1);
  });

  it('T5 ends with the grace of its worker, and is continued by another one once it is unpaused', async () => {
    const { session, run, held, unpause, calls } = await paused();
    await own.first.stop();
    expect((await session.run(run)).state).toBe('running');
    await own.startWorker();
    await unpause();
    const ended = await session.ended(run);
    held.open();
    expect(ended.state).toBe('finished');
    expect((await session.parts(ended.answer_id)).at(-1)).toMatchObject({ text: 'Once only' });
    expect(calls()).toBe(2);
  });
});

describe('a session that is closed', () => {
  it('W8 is opened by the next message and by the next command, with its state unchanged', async () => {
    runtime.model.script(() => [say('hello')]);
    const session = await open();
    await raise(runtime.db, session.id, ['start_build', 'todo_done_build']);
    await session.ended(await session.send('hi'));
    await session.command(names.updates.close);
    expect(await session.handle.result()).toBeUndefined();
    expect(await closedAt(session)).not.toBeNull();
    expect(await session.command(names.updates.publish)).toMatchObject({ phase: 'done' });
    expect(await closedAt(session)).toBeNull();
    await session.command(names.updates.close);
    expect((await session.ended(await session.send('again'))).state).toBe('finished');
    expect(await closedAt(session)).toBeNull();
    await expectSound(runtime, session.id);
  });

  it('W8 X1 while a message is to be answered again: it names no message as dropped, and its workflow ends', async () => {
    runtime.model.script(() => [say('hello')]);
    const session = await open();
    await session.ended(await session.send('hi', 'first'));
    await session.command(names.updates.close);
    await session.handle.result();
    // The next command starts a workflow, which loads it.
    const again = 'SELECT regenerate_answer($1, $2, $3, NULL, $4, NULL)';
    await runtime.db.query(again, [session.id, session.user, 'first', newId('msg')]);
    const outcome = await session.command(names.updates.close, { abort: true });
    expect(outcome).toMatchObject({ aborted: false, dropped: [], dequeued: [2] });
    await session.handle.result();
    expect((await session.run(2)).state).toBe('cancelled');
    await expectSound(runtime, session.id);
  });

  it('W8 stays closed after a refused or repeated command, and its workflow ends again', async () => {
    runtime.model.script(() => [say('hello')]);
    const session = await open();
    await raise(runtime.db, session.id, ['start_build', 'todo_done_build']);
    // By another execution: of the newest one Temporal itself answers a repeated update, without the workflow.
    const before = `SELECT apply_command($1, 'publish', '{}', 'user', 'publish:before') - 'ok' AS outcome`;
    const { rows } = await runtime.db.query<{ outcome: unknown }>(before, [session.id]);
    await session.command(names.updates.close);
    await session.handle.result();
    const stillClosed = async () => {
      await session.handle.result();
      expect(await closedAt(session)).not.toBeNull();
      expect((await session.handle.describe()).typedSearchAttributes.get(SEARCH_ATTRIBUTES.status)).toBe('closed');
    };
    expect(await session.command(names.updates.publish, { command_id: 'before' })).toEqual(rows[0]!.outcome);
    await stillClosed();
    await expect(session.command(names.updates.revert)).rejects.toThrow('Workflow Update failed');
    await stillClosed();
    await session.signalWithStart(names.signals.rewind, { message_id: 'm1' });
    await stillClosed();
    expect((await session.ended(await session.send('and now'))).state).toBe('finished');
  });

  it('W8 could not be closed during a run without `abort`', async () => {
    runtime.model.script(() => [say('Once'), hang()]);
    const session = await open();
    const before = runtime.model.requests.length;
    const run = await session.send('go');
    await session.send('and then', 'queued');
    await runtime.model.request(before);
    await expect(session.command(names.updates.close)).rejects.toMatchObject({ cause: { type: 'RunInFlight' } });
    expect(await session.command(names.updates.close, { abort: true })).toMatchObject({
      aborted: true,
      dropped: ['queued'],
    });
    expect((await session.ended(run)).state).toBe('aborted');
    expect((await session.run(run + 1)).state).toBe('cancelled');
    expect(await session.handle.result()).toBeUndefined();
    await expectSound(runtime, session.id);
  });
});

async function closedAt(session: TestSession): Promise<unknown> {
  const { rows } = await runtime.db.query('SELECT closed_at FROM chat_sessions WHERE session_id = $1', [session.id]);
  return (rows[0] as { closed_at: unknown }).closed_at;
}
