import { setTimeout as sleep } from 'node:timers/promises';
import { pino, type DestinationStream, type Logger } from 'pino';
import { changeStrings } from '../domain/change-strings.ts';
import type { Config } from './config.ts';
import { hideSecrets, REDACTED, type Secrets, secretsIn, settingsTooShortToHide } from './secrets.ts';

export type { Logger } from 'pino';

/** Fields whose values are secrets, at the top of a logged object or one level down. */
const SECRET_FIELDS = ['password', 'secret', 'token', 'apiKey', 'api_key', 'authorization', 'cookie', 'set-cookie'];

/** The settings that `createLogger` uses. */
type LogConfig = Pick<Config, 'logLevel'> & Secrets;

/**
 * A pino logger that writes JSON lines to stdout (or `destination`) without secrets: it removes the values of fields with
 * a secret's name, configured secrets in any string, and passwords and tokens in URLs. Warns of secrets too short to be removed.
 */
export function createLogger(name: string, config: LogConfig, destination?: DestinationStream): Logger {
  const log = loggerOf(name, config, destination);
  const short = settingsTooShortToHide(config);
  if (short.length > 0) {
    log.warn({ settings: short }, 'a secret of fewer than 6 characters is not removed from logs and tool outcomes');
  }
  return log;
}

/** The logger of a program itself, which may have no valid configuration: without the secrets of its environment. */
export function createProcessLogger(name: string, destination?: DestinationStream): Logger {
  return loggerOf(name, { logLevel: 'info', ...secretsIn(process.env) }, destination);
}

function loggerOf(name: string, config: LogConfig, destination: DestinationStream | undefined): Logger {
  const hide = hideSecrets(config);
  return pino(
    {
      name,
      level: config.logLevel,
      serializers: { err: errorWithoutContent },
      redact: { paths: SECRET_FIELDS.flatMap((field) => [`["${field}"]`, `*["${field}"]`]), censor: REDACTED },
      hooks: { streamWrite: (line) => changeStrings(withoutPasswords(line), hide) },
    },
    destination ?? stdout(),
  );
}

type Destination = ReturnType<typeof pino.destination>;

let stdoutDestination: Destination | undefined;

/** One for all loggers of the process, so that their lines stay in order. It writes in the background: a reader may stall. */
function stdout(): Destination {
  // With `minLength`, its `flush` tells when the lines have been written.
  return (stdoutDestination ??= pino.destination({ dest: 1, minLength: 1 }));
}

/** Whether the lines logged so far have been written to stdout. False after two seconds: nobody reads them. */
export function logWritten(): Promise<boolean> {
  const written = new Promise<boolean>((resolve) => {
    stdout().flush(() => resolve(true));
  });
  return Promise.race([written, sleep(2_000, false)]);
}

/**
 * Logs why the process ends, after all that was logged before. What is logged from now on is dropped, so that no line follows:
 * connections that are still open may report errors meanwhile. `logWritten` tells when it has been written.
 */
export async function logLast(name: string, fields: object, reason: string): Promise<void> {
  const destination = stdout();
  const write = destination.write.bind(destination);
  destination.write = () => true;
  await logWritten();
  // Without a method to flush at once, which would wait for a reader without limit.
  createProcessLogger(name, { write }).fatal(fields, reason);
}

/** Provider errors contain prompts and answers in fields and messages; parser errors quote their input. */
const WITH_CONTENT = /^AI_|^SyntaxError$/;

/** The fields of an error that hold no content: type, stack, and the message unless it may quote a provider or input. */
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

/** The line without the password of any URL, or the token in its place. The patterns start at "://": their time is linear. */
function withoutPasswords(line: string): string {
  return line
    .replaceAll(/(:\/\/[^\s:@/"]*:)[^\s@/"]+@/g, `$1${REDACTED}@`)
    .replaceAll(/(https?:\/\/)[^\s:@/"?#]+@/gi, `$1${REDACTED}@`);
}
