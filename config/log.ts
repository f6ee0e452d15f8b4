import { pino, type DestinationStream, type Logger } from 'pino';
import type { Config } from './config.ts';
import { hideSecrets, REDACTED, type Secrets } from './secrets.ts';

export type { Logger } from 'pino';

/** Fields that hold secrets wherever they stand in a logged object, one level down included. */
const SECRET_FIELDS = ['password', 'secret', 'token', 'apiKey', 'api_key', 'authorization', 'cookie', 'set-cookie'];

/** What `createLogger` reads of the configuration. */
type LogConfig = Pick<Config, 'logLevel'> & Secrets;

/**
 * A pino logger that writes JSON lines to stdout (or `destination`) and no secrets: neither fields named like one, nor
 * the configured values themselves, nor passwords in URLs, in whatever text they turn up.
 */
export function createLogger(name: string, config: LogConfig, destination?: DestinationStream): Logger {
  const hide = hideSecrets(config);
  return pino(
    {
      name,
      level: config.logLevel,
      serializers: { err: errorWithoutContent },
      redact: { paths: SECRET_FIELDS.flatMap((field) => [`["${field}"]`, `*["${field}"]`]), censor: REDACTED },
      hooks: { streamWrite: (line) => hide(withoutPasswords(line)) },
    },
    destination ?? pino.destination(1),
  );
}

/** A provider's errors carry prompts and answers, in their fields and in their words; a parser's quote what they met. */
const WITH_CONTENT = /^AI_|^SyntaxError$/;

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

/** The line without the password of any URL. Every address is looked at from its "//" on, so that long lines take no longer. */
function withoutPasswords(line: string): string {
  return line.replaceAll(/(:\/\/[^\s:@/"]*:)[^\s@/"]+@/g, `$1${REDACTED}@`);
}
