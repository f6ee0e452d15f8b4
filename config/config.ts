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

/** Every variable that Perdure reads, by name. Absent and empty are the same. */
const variables = {
  DATABASE_URL: postgresUrl.optional(),
  PERDURE_DIRECT_DATABASE_URL: postgresUrl.optional(),
  TEMPORAL_ADDRESS: z
    .string()
    .regex(/^[^\s/]+:\d{1,5}$/, 'an address such as localhost:7233')
    .optional(),
  TEMPORAL_NAMESPACE: text.optional(),
  TEMPORAL_API_KEY: text.optional(),
  PORT: port.optional(),
  PERDURE_HOST: z.string().regex(/^\S+$/, 'an address to listen on such as 127.0.0.1').default('127.0.0.1'),
  OPENAI_API_KEY: text.optional(),
  OPENAI_BASE_URL: httpUrl.optional(),
  ANTHROPIC_API_KEY: text.optional(),
  ANTHROPIC_BASE_URL: httpUrl.optional(),
  PERDURE_DIR: text.default('.perdure'),
  PERDURE_MODEL: z
    .string()
    .regex(/^[^/\s]+\/\S+$/, 'a model such as openai/gpt-5')
    .optional(),
  PERDURE_MODELS: text.optional(),
  PERDURE_AGENTS: text.optional(),
  PERDURE_WORKSPACES: text.optional(),
  PERDURE_IDLE_CLOSE: duration('7d').default(7 * 86_400_000),
  PERDURE_MAX_BODY: size('1MiB').default(1024 ** 2),
  PERDURE_MAX_TRANSCRIPT_BODY: size('32MiB').default(32 * 1024 ** 2),
  PERDURE_MAX_MESSAGE: size('256KiB').default(256 * 1024),
  // RFC 7518, 3.2: as long as the hash of HS256.
  PERDURE_JWT_SECRET: text
    .refine((secret) => Buffer.byteLength(secret) >= 32, 'a secret of at least 32 bytes')
    .optional(),
  PERDURE_JWKS_URL: httpUrl.optional(),
  PERDURE_JWT_ISSUER: text.optional(),
  PERDURE_JWT_AUDIENCE: text.optional(),
  PERDURE_JWT_ALLOW_NO_EXP: z.enum(['true', 'false'], { error: 'true or false' }).default('false'),
  PERDURE_CONTINUE_AS_NEW_EVENTS: integer(20, 50_000).default(300),
  PERDURE_HEARTBEAT_TIMEOUT: duration('2s', 100).default(2_000),
  PERDURE_SHUTDOWN_GRACE: duration('10s', 0).default(10_000),
  PERDURE_DRAIN_DELAY: duration('5s', 0).default(0),
  PERDURE_COMMAND_CONNECTIONS: integer(1, 1_000).default(10),
  PERDURE_READ_CONNECTIONS: integer(1, 1_000).default(10),
  PERDURE_READER_TIMEOUT: duration('1m').default(60_000),
  PERDURE_MAX_READERS: integer(1, 1_000_000).default(200),
  PERDURE_REQUEST_TIMEOUT: duration('30s', 100).default(30_000),
  PERDURE_MAX_CONNECTIONS: integer(1, 1_000_000).default(10_000),
  PERDURE_SAVE_BUFFER_MS: integer(0, 60_000).default(30),
  PERDURE_SAVE_BUFFER_SIZE: integer(1, 100_000).default(64),
  PERDURE_SWEEP_INTERVAL: duration('1s', 10).default(1_000),
  PERDURE_RETENTION_REFUSALS: duration('30d').default(30 * 86_400_000),
  PERDURE_RETENTION_OUTPUTS: duration('30d').default(30 * 86_400_000),
  PERDURE_LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      error: 'one of trace, debug, info, warn, error, fatal, silent',
    })
    .default('info'),
  PERDURE_METRICS_PORT: port.optional(),
};

const environment = z.object(variables);

/** The names of all settings, in the order of their groups. */
export const SETTINGS: readonly string[] = Object.keys(variables);

