import { fileURLToPath } from 'node:url';
import { startNodeProcess } from '../../dev/node-process.ts';
import { freePort } from '../../dev/ports.ts';
import { environment } from './environment.ts';
import type { System } from './servers.ts';

/** Starts a host in a process of its own, which keeps its files in `dir`; it is ready when this returns. */
export async function startHost(system: System, dir: string, settings: NodeJS.ProcessEnv = {}) {
  const port = await freePort();
  const host = await startNodeProcess({
    name: `host-${port}`,
    entry: fileURLToPath(new URL('../../host/main.ts', import.meta.url)),
    env: {
      PATH: process.env['PATH'],
      ...environment({ ...system, dir }),
      PORT: String(port),
      ...settings,
    },
    logDir: dir,
    graceMs: 5_000,
    say: () => {},
  });
  return { ...host, url: `http://127.0.0.1:${port}` };
}
