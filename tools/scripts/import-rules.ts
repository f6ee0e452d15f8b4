/** What one folder's code may import; its own files it always may. Tests and what only serves development may anything. */
export type FolderRule = {
  /** Folders, or single files, of this repository. */
  own: readonly string[];
  /** Packages; a trailing `*` takes all that begin so. */
  packages: readonly string[] | 'any';
  /** Folders and packages of which only types. */
  typesOf?: readonly string[];
};

const ALL_BUT_FACES = ['domain', 'wire', 'workspaces', 'workflows', 'agent', 'store', 'bus', 'activities', 'config'];

/** The table of docs/architecture.md. Dependencies go down only: host → client → store → domain. */
export const IMPORT_RULES: Readonly<Record<string, FolderRule>> = {
  // Pure rules: the workflow sandbox and the chat page import them too.
  domain: { own: [], packages: [], typesOf: ['ai'] },
  // Schemas of what is sent and answered over HTTP.
  wire: { own: ['domain'], packages: ['zod'] },
  // What is on disk of workspaces, for whoever opens it.
  workspaces: { own: ['domain'], packages: [] },
  config: { own: ['domain'], packages: ['zod', 'pino', '@temporalio/envconfig', '@temporalio/client'] },
  workflows: { own: ['domain'], packages: ['@temporalio/workflow', '@temporalio/common'] },
  agent: { own: ['domain'], packages: ['ai', '@ai-sdk/*', 'zod'] },
  store: { own: ['domain', 'wire'], packages: ['pg', 'zod'] },
  bus: { own: ['domain'], packages: ['pg', 'redis', 'zod'] },
  activities: {
    own: ['agent', 'store', 'bus', 'domain', 'workspaces'],
    packages: ['@temporalio/activity', '@temporalio/common', 'ai', 'pg', 'pino', 'prom-client', 'zod'],
    typesOf: ['@temporalio/worker'],
  },
  worker: { own: [...ALL_BUT_FACES, 'examples', 'migrations/migrate.ts'], packages: 'any' },
  client: {
    own: ['store', 'bus', 'domain', 'wire', 'config', 'workspaces', 'workflows/definitions.ts', 'workflows/start.ts'],
    packages: ['@temporalio/client', '@temporalio/common', 'pg', 'zod'],
    typesOf: ['ai'],
  },
  host: {
    own: ['client', 'domain', 'wire', 'config', 'workspaces'],
    packages: ['@hono/*', 'ai', 'hono', 'jose', 'pino', 'prom-client', 'zod', 'zod-openapi'],
  },
  // Where a process is put together.
  'host/main.ts': { own: [...ALL_BUT_FACES, 'client', 'host', 'examples'], packages: 'any' },
  web: {
    own: ['domain'],
    packages: [
      '@ai-sdk/react',
      'ai',
      'eventsource-parser',
      'react',
      'react-dom',
      'react-markdown',
      'remark-gfm',
      'remend',
      'zod',
    ],
    typesOf: [...ALL_BUT_FACES, 'host'],
  },
  examples: { own: ['agent', 'domain', 'workspaces'], packages: ['zod'] },
  migrations: { own: ['domain', 'config'], packages: ['pg', '@temporalio/client'] },
};