/** The configuration. Durations are in milliseconds, sizes in bytes, paths absolute. */
export type Config = {
  /** Postgres; unset: `npm start` runs its own, everything else refuses to start. */
  databaseUrl: string | undefined;
  /** Postgres for LISTEN, past any pooler; falls back to `databaseUrl`. */
  directDatabaseUrl: string | undefined;
  /** host:port of Temporal's frontend; unset: `npm start` runs its own, others use Temporal's own configuration. */
  temporalAddress: string | undefined;
  temporalNamespace: string | undefined;
  temporalApiKey: string | undefined;
  /** All TEMPORAL_* variables, for Temporal's envconfig (TLS, profile, …). */
  temporalEnv: Record<string, string>;
  port: number;
  /** True when PORT is set: a port in use is then an error. */
  portIsSet: boolean;
  /** Address the host binds. */
  host: string;
  openaiApiKey: string | undefined;
  openaiBaseUrl: string | undefined;
  anthropicApiKey: string | undefined;
  anthropicBaseUrl: string | undefined;
  /** Folder for everything that Perdure stores on disk. */
  dir: string;
  /** Default model, `provider/model`; unset: the agent's own, else the rehearsal model. */
  model: string | undefined;
  /** JSON file of models, read by `loadModels`. */
  modelsFile: string | undefined;
  /** Module whose default export is the array of agents. */
  agentsModule: string | undefined;
  /** Parent folder of all workspaces. */
  workspaces: string;
  idleCloseMs: number;
  maxBodyBytes: number;
  /** Maximum body of POST /api/chat, of which only the last message is used. */
  maxTranscriptBytes: number;
  maxMessageBytes: number;
  jwtSecret: string | undefined;
  jwksUrl: string | undefined;
  jwtIssuer: string | undefined;
  jwtAudience: string | undefined;
  /** Accept tokens without an expiry. */
  jwtAllowNoExp: boolean;
  continueAsNewEvents: number;
  heartbeatTimeoutMs: number;
  shutdownGraceMs: number;
  /** How long a stopping host continues to accept connections. */
  drainDelayMs: number;
  /** Maximum of a host's Postgres connections for messages and other commands. */
  commandConnections: number;
  /** Maximum of a host's Postgres connections for reads. */
  readConnections: number;
  /** A reader that accepts no data for this long is disconnected. */
  readerTimeoutMs: number;
  /** Maximum of open streams per user and host. */
  maxReaders: number;
  /** Deadline for receiving a whole request. */
  requestTimeoutMs: number;
  /** Maximum of client connections per host. */
  maxConnections: number;
  /** A chunk of an answer is saved after at most this time. */
  saveBufferMs: number;
  /** Chunks of an answer are saved when this many are buffered. */
  saveBufferSize: number;
  sweepIntervalMs: number;
  /** Refused commands are deleted from event logs at this age. */
  retentionRefusalsMs: number;
  /** The full text of tool outputs that were truncated for the model is deleted at this age. */
  retentionOutputsMs: number;
  logLevel: LogLevel;
  metricsPort: number | undefined;
};

/** Pino's levels. */
export type LogLevel = z.infer<typeof variables.PERDURE_LOG_LEVEL>;

/** Port of the chat page and API when PORT is not given. */
const DEFAULT_PORT = 8787;

/**
 * Reads the configuration from an environment. Pure: relative paths are taken from `cwd`, nothing is read from disk.
 * @throws {ConfigError} naming every variable that cannot be used, never their values
 */
export function parseConfig(env: Env, cwd: string = process.cwd()): Config {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = environment.safeParse(given);
  const problems = parsed.success ? [] : parsed.error.issues.map(problemOf);
  problems.push(...misspelt(Object.keys(given)));
  if (given['PERDURE_JWT_SECRET'] && given['PERDURE_JWKS_URL']) {
    problems.push({
      name: 'PERDURE_JWKS_URL',
      expected: 'nothing when PERDURE_JWT_SECRET is set: one of them verifies',
    });
  }
  if (!given['PERDURE_JWT_SECRET'] && !given['PERDURE_JWKS_URL']) {
    const expected = 'nothing unless PERDURE_JWT_SECRET or PERDURE_JWKS_URL is set';
    problems.push(...TOKEN_SETTINGS.filter((name) => given[name]).map((name) => ({ name, expected })));
  }
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  return configOf(parsed.data, given as Record<string, string>, cwd);
}

/** Settings that have no effect unless tokens are verified. */
const TOKEN_SETTINGS = ['PERDURE_JWT_ISSUER', 'PERDURE_JWT_AUDIENCE', 'PERDURE_JWT_ALLOW_NO_EXP'];

