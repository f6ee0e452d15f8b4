import { fileURLToPath } from 'node:url';
import { startNodeProcess } from '../dev/node-process.ts';
import { freePort } from '../dev/ports.ts';
import { MODEL, NAMESPACE } from './names.ts';
import type { System } from './servers.ts';

/** Starts a host in a process of its own, which keeps its files in `dir`; it is ready when this returns. */
export async function startHost({ databaseUrl, temporalAddress, modelUrl }: System, dir: string) {
  const port = await freePort();
  const host = await startNodeProcess({
    name: `host-${port}`,
    entry: fileURLToPath(new URL('../host/main.ts', import.meta.url)),
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: databaseUrl,
      TEMPORAL_ADDRESS: temporalAddress,
      TEMPORAL_NAMESPACE: NAMESPACE,
      OPENAI_API_KEY: 'bench',
      OPENAI_BASE_URL: modelUrl,
      PERDURE_MODEL: MODEL,
      PERDURE_AGENTS: fileURLToPath(new URL('./agents.ts', import.meta.url)),
      PERDURE_DIR: dir,
      PORT: String(port),
    },
    logDir: dir,
    graceMs: 5_000,
    say: () => {},
  });
  return { ...host, url: `http://127.0.0.1:${port}` };
}
