import path from 'node:path';
import { z } from 'zod';
import { MODEL_PATTERN } from '../domain/model-ref.ts';
import { DEFAULT_TASK_QUEUE, TASK_QUEUE_EXPECTED, TASK_QUEUE_PATTERN } from '../domain/task-queue.ts';
import { ConfigError, type ConfigProblem } from './error.ts';
import { nearest } from './nearest.ts';
import { origins } from './origins.ts';
import { HIDE_USERS_KEY_EXPECTED, isHideUsersKey } from './show-user.ts';
import { duration, durationWithin, integer, size, sizeWithin } from './units.ts';

/** Environment variables as `process.env` has them. */
export type Env = Record<string, string | undefined>;

const url = (protocols: string[], expected: string) =>
  z.string().refine((text) => URL.canParse(text) && protocols.includes(new URL(text).protocol), expected);
const postgresUrl = url(['postgres:', 'postgresql:'], 'a URL such as postgres://user:password@host:5432/database');
const httpUrl = url(['http:', 'https:'], 'a URL such as https://host/path');
const text = z.string();
const port = integer(0, 65_535);
const flag = z.enum(['true', 'false'], { error: 'true or false' }).transform((value) => value === 'true');
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
const logLevel = z.enum(LEVELS, { error: `one of ${LEVELS.join(', ')}` });

const SAVE_POLICIES = ['chunk', 'step', 'turn'] as const;
const SNAPSHOTS = ['copy', 'git', 'off'] as const;

const optionalText = text.optional();

/** Environment variable and schema of a setting; the value of a `path` is resolved to an absolute one. */
const setting = <S extends z.ZodType>(name: string, schema: S) => ({ name, schema, isPath: false });
const pathSetting = <S extends z.ZodType>(name: string, schema: S) => ({ name, schema, isPath: true });

