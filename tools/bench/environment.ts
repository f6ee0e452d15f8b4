import { fileURLToPath } from 'node:url';
import { MODEL, NAMESPACE } from './names.ts';

/** Addresses of the servers. */
interface Places {
  databaseUrl: string;
  temporalAddress: string;
  namespace?: string;
  modelUrl: string;
  /** Folder of the process's files and caches. */
  dir: string;
}

/** Environment of the measured workers, hosts and readers. */
export function environment({ databaseUrl, temporalAddress, namespace = NAMESPACE, modelUrl, dir }: Places) {
  return {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: temporalAddress,
    TEMPORAL_NAMESPACE: namespace,
    OPENAI_API_KEY: 'bench',
    OPENAI_BASE_URL: modelUrl,
    PERDURE_MODEL: MODEL,
    PERDURE_AGENTS: fileURLToPath(new URL('agents.ts', import.meta.url)),
    PERDURE_DIR: dir,
  };
}
