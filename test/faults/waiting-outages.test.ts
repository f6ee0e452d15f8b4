// Temporal or Postgres is away while runs wait, and the answers come meanwhile.
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { createDatabase } from '../../dev/databases.ts';
import { freePort } from '../../dev/ports.ts';
import { type RunningPostgres, startPostgres } from '../../dev/postgres.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { newId } from '../../domain/ids.ts';
import { migrate } from '../../migrations/migrate.ts';
import { askingModel } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { createNamespace } from '../../tools/test-kit/namespaces.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { startSystem, type TestRuntime } from '../../tools/test-kit/system.ts';
import { effects } from './agent.ts';
import { payingAgent, toolPart, waiting, type Waiting } from './paying.ts';
import { expectSound } from './sound.ts';

const OPTIONS = { agents: [payingAgent], script: askingModel };
const BACK_MS = 40_000;
const dir = scratchDir();
/** Folder of the Temporal CLI. */
const { dir: cacheDir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });

interface System {
  runtime: TestRuntime;
  host: TestHost;
}

async function systemOn(servers: Parameters<typeof startSystem>[0]): Promise<System> {
  const runtime = await startSystem(servers, OPTIONS);
  const { databaseUrl, temporal, workspaces } = runtime;
  return { runtime, host: await startHost({ databaseUrl, temporal, workspaces, agents: [payingAgent.id] }) };
}

/** Sends an answer under one key. */
function answering({ host }: System, { session, call }: Waiting, decision: 'once' | 'reject') {
  const headers = { 'idempotency-key': newId('cmd') };
  return () => host.as('ada').post(`/api/sessions/${session.id}/answer`, { tool_call_id: call, decision }, headers);
}

const giving = ({ host }: System, { session, call }: Waiting) =>
  host.as('ada').post(`/api/sessions/${session.id}/tool-outputs/${call}`, { output: { place: 'here' } });

/** Sends it until it gets a definite response, which must be 200. */
const surely = (send: () => Promise<{ status: number }>) =>
  eventually(async () => expect((await send()).status).toBe(200), { timeout: BACK_MS });

async function expectEnd({ runtime }: System, { session, run }: Waiting, state: string, paid: number): Promise<void> {
  const ended = await eventually(() => session.ended(run, 0), { timeout: BACK_MS });
  expect(ended.state).toBe('finished');
  expect(await toolPart(session, run)).toMatchObject({ state });
  expect(await effects(runtime.workspaces, session.id)).toHaveLength(paid);
  await expectSound(runtime, session.id);
}

describe('Temporal is away', () => {
  const port = freePort();
  const start = async () =>
    startTemporal({ dir: path.join(dir, 'temporal'), cacheDir, headless: true, durable: true, port: await port });
  let temporal: Awaited<ReturnType<typeof start>>;
  let system: System;
  beforeAll(async () => {
    temporal = await start();
    system = await systemOn({ databaseUrl: await freshDatabase(), ...(await createNamespace(temporal.address)) });
  });
  afterAll(async () => {
    await system.runtime.stop();
    await system.runtime.temporal.connection.close();
    await temporal.stop();
  });

  it('H2 P3 an output is committed, and its run goes on when Temporal is back; an answer is told clearly that it is not, and counts once', async () => {
    const { runtime } = system;
    const [asked, rejected, page, later] = await Promise.all(
      ['pay 5', 'pay 6', 'locate', 'pay 7'].map((text) => waiting(runtime, text)),
    );
    await temporal.stop();
    const [once, reject] = [answering(system, asked!, 'once'), answering(system, rejected!, 'reject')];
    expect(await giving(system, page!)).toMatchObject({ status: 200 });
    expect((await page!.session.run(page!.run)).state).toBe('running');
    for (const { status, body } of await Promise.all([once(), reject()])) {
      expect({ status, body }).toMatchObject({ status: 503, body: { code: 'Unavailable' } });
    }
    for (const { session, run } of [asked!, rejected!, later!]) expect((await session.run(run)).state).toBe('waiting');
    temporal = await start();
    await expectEnd(system, page!, 'output-available', 0);
    await Promise.all([surely(once), surely(reject)]);
    await expectEnd(system, asked!, 'output-available', 1);
    await expectEnd(system, rejected!, 'output-denied', 0);
    expect((await later!.session.run(later!.run)).state).toBe('waiting');
    await surely(answering(system, later!, 'once'));
    await expectEnd(system, later!, 'output-available', 1);
  });
});

describe('Postgres is away', () => {
  const port = freePort();
  const start = async (): Promise<RunningPostgres> =>
    startPostgres({ dir: path.join(dir, 'pg'), port: await port, ephemeral: true });
  let postgres: RunningPostgres;
  let system: System;
  beforeAll(async () => {
    postgres = await start();
    const databaseUrl = await createDatabase(postgres.url, 'waiting');
    await migrate(databaseUrl);
    system = await systemOn({ databaseUrl, ...(await freshNamespace()) });
  });
  afterAll(async () => {
    await system.runtime.stop();
    await postgres.stop();
  });

  it('T5 P3 what waits goes on waiting, and answers that are sent again count once', async () => {
    const { runtime } = system;
    const [asked, rejected, page, later] = await Promise.all(
      ['pay 5', 'pay 6', 'locate', 'pay 7'].map((text) => waiting(runtime, text)),
    );
    await postgres.stop();
    const [once, reject] = [answering(system, asked!, 'once'), answering(system, rejected!, 'reject')];
    const give = () => giving(system, page!);
    for (const { status } of await Promise.all([once(), reject(), give()])) expect(status).toBe(503);
    postgres = await start();
    await Promise.all([surely(once), surely(reject), surely(give)]);
    await expectEnd(system, asked!, 'output-available', 1);
    await expectEnd(system, rejected!, 'output-denied', 0);
    await expectEnd(system, page!, 'output-available', 0);
    expect((await later!.session.run(later!.run)).state).toBe('waiting');
    await surely(answering(system, later!, 'once'));
    await expectEnd(system, later!, 'output-available', 1);
  });
});