/** Every setting. Durations are in milliseconds, sizes in bytes. Absent and empty variables are the same. */
const settings = {
  /** Postgres; unset: `npm start` runs its own, everything else refuses to start. */
  databaseUrl: setting('DATABASE_URL', postgresUrl.optional()),
  /** Postgres for LISTEN, past any pooler; unset: `databaseUrl`. */
  directDatabaseUrl: setting('PERDURE_DIRECT_DATABASE_URL', postgresUrl.optional()),
  /** Statements are prepared under names; undefined (auto): they are unless there is a pooler. */
  preparedStatements: setting(
    'PERDURE_PREPARED_STATEMENTS',
    z
      .enum(['auto', 'true', 'false'], { error: 'auto, true or false' })
      .default('auto')
      .transform((value) => (value === 'auto' ? undefined : value === 'true')),
  ),
  /** host:port of Temporal's frontend; unset: `npm start` runs its own, others use Temporal's own configuration. */
  temporalAddress: setting(
    'TEMPORAL_ADDRESS',
    text.regex(/^[^\s/]+:\d{1,5}$/, 'an address such as localhost:7233').optional(),
  ),
  temporalNamespace: setting('TEMPORAL_NAMESPACE', optionalText),
  /** Temporal's UI, for links of the console. */
  temporalUi: setting('PERDURE_TEMPORAL_UI', httpUrl.optional()),
  temporalApiKey: setting('TEMPORAL_API_KEY', optionalText),
  /** Temporal's task queue of this installation's sessions. */
  taskQueue: setting(
    'PERDURE_TASK_QUEUE',
    text.regex(TASK_QUEUE_PATTERN, TASK_QUEUE_EXPECTED).default(DEFAULT_TASK_QUEUE),
  ),
  /** Port of the chat page and API. */
  port: setting('PORT', port.default(8787)),
  /** Address that the host listens on. */
  host: setting('PERDURE_HOST', text.regex(/^\S+$/, 'an address to listen on such as 127.0.0.1').default('127.0.0.1')),
  /** Who callers on loopback are that name no user; unset: each browser is a user of its own. */
  user: setting(
    'PERDURE_USER',
    text.regex(/^[!-~](?:[ -~]{0,126}[!-~])?$/, '1 to 128 printable ASCII characters').optional(),
  ),
  /** Origins of other pages that may use the API with their visitors' credentials. */
  allowedOrigins: setting('PERDURE_ALLOWED_ORIGINS', origins.default([])),
  openaiApiKey: setting('OPENAI_API_KEY', optionalText),
  openaiBaseUrl: setting('OPENAI_BASE_URL', httpUrl.optional()),
  anthropicApiKey: setting('ANTHROPIC_API_KEY', optionalText),
  anthropicBaseUrl: setting('ANTHROPIC_BASE_URL', httpUrl.optional()),
  /** Folder for everything that Perdure stores on disk. */
  dir: pathSetting('PERDURE_DIR', text.default('.perdure')),
  /** Default model, `provider/model`; unset: the agent's own, else the rehearsal model. */
  model: setting('PERDURE_MODEL', text.regex(MODEL_PATTERN, 'a model such as openai/gpt-5').optional()),
  /** JSON file of models, read by `loadModels`. */
  modelsFile: pathSetting('PERDURE_MODELS', optionalText),
  /** Module whose default export is the array of agents. */
  agentsModule: pathSetting('PERDURE_AGENTS', optionalText),
  /** Module whose default export is an object of model providers by name. */
  providersModule: pathSetting('PERDURE_PROVIDERS', optionalText),
  /** A model call in which nothing arrives for this long is ended, and made again. */
  providerIdleMs: setting('PERDURE_PROVIDER_IDLE', duration('2m', 10).default(120_000)),
  /** Load agents again when their files change. */
  reload: setting('PERDURE_RELOAD', flag.default(false)),
  /** Parent folder of all workspaces; unset: `workspaces` in `dir`. */
  workspaces: pathSetting('PERDURE_WORKSPACES', optionalText),
  /** Instruction files that tools wrote enter prompts, too. */
  trustOwnInstructions: setting('PERDURE_TRUST_OWN_INSTRUCTIONS', flag.default(false)),
  /** Tools of MCP servers that have changed since an agent first saw them are left out. */
  refuseChangedTools: setting('PERDURE_REFUSE_CHANGED_TOOLS', flag.default(false)),
  /** How the reference agent keeps the files that its rewinds restore. */
  snapshots: setting('PERDURE_SNAPSHOTS', z.enum(SNAPSHOTS, { error: 'copy, git or off' }).default('copy')),
  /** Largest workspace of which it takes a snapshot. */
  maxSnapshotBytes: setting('PERDURE_MAX_SNAPSHOT', sizeWithin(1, 4_096).default(64 * 1024 ** 2)),
  idleCloseMs: setting('PERDURE_IDLE_CLOSE', duration('7d').default(7 * 86_400_000)),
  /** A work session is given up when it was given a task this long ago, and has reported nothing for `staleProgressMs`. */
  staleAssignmentMs: setting('PERDURE_STALE_ASSIGNMENT', duration('30m', 100).default(30 * 60_000)),
  staleProgressMs: setting('PERDURE_STALE_PROGRESS', duration('30m', 100).default(30 * 60_000)),
  maxBodyBytes: setting('PERDURE_MAX_BODY', size('1MiB').default(1024 ** 2)),
  /** Maximum body of POST /api/chat, of which only the last message is used. */
  maxTranscriptBytes: setting('PERDURE_MAX_TRANSCRIPT_BODY', size('32MiB').default(32 * 1024 ** 2)),
  maxMessageBytes: setting('PERDURE_MAX_MESSAGE', size('256KiB').default(256 * 1024)),
  /** Longest file that is attached. */
  maxFileBytes: setting('PERDURE_MAX_FILE', sizeWithin(1, 100).default(20 * 1024 ** 2)),
  /** Longest import of a session; unset: any. */
  maxImportBytes: setting('PERDURE_MAX_IMPORT', sizeWithin(1, 4_096).optional()),
  /** Bucket of an S3-compatible store for attachments, which `s3Of` reads; unset: they are in Postgres. */
  s3Url: setting('PERDURE_S3_URL', httpUrl.optional()),
  s3Region: setting('PERDURE_S3_REGION', text.regex(/^[\w-]+$/, 'a region such as eu-central-1').default('us-east-1')),
  s3AccessKeyId: setting('PERDURE_S3_ACCESS_KEY_ID', optionalText),
  s3SecretAccessKey: setting('PERDURE_S3_SECRET_ACCESS_KEY', optionalText),
  // RFC 7518, 3.2: as long as the hash of HS256.
  jwtSecret: setting(
    'PERDURE_JWT_SECRET',
    text.refine((secret) => Buffer.byteLength(secret) >= 32, 'a secret of at least 32 bytes').optional(),
  ),
  jwksUrl: setting('PERDURE_JWKS_URL', httpUrl.optional()),
  jwtIssuer: setting('PERDURE_JWT_ISSUER', optionalText),
  jwtAudience: setting('PERDURE_JWT_AUDIENCE', optionalText),
  /** Accept tokens without an expiry. */
  jwtAllowNoExp: setting('PERDURE_JWT_ALLOW_NO_EXP', flag.default(false)),
  continueAsNewEvents: setting('PERDURE_CONTINUE_AS_NEW_EVENTS', integer(20, 50_000).default(300)),
  /** A worker that has not renewed its lease for this long is lost, and its activities are retried. */
  leaseMs: setting('PERDURE_LEASE', durationWithin('300ms', '30s').default(750)),
  /** An activity without a heartbeat for this long is retried. */
  heartbeatTimeoutMs: setting('PERDURE_HEARTBEAT_TIMEOUT', duration('5s', 100).default(5_000)),
  shutdownGraceMs: setting('PERDURE_SHUTDOWN_GRACE', duration('10s', 0).default(10_000)),
  /** How long a stopping host continues to accept connections. */
  drainDelayMs: setting('PERDURE_DRAIN_DELAY', duration('5s', 0).default(0)),
  /** Maximum of a host's Postgres connections for messages and other commands. */
  commandConnections: setting('PERDURE_COMMAND_CONNECTIONS', integer(1, 1_000).default(10)),
  /** Maximum of a host's Postgres connections for reads. */
  readConnections: setting('PERDURE_READ_CONNECTIONS', integer(1, 1_000).default(10)),
  /** A reader that accepts no data for this long is disconnected. */
  readerTimeoutMs: setting('PERDURE_READER_TIMEOUT', duration('1m').default(60_000)),
  /** Maximum of open streams per user and host. */
  maxReaders: setting('PERDURE_MAX_READERS', integer(1, 1_000_000).default(200)),
  /** Maximum of requests in progress per host, without open streams. */
  maxRequests: setting('PERDURE_MAX_REQUESTS', integer(1, 100_000).default(2_000)),
  /** Deadline for receiving a whole request. */
  requestTimeoutMs: setting('PERDURE_REQUEST_TIMEOUT', duration('30s', 100).default(30_000)),
  /** Maximum of client connections per host. */
  maxConnections: setting('PERDURE_MAX_CONNECTIONS', integer(1, 1_000_000).default(10_000)),
  /** When an answer is saved and shown: while it streams, when each step is complete, or when the turn is over. */
  saveOn: setting('PERDURE_SAVE_ON', z.enum(SAVE_POLICIES, { error: 'chunk, step or turn' }).default('chunk')),
  /** A chunk of an answer is saved after at most this time. */
  saveBufferMs: setting('PERDURE_SAVE_BUFFER_MS', integer(0, 60_000).default(30)),
  /** Chunks of an answer are saved when this many are buffered. */
  saveBufferSize: setting('PERDURE_SAVE_BUFFER_SIZE', integer(1, 100_000).default(64)),
  /** Maximum of answers that a worker streams at once. */
  maxStreams: setting('PERDURE_MAX_STREAMS', integer(8, 1_000).default(1_000)),
  /** Maximum of subagents that a turn may call. */
  maxSubagents: setting('PERDURE_MAX_SUBAGENTS', integer(1, 1_000).default(16)),
  /** A worker whose event loop is later than this begins no further turns. */
  maxLagMs: setting('PERDURE_MAX_LAG', durationWithin('20ms', '10s').default(80)),
  /** Memory for the workflows of idle sessions in a worker. */
  sessionCacheBytes: setting('PERDURE_SESSION_CACHE', sizeWithin(4, 65_536).default(256 * 1024 ** 2)),
  /** The text search configuration of Postgres in which messages are indexed for the search. */
  searchLanguage: setting(
    'PERDURE_SEARCH_LANGUAGE',
    text
      .regex(/^[a-z_][a-z0-9_]{0,62}$/, 'a text search configuration of Postgres such as simple or english')
      .default('simple'),
  ),
  sweepIntervalMs: setting('PERDURE_SWEEP_INTERVAL', duration('1s', 10).default(1_000)),
  /** Refused commands are deleted from event logs at this age. */
  retentionRefusalsMs: setting('PERDURE_RETENTION_REFUSALS', duration('30d').default(30 * 86_400_000)),
  /** The full text of tool outputs that were truncated for the model is deleted at this age. */
  retentionOutputsMs: setting('PERDURE_RETENTION_OUTPUTS', duration('30d').default(30 * 86_400_000)),
  /** Temporal gets a digest of users' ids, keyed by `hideUsersKey`, which is set if and only if this is. */
  hideUsers: setting('PERDURE_HIDE_USERS', flag.default(false)),
  hideUsersKey: setting(
    'PERDURE_HIDE_USERS_KEY',
    text.refine(isHideUsersKey, `a key of ${HIDE_USERS_KEY_EXPECTED}`).optional(),
  ),
  logLevel: setting('PERDURE_LOG_LEVEL', logLevel.default('info')),
  metricsPort: setting('PERDURE_METRICS_PORT', port.optional()),
};