/** Used by tests and tools only. */
const OTHERS = new Set(['PERDURE_CHROMIUM']);

/** Names with our prefix that are not settings: a misspelled setting would have no effect. */
function misspelt(given: string[]): ConfigProblem[] {
  const names = Object.keys(variables);
  return given
    .filter((name) => name.startsWith('PERDURE_') && !names.includes(name) && !OTHERS.has(name))
    .map((name) => ({ name, expected: `a known setting; the nearest is ${nearest(name, names)}` }));
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

function problemOf(issue: z.core.$ZodIssue): ConfigProblem {
  return { name: issue.path.join('.'), expected: issue.message };
}

function configOf(vars: z.infer<typeof environment>, env: Record<string, string>, cwd: string): Config {
  const absolute = (file: string) => path.resolve(cwd, file);
  const dir = absolute(vars.PERDURE_DIR);
  return {
    databaseUrl: vars.DATABASE_URL,
    directDatabaseUrl: vars.PERDURE_DIRECT_DATABASE_URL ?? vars.DATABASE_URL,
    temporalAddress: vars.TEMPORAL_ADDRESS,
    temporalNamespace: vars.TEMPORAL_NAMESPACE,
    temporalApiKey: vars.TEMPORAL_API_KEY,
    temporalEnv: Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('TEMPORAL_'))),
    port: vars.PORT ?? DEFAULT_PORT,
    portIsSet: vars.PORT !== undefined,
    host: vars.PERDURE_HOST,
    openaiApiKey: vars.OPENAI_API_KEY,
    openaiBaseUrl: vars.OPENAI_BASE_URL,
    anthropicApiKey: vars.ANTHROPIC_API_KEY,
    anthropicBaseUrl: vars.ANTHROPIC_BASE_URL,
    dir,
    model: vars.PERDURE_MODEL,
    modelsFile: vars.PERDURE_MODELS && absolute(vars.PERDURE_MODELS),
    agentsModule: vars.PERDURE_AGENTS && absolute(vars.PERDURE_AGENTS),
    workspaces: vars.PERDURE_WORKSPACES ? absolute(vars.PERDURE_WORKSPACES) : path.join(dir, 'workspaces'),
    idleCloseMs: vars.PERDURE_IDLE_CLOSE,
    maxBodyBytes: vars.PERDURE_MAX_BODY,
    maxTranscriptBytes: vars.PERDURE_MAX_TRANSCRIPT_BODY,
    maxMessageBytes: vars.PERDURE_MAX_MESSAGE,
    jwtSecret: vars.PERDURE_JWT_SECRET,
    jwksUrl: vars.PERDURE_JWKS_URL,
    jwtIssuer: vars.PERDURE_JWT_ISSUER,
    jwtAudience: vars.PERDURE_JWT_AUDIENCE,
    jwtAllowNoExp: vars.PERDURE_JWT_ALLOW_NO_EXP === 'true',
    continueAsNewEvents: vars.PERDURE_CONTINUE_AS_NEW_EVENTS,
    heartbeatTimeoutMs: vars.PERDURE_HEARTBEAT_TIMEOUT,
    shutdownGraceMs: vars.PERDURE_SHUTDOWN_GRACE,
    drainDelayMs: vars.PERDURE_DRAIN_DELAY,
    commandConnections: vars.PERDURE_COMMAND_CONNECTIONS,
    readConnections: vars.PERDURE_READ_CONNECTIONS,
    readerTimeoutMs: vars.PERDURE_READER_TIMEOUT,
    maxReaders: vars.PERDURE_MAX_READERS,
    requestTimeoutMs: vars.PERDURE_REQUEST_TIMEOUT,
    maxConnections: vars.PERDURE_MAX_CONNECTIONS,
    saveBufferMs: vars.PERDURE_SAVE_BUFFER_MS,
    saveBufferSize: vars.PERDURE_SAVE_BUFFER_SIZE,
    sweepIntervalMs: vars.PERDURE_SWEEP_INTERVAL,
    retentionRefusalsMs: vars.PERDURE_RETENTION_REFUSALS,
    retentionOutputsMs: vars.PERDURE_RETENTION_OUTPUTS,
    logLevel: vars.PERDURE_LOG_LEVEL,
    metricsPort: vars.PERDURE_METRICS_PORT,
  };
}
