// Every field that users may set: the test that shows its effect, and its place in the docs. The types make a field without
// an entry an error of `tsc`; fields that are not here are refused by name.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import type { AgentDefinition, Limits, ToolDefinition } from '../../agent/definition/define.ts';
import type { ClientOptions } from '../../client/options.ts';
import type { CatalogParts } from '../../host/catalog.ts';
import type { HostParts } from '../../host/context.ts';
import type { chatBody, openBody, submitBody } from '../../wire/requests.ts';
import type { WorkerOptions } from '../../worker/start.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');

/** A test file below the root, and the beginning of the test's name. */
type Shown = readonly [file: string, name: string];
type Fields<T> = Readonly<Record<keyof T, Shown>>;

const OPTIONS_TEST = 'test/worker/options.test.ts';
const REACHES_PROVIDER: Shown = [OPTIONS_TEST, 'P2 an agent’s prompt, tools, model, temperature and max_output_tokens'];
const MODEL: Shown = [OPTIONS_TEST, 'P2 the model is the message’s, else the session’s'];
const CHAT: Shown = ['test/http/without-temporal.test.ts', 'H8 opens a session at the first use of an alias'];
const SENT: Shown = ['test/http/without-temporal.test.ts', 'T3 keep the client’s id and their order'];
const OPENED: Shown = ['test/http/without-temporal.test.ts', 'H2 open with the given options and return'];
const METADATA: Shown = ['test/http/without-temporal.test.ts', 'H8 X2 have the session in their metadata'];
const GOING_BACK: Shown = ['test/http/rewind.test.ts', 'X1 H8 an edit replaces the message'];
const CLIENT_OPTIONS: Shown = ['test/client/client.test.ts', 'H5 refuses options that are out of range'];
const ONE_ANSWER: Shown = ['test/sessions/turns.test.ts', 'W1 one message gets one answer'];

const limits: Fields<Limits> = {
  steps: ['test/agent/run.test.ts', 'R7 a limit ends the turn'],
  tokens: ['test/agent/run.test.ts', 'R7 a limit ends the turn'],
  wall_clock_ms: ['test/faults/providers.test.ts', 'R7 wall_clock'],
  tool_output_bytes: ['test/faults/providers.test.ts', 'R7 the full text of a tool output over its limit'],
};

// `description` has no effect: it is for readers of the definition.
const agent: Fields<Omit<Required<AgentDefinition>, 'description'>> = {
  id: ['test/agent/agent-registry.test.ts', 'H9 an unknown agent is AgentNotConfigured'],
  mode: ['test/agent/agent-registry.test.ts', 'P2 mode says who may use an agent'],
  subagents: ['test/agent/agent-registry.test.ts', 'P4 subagents'],
  prompt: REACHES_PROVIDER,
  model: MODEL,
  temperature: REACHES_PROVIDER,
  max_output_tokens: REACHES_PROVIDER,
  timeout: ['test/agent/run.test.ts', 'P2 the agent’s timeout limits each model call'],
  tools: REACHES_PROVIDER,
  permissions: ['test/sessions/approvals.test.ts', 'P3 a rule of the manifest denies'],
  limits: limits.steps,
  skills: ['test/agent/skills.test.ts', 'P1 skills are listed by name and one line'],
  compaction: ['test/conversation/compaction.test.ts', 'X5 compact_at is a share of usable'],
  mcp: ['test/mcp/connections.test.ts', 'H15 the tools of a server are the agent’s'],
  initiative: ['test/initiatives/roles.test.ts', 'I7 a session of the role %s is offered'],
  instructions: ['test/agent/prompt.test.ts', 'P1 an agent with `instructions: false`'],
};

const tool: Fields<Required<ToolDefinition>> = {
  name: REACHES_PROVIDER,
  description: REACHES_PROVIDER,
  input: ['agent/tools/execute-tool.test.ts', 'P5 gets its parsed input'],
  execute: ['agent/tools/execute-tool.test.ts', 'P5 gets its parsed input'],
  permission: ['test/sessions/approvals.test.ts', 'P3 a rule of the manifest denies'],
  output: ['test/sessions/page-tools.test.ts', 'P5 an output that is not what the tool promises'],
  timeout: ['test/sessions/page-tools.test.ts', 'P5 a page that is too late'],
  protected: ['test/conversation/prune.test.ts', 'X9 replaces large outputs by their size'],
  repeatable: ['test/faults/killed-in-a-run.test.ts', 'R3 that had run and is repeatable'],
  raises: ['test/sessions/turns.test.ts', 'S5 a build moves through the phases'],
  project: ['test/agent/recorders.test.ts', 'R1 one message, in memory and stored'],
};

const open: Fields<typeof openBody.shape> = {
  agent: OPENED,
  project_id: OPENED,
  model: MODEL,
  workspace_root: ['test/attacks/paths.test.ts', 'Q3 is a folder below the caller’s own'],
  metadata: OPENED,
  headless: ['test/http/approvals.test.ts', 'P3 a headless session denies what asks'],
};

const message: Fields<typeof submitBody.shape> = {
  id: SENT,
  text: SENT,
  parts: SENT,
  metadata: METADATA,
  model: MODEL,
};