/** The names of all settings, in the order of their groups. */
export const SETTINGS: readonly string[] = Object.values(settings).map(({ name }) => name);

type Values = { [Key in keyof typeof settings]: z.output<(typeof settings)[Key]['schema']> };

/** The configuration. Durations are in milliseconds, sizes in bytes, paths absolute. */
export type Config = Values & {
  /** Parent folder of all workspaces. */
  workspaces: string;
  /** All TEMPORAL_* variables, for Temporal's envconfig (TLS, profile, …). */
  temporalEnv: Record<string, string>;
  /** PORT is set: a port in use is then an error. */
  portIsSet: boolean;
};

/**
 * Reads the configuration from an environment. Pure: relative paths are taken from `cwd`, nothing is read from disk.
 * @throws {ConfigError} naming every variable that cannot be used, never their values
 */
export function parseConfig(env: Env, cwd: string = process.cwd()): Config {
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) if (value !== undefined && value !== '') given[name] = value;
  const problems: ConfigProblem[] = [];
  const entries = Object.entries(settings).map(([key, { name, schema, isPath }]) => {
    const parsed = schema.safeParse(given[name]);
    if (!parsed.success) problems.push({ name, expected: parsed.error.issues[0]?.message ?? 'another value' });
    return [key, isPath && parsed.data !== undefined ? path.resolve(cwd, String(parsed.data)) : parsed.data];
  });
  problems.push(...misspelt(given), ...withoutEffect(given), ...withoutKey(given), ...withoutBucket(given));
  if (problems.length > 0) throw new ConfigError(problems);
  const values = Object.fromEntries(entries) as Values;
  return {
    ...values,
    directDatabaseUrl: values.directDatabaseUrl ?? values.databaseUrl,
    workspaces: values.workspaces ?? path.join(values.dir, 'workspaces'),
    temporalEnv: Object.fromEntries(Object.entries(given).filter(([name]) => name.startsWith('TEMPORAL_'))),
    portIsSet: 'PORT' in given,
  };
}

