// Postgres or Temporal is down for a time in the middle of a turn.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { createDatabase } from '../../dev/databases.ts';
import { freePort } from '../../dev/ports.ts';
import { type RunningPostgres, startPostgres } from '../../dev/postgres.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { migrate } from '../../migrations/migrate.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { createNamespace } from '../../tools/test-kit/namespaces.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { startSystem, type TestRuntime } from '../../tools/test-kit/system.ts';
import faultAgent, { effects } from './agent.ts';
import { expectSound } from './sound.ts';
import { aroundCalls } from './sql-calls.ts';

const OPTIONS = { agents: [faultAgent] };
const BACK_MS = 40_000;
const WHOLE = [{ type: 'step-start' }, { type: 'text', text: 'first words and the last', state: 'done' }];
const dir = scratchDir();
/** Folder of the Temporal CLI. */
const { dir: cacheDir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });

describe('Postgres is down', () => {
  const port = freePort();
  const start = async (): Promise<RunningPostgres> =>
    startPostgres({ dir: path.join(dir, 'pg'), port: await port, ephemeral: true });
  let postgres: RunningPostgres;
  let runtime: TestRuntime;
  beforeAll(async () => {
    postgres = await start();
    const databaseUrl = await createDatabase(postgres.url, 'outage');
    await migrate(databaseUrl);
    // A short time-out for when it is frozen.
    const impatient = `${databaseUrl}?statement_timeout=500&query_timeout=700`;
    runtime = await startSystem({ databaseUrl: impatient, ...(await freshNamespace()) }, OPTIONS);
  });
  afterAll(async () => {
    await runtime.stop();
    await postgres.stop();
  });

  it('T5 while a step streams, for ten minutes: its text is written when Postgres is back, and the model is not called again', async () => {
    const gate = new Gate();
    runtime.model.script(() => lateWords(gate));
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const seq = await session.send('go');
    const { answer_id: answer } = await session.run(seq);
    await eventually(async () => expect(await session.parts(answer)).toMatchObject([{}, { text: 'first words' }]));
    await postgres.stop();
    gate.open();
    const request = await runtime.model.request(0);
    await request.ended;
    let tries = 0;
    using _ = aroundCalls(runtime.db, { before: () => (tries += 1) });
    await eventually(() => expect(tries).toBeGreaterThan(1));
    // Ten minutes pass at once. The clock never goes back, and no other file runs in this process.
    const now = performance.now.bind(performance);
    vi.spyOn(performance, 'now').mockImplementation(() => now() + 600_000);
    const before = tries;
    await eventually(() => expect(tries).toBeGreaterThan(before + 1));
    postgres = await start();
    const run = await eventually(() => session.ended(seq, 0), { timeout: BACK_MS });
    expect(run.state).toBe('finished');
    expect(await session.parts(answer)).toEqual(WHOLE);
    expect(runtime.model.requests).toHaveLength(1);
    await expectSound(runtime, session.id);
  });

  it('T5 while a step streams, frozen: a write that timed out has no late effect', async () => {
    const before = runtime.model.requests.length;
    const gate = new Gate();
    runtime.model.script(() => lateWords(gate));
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const seq = await session.send('go');
    const { answer_id: answer } = await session.run(seq);
    await eventually(async () => expect(await session.parts(answer)).toMatchObject([{}, { text: 'first words' }]));
    const processes = await withChildren(postgres.pid);
    for (const pid of processes) process.kill(pid, 'SIGSTOP');
    try {
      gate.open();
      await eventually(() => {
        const trying = runtime.logs.filter(
          ({ msg, run, session: id }) => /trying again/.test(msg) && run === seq && id,
        );
        expect(trying.map(({ session: id }) => id)).toContain(session.id);
      });
    } finally {
      for (const pid of processes) process.kill(pid, 'SIGCONT');
    }
    const run = await eventually(() => session.ended(seq, 0), { timeout: BACK_MS });
    expect(run.state).toBe('finished');
    // The timed-out statement may be executed when the server resumes, before the claim is renewed.
    await eventually(async () => expect((await session.run(seq)).fence).toHaveLength(4));
    expect(await session.parts(answer)).toEqual(WHOLE);
    expect(runtime.model.requests).toHaveLength(before + 1);
    await expectSound(runtime, session.id);
  });

  it('R3 as a tool ends: it ran once, and its outcome is stored when Postgres is back', async () => {
    const before = runtime.model.requests.length;
    runtime.model.script((_request, index) =>
      index === before ? [callTool('call_1', 'linger', {})] : [say('after the tool')],
    );
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const seq = await session.send('go');
    await eventually(async () => expect(await effects(runtime.workspaces, session.id)).toHaveLength(1));
    await postgres.stop();
    await eventually(async () => expect(await effects(runtime.workspaces, session.id)).toHaveLength(2));
    postgres = await start();
    const run = await eventually(() => session.ended(seq, 0), { timeout: BACK_MS });
    expect(run.state).toBe('finished');
    expect(await session.parts(run.answer_id)).toMatchObject([
      {},
      { type: 'tool-linger', state: 'output-available', output: { lingered: true } },
      {},
      { text: 'after the tool' },
    ]);
    expect(await effects(runtime.workspaces, session.id)).toHaveLength(2);
    await expectSound(runtime, session.id);
  });
});

describe('Temporal is down', () => {
  const port = freePort();
  const start = async () =>
    startTemporal({ dir: path.join(dir, 'temporal'), cacheDir, headless: true, durable: true, port: await port });
  let temporal: Awaited<ReturnType<typeof start>>;
  let runtime: TestRuntime;
  beforeAll(async () => {
    temporal = await start();
    runtime = await startSystem(
      { databaseUrl: await freshDatabase(), ...(await createNamespace(temporal.address)) },
      OPTIONS,
    );
  });
  afterAll(async () => {
    await runtime.stop();
    await runtime.temporal.connection.close();
    await temporal.stop();
  });

  it('W7 while a step streams: the step continues, and messages accepted meanwhile run when Temporal is back', async () => {
    const gate = new Gate();
    runtime.model.script((_request, index) => (index === 0 ? lateWords(gate) : [say('fine')]));
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const first = await session.send('go');
    const { answer_id: answer } = await session.run(first);
    await eventually(async () => expect(await session.parts(answer)).toMatchObject([{}, { text: 'first words' }]));
    await temporal.stop();
    gate.open();
    expect((await session.ended(first)).state).toBe('finished');
    const { run: second } = await session.accept('and then?');
    const other = await TestSession.open(runtime, { agent: 'faults' });
    const { run: others } = await other.accept('hello');
    temporal = await start();
    expect((await session.ended(second, BACK_MS)).state).toBe('finished');
    expect((await other.ended(others, BACK_MS)).state).toBe('finished');
    expect(await session.parts(answer)).toMatchObject([{}, { text: 'first words and the last' }]);
    expect(runtime.model.requests).toHaveLength(3);
    await expectSound(runtime, session.id);
    await expectSound(runtime, other.id);
  });
});

/** A process and its descendants. */
async function withChildren(pid: number): Promise<number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return [pid, ...children.split(' ').filter(Boolean).map(Number)];
}

async function* lateWords(gate: Gate): AsyncGenerator<ModelAction> {
  yield say('first words');
  await gate.pass();
  yield say(' and the last');
}
