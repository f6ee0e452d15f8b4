// Postgres is slower than the heartbeat time-out: a healthy attempt must not time out.
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type AgentDefinition, defineAgent, defineTool } from '../../agent/definition/define.ts';
import { createPool } from '../../store/pool.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { startSystem, type TestRuntime } from '../../tools/test-kit/system.ts';
import { startTcpProxy } from '../../tools/test-kit/tcp-proxy.ts';
import faultAgent, { effects } from '../faults/agent.ts';
import { expectSound } from '../faults/sound.ts';
import { aroundCalls } from '../faults/sql-calls.ts';

const HEARTBEAT_MS = 2_000;
const SLOW_MS = 2_500;
const hello = [{ type: 'step-start' }, { type: 'text', text: 'Hello there', state: 'done' }];

/** A worker whose Postgres the test can make slow, and a session through a pool that stays fast. */
interface Slow {
  runtime: TestRuntime;
  session: TestSession;
  /** Makes one SQL function sleep before it does its work. */
  slowDown(name: string): Promise<void>;
  /** Delays every statement of the worker. */
  slowDownAll(): void;
}

/** Actions of a model, each of which takes longer than the heartbeat time-out. */
async function* slowly(...actions: ModelAction[]): AsyncIterable<ModelAction> {
  for (const action of actions) {
    yield action;
    await delay(HEARTBEAT_MS + 500);
  }
}

async function slow(
  answers: readonly (Iterable<ModelAction> | AsyncIterable<ModelAction>)[],
  agents: readonly AgentDefinition[] = [faultAgent],
): Promise<Slow> {
  const url = new URL(await freshDatabase());
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  const proxied = new URL(url);
  proxied.host = `${proxy.host}:${proxy.port}`;
  const runtime = await startSystem(
    { databaseUrl: proxied.href, ...(await freshNamespace()) },
    {
      agents,
      settings: { heartbeatTimeoutMs: HEARTBEAT_MS, sweepIntervalMs: 3_600_000 },
      script: (_request, index) => answers[Math.min(index, answers.length - 1)]!,
    },
  );
  const db = createPool(url.href);
  afterFile(async () => {
    proxy.holdBack = undefined;
    await runtime.stop();
    await Promise.all([db.end(), proxy.close()]);
  });
  return {
    runtime,
    session: await TestSession.open({ db, temporal: runtime.temporal }, { agent: 'faults' }),
    slowDownAll: () =>
      void (proxy.holdBack = (chunk, direction) => (direction === 'up' && isStatement(chunk) ? SLOW_MS : 0)),
    slowDown: async (name) => {
      const { rows } = await db.query<{ given: string; taken: string; result: string }>(
        `SELECT pg_get_function_arguments(p.oid) AS given, pg_get_function_identity_arguments(p.oid) AS taken,
                pg_get_function_result(p.oid) AS result
           FROM pg_proc p WHERE proname = $1`,
        [name],
      );
      const { given, taken, result } = rows[0]!;
      const names = taken.split(', ').map((argument) => argument.split(' ')[0]);
      await db.query(`
        ALTER FUNCTION ${name}(${taken}) RENAME TO ${name}_itself;
        CREATE FUNCTION ${name}(${given}) RETURNS ${result} LANGUAGE plpgsql AS $$ BEGIN
          PERFORM pg_sleep(${SLOW_MS / 1_000});
          RETURN ${name}_itself(${names.join(', ')});
        END $$`);
    },
  };
}

/** Parse, Bind and Query messages, by their first byte; the start of a connection is not delayed. */
function isStatement(chunk: Buffer): boolean {
  return 'PBQ'.includes(String.fromCharCode(chunk[0]!));
}

/** Sends one message while Postgres is slow; returns the answer's parts. */
async function answer({ session }: Slow): Promise<unknown[]> {
  const run = await session.ended(await session.send('go'), 60_000);
  expect(run.state).toBe('finished');
  return session.parts(run.answer_id);
}

describe.concurrent('with Postgres slower than the heartbeat time-out', () => {
  it('T5 a slow claim of a step: one model call, one complete answer', async () => {
    // The model is slow too, so a false time-out would hit an attempt that is still running.
    const the = await slow([slowly(say('Hello '), say('there'))]);
    await the.slowDown('claim_step');
    expect(await answer(the)).toEqual(hello);
    expect(the.runtime.model.requests).toHaveLength(1);
    await expectSound(the.runtime, the.session.id);
  });

  it('T5 every statement slow: one model call, one complete answer', async () => {
    const the = await slow([[say('Hello '), say('there')]]);
    the.slowDownAll();
    expect(await answer(the)).toEqual(hello);
    expect(the.runtime.model.requests).toHaveLength(1);
  });

  it('R3 a slow start of a tool that is not repeatable: it runs once, and its outcome is stored', async () => {
    const the = await slow([[callTool('call_1', 'pay', { amount: 5 })], [say('paid')]]);
    await the.slowDown('begin_tool');
    expect(await answer(the)).toMatchObject([
      {},
      { state: 'output-available', output: { paid: 5 } },
      {},
      { text: 'paid' },
    ]);
    expect(await effects(the.runtime.workspaces, the.session.id)).toHaveLength(1);
    expect(the.runtime.model.requests).toHaveLength(2);
    await expectSound(the.runtime, the.session.id);
  });

  it('R3 the response to `begin_tool` is lost: the same attempt repeats it, and runs the tool once', async () => {
    const the = await slow([[callTool('call_1', 'pay', { amount: 5 })], [say('paid')]]);
    let lost = 0;
    const query = the.runtime.db.query.bind(the.runtime.db) as (...args: unknown[]) => Promise<unknown>;
    the.runtime.db.query = (async (...args: unknown[]) => {
      const answered = await query(...args);
      if ((args[0] as { name?: string }).name !== 'call begin_tool' || lost > 0) return answered;
      lost += 1;
      throw Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' });
    }) as typeof the.runtime.db.query;
    expect(await answer(the)).toMatchObject([
      {},
      { state: 'output-available', output: { paid: 5 } },
      {},
      { text: 'paid' },
    ]);
    expect(lost).toBe(1);
    expect(await effects(the.runtime.workspaces, the.session.id)).toHaveLength(1);
  });

  it('R3 the connection is lost between the event at a tool’s start and the tool: the tool runs once', async () => {
    let launched = 0;
    const launch = defineTool({
      name: 'launch',
      description: 'Launches. Doing it twice is a disaster.',
      input: z.object({}),
      raises: { event: 'start_build', at: 'start' },
      execute: () => ({ launched: (launched += 1) }),
    });
    const agents = [defineAgent({ ...faultAgent, tools: [launch] })];
    const the = await slow([[callTool('call_1', 'launch', {})], [say('launched')]], agents);
    let loads = 0;
    using _hook = aroundCalls(the.runtime.db, {
      before: ({ name }) => {
        if (name !== 'load_tool_call') return;
        loads += 1;
        // The first load is that of the activity that raises the event.
        if (loads === 2) throw Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' });
      },
    });
    expect(await answer(the)).toMatchObject([
      {},
      { state: 'output-available', output: { launched: 1 } },
      {},
      { text: 'launched' },
    ]);
    expect(launched).toBe(1);
  });
});
