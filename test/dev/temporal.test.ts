import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { freePort } from '../../dev/ports.ts';
import { findTemporalCli } from '../../dev/temporal-cli.ts';
import { startTemporal, type RunningTemporal } from '../../dev/temporal.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

const cacheDir = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] }).dir;
const running: RunningTemporal[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop();
});

async function start(options: Partial<Parameters<typeof startTemporal>[0]>): Promise<RunningTemporal> {
  const server = await startTemporal({ dir: scratchDir(), cacheDir, ...options });
  running.push(server);
  return server;
}

async function clientOf({ address }: RunningTemporal, namespace: string): Promise<Client> {
  return new Client({ connection: await Connection.connect({ address }), namespace });
}

describe('Temporal development server', () => {
  it('H1 serves its UI and keeps every workflow across restarts', async () => {
    const dir = scratchDir();
    const options = { dir, durable: true, namespaces: ['sessions'] };
    const first = await start(options);
    expect((await fetch(`${first.uiUrl}/`)).status).toBe(200);
    const client = await clientOf(first, 'sessions');
    await client.workflow.start('session', { taskQueue: 'nobody', workflowId: 'kept' });
    await client.connection.close();
    await first.stop();
    const second = await start({ ...options, searchAttributes: ['PerdureUser'] });
    const again = await clientOf(second, 'sessions');
    expect(await again.workflow.getHandle('kept').describe()).toMatchObject({ type: 'session' });
    await again.connection.close();
  });

  it('H1 refuses a folder that a running server uses', async () => {
    const dir = scratchDir();
    const { pid } = await start({ dir, durable: true, headless: true });
    await expect(start({ dir, durable: true, headless: true })).rejects.toMatchObject({
      code: 'AlreadyRunning',
      message: expect.stringContaining(`pid ${pid}`),
    });
  });

  it('H1 reports that its port is taken', async () => {
    const port = await freePort();
    const squatter = createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    await expect(start({ port, headless: true })).rejects.toMatchObject({ code: 'PortTaken' });
    squatter.close();
  });

  it('H1 tries another port if another process took the one it chose', async () => {
    const [taken, port] = [await freePort(), await freePort()];
    const squatter = createServer((socket) => socket.destroy()).listen(taken, '127.0.0.1');
    await once(squatter, 'listening');
    const choices = [taken, port];
    const server = await start({ port: () => Promise.resolve(choices.shift()!), headless: true });
    expect(server.port).toBe(port);
    squatter.close();
  });
});

describe('the Temporal CLI is searched', () => {
  async function fakeCli(file: string): Promise<string> {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, '#!/bin/sh\necho temporal version 9.9.9\n');
    await chmod(file, 0o755);
    return file;
  }

  it('H1 in TEMPORAL_CLI_PATH, then on PATH, then in the caches', async () => {
    const dir = scratchDir();
    const named = await fakeCli(path.join(dir, 'named', 'my-temporal'));
    const onPath = await fakeCli(path.join(dir, 'path', 'temporal'));
    const cached = await fakeCli(path.join(dir, 'bin', 'temporal-1.9.1'));
    const PATH = `/bin:/usr/bin:${path.dirname(onPath)}`;
    const quiet = () => {};
    expect(await findTemporalCli(dir, { TEMPORAL_CLI_PATH: named, PATH }, quiet)).toBe(named);
    expect(await findTemporalCli(dir, { PATH }, quiet)).toBe(onPath);
    expect(await findTemporalCli(dir, { PATH: '/bin:/usr/bin' }, quiet)).toBe(cached);
  });

  it('H1 reports a TEMPORAL_CLI_PATH that does not run', async () => {
    const finding = findTemporalCli(scratchDir(), { TEMPORAL_CLI_PATH: '/nowhere/temporal' }, () => {});
    await expect(finding).rejects.toThrow('TEMPORAL_CLI_PATH is /nowhere/temporal');
  });
});