/** Settings that would have no effect: of tokens, and of chunks that are not saved. */
function withoutEffect(given: Record<string, string>): ConfigProblem[] {
  const verifies = ['PERDURE_JWT_SECRET', 'PERDURE_JWKS_URL'].filter((name) => name in given);
  if (verifies.length === 2) {
    return [{ name: 'PERDURE_JWKS_URL', expected: 'nothing when PERDURE_JWT_SECRET is set: one of them verifies' }];
  }
  const isVerified = verifies.length === 1;
  const unused = (isVerified ? ['PERDURE_USER'] : TOKEN_SETTINGS).filter((name) => name in given);
  const expected = `nothing ${isVerified ? 'when' : 'unless'} PERDURE_JWT_SECRET or PERDURE_JWKS_URL is set`;
  return [...unused.map((name) => ({ name, expected })), ...unusedBuffers(given)];
}

function unusedBuffers(given: Record<string, string>): ConfigProblem[] {
  if ((given['PERDURE_SAVE_ON'] ?? 'chunk') === 'chunk') return [];
  const names = ['PERDURE_SAVE_BUFFER_MS', 'PERDURE_SAVE_BUFFER_SIZE'].filter((name) => name in given);
  return names.map((name) => ({ name, expected: 'nothing unless PERDURE_SAVE_ON is chunk' }));
}

