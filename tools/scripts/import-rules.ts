/** What a folder's code may import besides the folder's own files. */
export type FolderRule = {
  /** Folders, or single files, of this repository. */
  own: readonly string[];
  /** Packages; a trailing `*` stands for any rest of the name. */
  packages: readonly string[] | 'any';
  /** Folders and packages from which only types may be imported. */
  typesOf?: readonly string[];
};

/** Packages that besides a folder's own only files of one room may import. */
export const PACKAGES_OF_ROOMS: Readonly<Record<string, readonly string[]>> = {
  'agent/compaction': ['gpt-tokenizer'],
  'agent/definition': ['@cfworker/json-schema'],
  'agent/mcp': ['@modelcontextprotocol/*', 'p-timeout'],
  'agent/models': ['@ai-sdk/*'],
  'agent/provider-stream': ['eventsource-parser', 'p-timeout'],
  'agent/skills': ['yaml'],
  'client/planning': ['modern-tar'],
  'client/send': ['@temporalio/common', 'p-retry'],
  'client/state-file': ['yaml'],
  'host/api': ['zod-openapi'],
  'host/auth': ['jose'],
  'host/files': ['jose'],
  'host/http': ['@fastify/busboy'],
  'host/mcp': ['@modelcontextprotocol/*'],
};

/** The folders that client, host, worker and web are built on. */
const INNER_FOLDERS = ['domain', 'wire', 'workspaces', 'workflows', 'agent', 'store', 'bus', 'activities', 'config'];

/** Folders that may import anything. Product code cannot import them, because no rule names them. */
export const UNRESTRICTED: ReadonlySet<string> = new Set(['test', 'tools']);

export const MOST_TOP_FOLDERS = 20;

/** What tests next to the code must not import, directly or through other files: sockets, processes, databases, servers. */
export const NOT_IN_UNIT_TESTS: ReadonlySet<string> = new Set([
  ...['node:http', 'node:https', 'node:http2', 'node:net', 'node:child_process', 'node:worker_threads', 'node:cluster'],
  ...['@hono/node-server', '@temporalio/client', '@temporalio/testing', '@temporalio/worker', 'pg', 'playwright-core'],
]);

/** What each folder may import, as drawn in docs/architecture.md. Dependencies go down only: host → client → store → domain. */
export const IMPORT_RULES: Readonly<Record<string, FolderRule>> = {
  // Pure rules: the workflow sandbox and the chat page import them too.
  domain: { own: [], packages: [], typesOf: ['ai'] },
  // Schemas of HTTP requests and responses.
  wire: { own: ['domain'], packages: ['zod'] },
  // Paths and files of workspaces on disk.
  workspaces: { own: ['domain'], packages: [] },
  config: {
    own: ['domain'],
    packages: ['@grpc/grpc-js', 'zod', 'pino', 'pg', 'p-retry', '@temporalio/envconfig', '@temporalio/client'],
  },
  workflows: { own: ['domain'], packages: ['@temporalio/workflow', '@temporalio/common'] },
  agent: { own: ['domain'], packages: ['ai', 'zod'] },
  store: { own: ['domain', 'wire'], packages: ['aws4fetch', 'p-timeout', 'pg', 'zod'] },
  // Parses a tool input that is still streaming as the AI SDK's readers do.
  'store/settle-part-data.ts': { own: ['domain'], packages: ['ai'] },
  bus: { own: ['domain'], packages: ['pg', 'prom-client', 'zod'] },
  activities: {
    own: ['agent', 'store', 'bus', 'domain', 'workspaces'],
    packages: [
      '@temporalio/activity',
      '@temporalio/common',
      'ai',
      'p-limit',
      'p-retry',
      'p-timeout',
      'pg',
      'pino',
      'prom-client',
    ],
    typesOf: ['@temporalio/worker'],
  },
  worker: {
    own: [...INNER_FOLDERS, 'examples', 'migrations/migrate.ts', 'client/send/send-update.ts', 'client/initiatives'],
    packages: 'any',
  },
  client: {
    own: ['store', 'bus', 'domain', 'wire', 'config', 'workspaces', 'workflows/definitions.ts', 'workflows/start.ts'],
    packages: ['@temporalio/client', 'p-timeout', 'pg', 'zod'],
    typesOf: ['ai'],
  },
  'client/state/adk.ts': { own: ['client'], packages: ['@google/adk'] },
  // For browsers.
  'client/chat.ts': { own: ['domain'], packages: ['ai'] },
  host: {
    own: ['client', 'domain', 'wire', 'config', 'workspaces', 'store/is-temporary.ts'],
    packages: ['@hono/*', 'ai', 'hono', 'prom-client', 'zod'],
  },
  // Builds the host's view of the agents and models that the workers run.
  'host/catalog.ts': { own: ['agent', 'client'], packages: [] },
  // The entry point, which assembles the process.
  'host/main.ts': { own: [...INNER_FOLDERS, 'client', 'host', 'examples'], packages: 'any' },
  web: {
    own: ['domain'],
    packages: [
      '@ai-sdk/react',
      '@base-ui/react',
      '@heroicons/react',
      'ai',
      'diff',
      'eventsource-parser',
      'hast-util-to-jsx-runtime',
      'katex',
      'lowlight',
      'marked',
      'mermaid',
      'react',
      'react-dom',
      'react-markdown',
      'remark-gfm',
      'remend',
      'uplot',
      'virtua',
      'zod',
    ],
    typesOf: [...INNER_FOLDERS, 'host'],
  },
  examples: { own: ['agent', 'domain', 'workspaces'], packages: ['zod'] },
  // Servers and processes of a development machine, and the program that starts them.
  dev: {
    own: [...INNER_FOLDERS, 'client', 'host', 'worker', 'migrations', 'examples', 'deploy'],
    packages: 'any',
  },
  migrations: { own: ['domain', 'config'], packages: ['pg', '@temporalio/client'] },
};
