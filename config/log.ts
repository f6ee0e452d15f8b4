import { pino, type DestinationStream, type Logger } from 'pino';
import type { Config } from './config.ts';

export type { Logger } from 'pino';

/** Fields that hold secrets wherever they stand in a logged object, one level down included. */
const SECRET_FIELDS = ['password', 'secret', 'token', 'apiKey', 'api_key', 'authorization', 'cookie', 'set-cookie'];
const REDACTED = '[redacted]';
/** Shorter values are too likely to be part of an ordinary word. */
const SHORTEST_SECRET = 6;

/** What `createLogger` reads of the configuration. */
type LogConfig = Pick<Config, 'logLevel'> & Partial<Config>;

/**
 * A pino logger that writes JSON lines to stdout (or `destination`) and no secrets: neither fields named like one, nor
 * the configured values themselves, nor passwords in URLs, in whatever text they turn up.
 */
export function createLogger(name: string, config: LogConfig, destination?: DestinationStream): Logger {
  const scrub = scrubber(secretsOf(config));
  return pino(
    {
      name,
      level: config.logLevel,
      serializers: { err: errorWithoutContent },
      redact: { paths: SECRET_FIELDS.flatMap((field) => [`["${field}"]`, `*["${field}"]`]), censor: REDACTED },
      hooks: { streamWrite: scrub },
    },
    destination ?? pino.destination(1),
  );
}

/** A provider's errors carry prompts and answers, in their fields and in their words. */
const WITH_CONTENT = /^AI_/;

/** Of an error only what we know to hold no content: its kind, its words unless they are a provider's, where it was. */
function errorWithoutContent(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, message, stack = '', cause } = error;
  const { code } = error as { code?: unknown };
  const quotes = WITH_CONTENT.test(name);
  return {
    type: name,
    message: quotes ? name : message,
    stack: quotes
      ? stack
          .split('\n')
          .filter((line) => /^\s+at /.test(line))
          .join('\n')
      : stack,
    ...(typeof code === 'string' && { code }),
    ...(cause instanceof Error && { cause: errorWithoutContent(cause) }),
  };
}

/** The configured values that must not be seen anywhere. */
function secretsOf(config: LogConfig): string[] {
  const urls = [config.databaseUrl, config.directDatabaseUrl].flatMap((url) => (url ? [new URL(url).password] : []));
  const secrets = [config.openaiApiKey, config.anthropicApiKey, config.temporalApiKey, config.jwtSecret, ...urls];
  return secrets.filter((secret) => secret !== undefined && secret.length >= SHORTEST_SECRET) as string[];
}

/** Replaces the given secrets, and the password of any URL, in a line of JSON. */
function scrubber(secrets: string[]): (line: string) => string {
  // A secret stands in the line as JSON has escaped it.
  const written = [...new Set(secrets.map((secret) => JSON.stringify(secret).slice(1, -1)))];
  return (line) => {
    let clean = line.replaceAll(/(\w+:\/\/[^\s:@/"]*:)[^\s@/"]+@/g, `$1${REDACTED}@`);
    for (const secret of written) clean = clean.replaceAll(secret, REDACTED);
    return clean;
  };
}
