import { fileURLToPath } from 'node:url';
import { MODEL, NAMESPACE } from './names.ts';

/** Where the servers are of whom the settings are for. */
interface Places {
  databaseUrl: string;
  temporalAddress: string;
  namespace?: string;
  modelUrl: string;
  /** What a process keeps on disk, and where it finds what others have kept. */
  dir: string;
}

/** The settings of workers, hosts and readers that are measured. */
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