/** Hiding users needs a key, which has no effect without it. */
function withoutKey(given: Record<string, string>): ConfigProblem[] {
  const [isHiding, hasKey] = [given['PERDURE_HIDE_USERS'] === 'true', 'PERDURE_HIDE_USERS_KEY' in given];
  if (isHiding === hasKey) return [];
  const key = `a key of ${HIDE_USERS_KEY_EXPECTED}, because PERDURE_HIDE_USERS is true (it is not set)`;
  return [{ name: 'PERDURE_HIDE_USERS_KEY', expected: isHiding ? key : 'nothing unless PERDURE_HIDE_USERS is true' }];
}

/** A bucket needs both keys, and the keys a bucket. */
function withoutBucket(given: Record<string, string>): ConfigProblem[] {
  const hasBucket = 'PERDURE_S3_URL' in given;
  const others = hasBucket ? S3_KEYS : [...S3_KEYS, 'PERDURE_S3_REGION'];
  const expected = hasBucket
    ? 'a key, because PERDURE_S3_URL is set (it is not set)'
    : 'nothing unless PERDURE_S3_URL is set';
  return others.filter((name) => name in given !== hasBucket).map((name) => ({ name, expected }));
}

const S3_KEYS = ['PERDURE_S3_ACCESS_KEY_ID', 'PERDURE_S3_SECRET_ACCESS_KEY'];

/** Settings that have no effect unless tokens are verified. */
const TOKEN_SETTINGS = ['PERDURE_JWT_ISSUER', 'PERDURE_JWT_AUDIENCE', 'PERDURE_JWT_ALLOW_NO_EXP'];

/** Used by tests and tools only. */
const OTHERS = new Set(['PERDURE_CHROMIUM']);

/** Names with our prefix that are not settings: a misspelled setting would have no effect. */
function misspelt(given: Record<string, string>): ConfigProblem[] {
  return Object.keys(given)
    .filter((name) => name.startsWith('PERDURE_') && !SETTINGS.includes(name) && !OTHERS.has(name))
    .map((name) => ({ name, expected: `a known setting; the nearest is ${nearest(name, SETTINGS)}` }));
}

/** A configuration with a database, as worker, host and migrations need it. */
export type DatabaseConfig = Config & { databaseUrl: string; directDatabaseUrl: string };

/**
 * The config, with its database asserted.
 * @throws {ConfigError} when DATABASE_URL is not set
 */
export function requireDatabase(config: Config): DatabaseConfig {
  const { databaseUrl } = config;
  if (databaseUrl === undefined) {
    throw new ConfigError([
      { name: 'DATABASE_URL', expected: 'a URL such as postgres://user:password@host:5432/database (it is not set)' },
    ]);
  }
  return { ...config, databaseUrl, directDatabaseUrl: config.directDatabaseUrl ?? databaseUrl };
}