const chat: Fields<typeof chatBody.shape> = {
  id: CHAT,
  messages: ['test/http/turns.test.ts', 'H8 the stock DefaultChatTransport works'],
  trigger: GOING_BACK,
  messageId: GOING_BACK,
  agent: ['test/http/without-temporal.test.ts', 'H8 opens a session with the agent that the body names'],
  model: ['test/http/without-temporal.test.ts', 'H8 %s is refused with the field named'],
};

const startWorker: Fields<Required<WorkerOptions>> = {
  env: REACHES_PROVIDER,
  agents: REACHES_PROVIDER,
  providers: [OPTIONS_TEST, 'H5 providers add models'],
  hooks: [OPTIONS_TEST, 'H5 providers add models'],
  log: [OPTIONS_TEST, 'H5 moreMetrics are served'],
  moreMetrics: [OPTIONS_TEST, 'H5 moreMetrics are served'],
};

const createClient: Fields<Required<ClientOptions>> = {
  database: ['test/client/client.test.ts', 'H5 works with a pool of the caller'],
  temporal: ONE_ANSWER,
  hideUsersKey: ['test/faults/hidden-users.test.ts', 'W3 with PERDURE_HIDE_USERS'],
  taskQueue: ['test/deploys/two-installations.test.ts', 'W7 two installations in one namespace'],
  commandConnections: CLIENT_OPTIONS,
  readConnections: CLIENT_OPTIONS,
  preparedStatements: CLIENT_OPTIONS,
  bus: CLIENT_OPTIONS,
  directDatabaseUrl: CLIENT_OPTIONS,
  catalog: ['test/http/without-temporal.test.ts', 'H2 %j is refused with the problem named'],
  maxMessageBytes: ['test/http/without-temporal.test.ts', 'H2 an invalid message is refused'],
  maxFileBytes: ['test/http/attachments.test.ts', 'T10 %s is refused'],
  maxImportBytes: ['test/http/transfer.test.ts', 'T7 a body over the limit'],
  s3: ['test/http/attachments.test.ts', 'T10 X4 T9 is read again'],
  maxQueue: ['test/http/without-temporal.test.ts', 'W7 beyond the limit of the queue'],
  log: ['test/client/client.test.ts', 'R2 a stream that is opened while Postgres does not respond'],
};

const CATALOG: Shown = ['test/agent/agent-registry.test.ts', 'H9 an agent whose model nobody can resolve'];
const catalogOf: Fields<Required<CatalogParts>> = {
  agents: CATALOG,
  models: CATALOG,
  workspaces: ['test/attacks/paths.test.ts', 'Q3 is a folder below the caller’s own'],
};

const createHost: Fields<Required<HostParts>> = {
  client: CHAT,
  identify: ['test/http/tokens.test.ts', 'H3 uses the subject as user'],
  log: ['test/attacks/connections.test.ts', 'Q3 after all these attacks the host has logged no error'],
  metrics: ['test/operations/scrape.test.ts', 'H1 the metrics of a host include'],
  maxBodyBytes: ['test/attacks/connections.test.ts', 'Q3 is refused by its Content-Length'],
  maxTranscriptBytes: ['test/http/turns.test.ts', 'H8 the stock DefaultChatTransport works'],
  maxReaders: ['test/attacks/readers.test.ts', 'Q3 a user has a limited number of streams'],
  maxRequests: ['test/http/without-temporal.test.ts', 'Q2 a host with too many requests'],
  allowedOrigins: ['test/http/allowed-origins.test.ts', 'H3 an allowed origin is named exactly'],
  page: ['test/http/static-page.test.ts', 'H1 with its content type'],
  temporalWorkflows: ['test/http/console.test.ts', 'W6 a session with its epoch'],
  basePath: ['test/http/embedded.test.ts', 'H5 %s, serves a chat of useChat'],
  previews: ['test/http/files.test.ts', 'H6 serves files to a frame'],
};

const TABLES: readonly [page: string, about: string, fields: Readonly<Record<string, Shown>>][] = [
  ['library.md', 'an agent', agent],
  ['library.md', 'limits', limits],
  ['library.md', 'a tool', tool],
  ['http.md', 'POST /api/sessions', open],
  ['http.md', 'POST /api/sessions/:id/messages', message],
  ['http.md', 'POST /api/chat', chat],
  ['library.md', 'startWorker', startWorker],
  ['library.md', 'createClient', createClient],
  ['library.md', 'catalogOf', catalogOf],
  ['library.md', 'createHost', createHost],
];

it.each(TABLES)('H5 %s documents each field of %s, and a test shows its effect', async (page, _about, fields) => {
  const text = await readFile(path.join(ROOT, 'docs', page), 'utf8');
  for (const [field, [file, name]] of Object.entries(fields)) {
    expect(text, `docs/${page} on ${field}`).toMatch(new RegExp(`\`[^\`\n]*\\b${field}\\b[^\`\n]*\``));
    expect(await readFile(path.join(ROOT, file), 'utf8'), `the test of ${field}`).toContain(`'${name}`);
  }
});
