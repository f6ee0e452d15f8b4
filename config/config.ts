import path from 'node:path';
import { z } from 'zod';
import { ConfigError, type ConfigProblem } from './error.ts';
import { nearest } from './nearest.ts';
import { duration, integer, size } from './units.ts';

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
  /** host:port of Temporal's frontend; unset: `npm start` runs its own, others use Temporal's own configuration. */
  temporalAddress: setting(
    'TEMPORAL_ADDRESS',
    text.regex(/^[^\s/]+:\d{1,5}$/, 'an address such as localhost:7233').optional(),
  ),
  temporalNamespace: setting('TEMPORAL_NAMESPACE', optionalText),
  temporalApiKey: setting('TEMPORAL_API_KEY', optionalText),
  /** Port of the chat page and API. */
  port: setting('PORT', port.default(8787)),
  /** Address that the host listens on. */
  host: setting('PERDURE_HOST', text.regex(/^\S+$/, 'an address to listen on such as 127.0.0.1').default('127.0.0.1')),
  openaiApiKey: setting('OPENAI_API_KEY', optionalText),
  openaiBaseUrl: setting('OPENAI_BASE_URL', httpUrl.optional()),
  anthropicApiKey: setting('ANTHROPIC_API_KEY', optionalText),
  anthropicBaseUrl: setting('ANTHROPIC_BASE_URL', httpUrl.optional()),
  /** Folder for everything that Perdure stores on disk. */
  dir: pathSetting('PERDURE_DIR', text.default('.perdure')),
  /** Default model, `provider/model`; unset: the agent's own, else the rehearsal model. */
  model: setting('PERDURE_MODEL', text.regex(/^[^/\s]+\/\S+$/, 'a model such as openai/gpt-5').optional()),
  /** JSON file of models, read by `loadModels`. */
  modelsFile: pathSetting('PERDURE_MODELS', optionalText),
  /** Module whose default export is the array of agents. */
  agentsModule: pathSetting('PERDURE_AGENTS', optionalText),
  /** Parent folder of all workspaces; unset: `workspaces` in `dir`. */
  workspaces: pathSetting('PERDURE_WORKSPACES', optionalText),
  idleCloseMs: setting('PERDURE_IDLE_CLOSE', duration('7d').default(7 * 86_400_000)),
  maxBodyBytes: setting('PERDURE_MAX_BODY', size('1MiB').default(1024 ** 2)),
  /** Maximum body of POST /api/chat, of which only the last message is used. */
  maxTranscriptBytes: setting('PERDURE_MAX_TRANSCRIPT_BODY', size('32MiB').default(32 * 1024 ** 2)),
  maxMessageBytes: setting('PERDURE_MAX_MESSAGE', size('256KiB').default(256 * 1024)),
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
  heartbeatTimeoutMs: setting('PERDURE_HEARTBEAT_TIMEOUT', duration('2s', 100).default(2_000)),
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
  /** Deadline for receiving a whole request. */
  requestTimeoutMs: setting('PERDURE_REQUEST_TIMEOUT', duration('30s', 100).default(30_000)),
  /** Maximum of client connections per host. */
  maxConnections: setting('PERDURE_MAX_CONNECTIONS', integer(1, 1_000_000).default(10_000)),
  /** A chunk of an answer is saved after at most this time. */
  saveBufferMs: setting('PERDURE_SAVE_BUFFER_MS', integer(0, 60_000).default(30)),
  /** Chunks of an answer are saved when this many are buffered. */
  saveBufferSize: setting('PERDURE_SAVE_BUFFER_SIZE', integer(1, 100_000).default(64)),
  sweepIntervalMs: setting('PERDURE_SWEEP_INTERVAL', duration('1s', 10).default(1_000)),
  /** Refused commands are deleted from event logs at this age. */
  retentionRefusalsMs: setting('PERDURE_RETENTION_REFUSALS', duration('30d').default(30 * 86_400_000)),
  /** The full text of tool outputs that were truncated for the model is deleted at this age. */
  retentionOutputsMs: setting('PERDURE_RETENTION_OUTPUTS', duration('30d').default(30 * 86_400_000)),
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
  problems.push(...misspelt(given), ...withoutEffect(given));
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

/** Token settings that would have no effect. */
function withoutEffect(given: Record<string, string>): ConfigProblem[] {
  const verifies = ['PERDURE_JWT_SECRET', 'PERDURE_JWKS_URL'].filter((name) => name in given);
  if (verifies.length === 2) {
    return [{ name: 'PERDURE_JWKS_URL', expected: 'nothing when PERDURE_JWT_SECRET is set: one of them verifies' }];
  }
  const unused = verifies.length === 1 ? [] : TOKEN_SETTINGS.filter((name) => name in given);
  const expected = 'nothing unless PERDURE_JWT_SECRET or PERDURE_JWKS_URL is set';
  return unused.map((name) => ({ name, expected }));
}

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
