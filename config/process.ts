import { parseArgs, type ParseArgsConfig } from 'node:util';
import { ConfigError } from './error.ts';
import { createProcessLogger, logLast, logWritten } from './log.ts';

/** A program and its command line. */
interface Program<Options extends NonNullable<ParseArgsConfig['options']>> {
  /** Of the program `perdure-<name>`, which is `perdure <name>`, too. */
  name: string;
  /** A sentence for `--help`. */
  does: string;
  options?: Options;
  /** Further lines for `--help`. */
  help?: readonly string[];
}

type Values<Options extends NonNullable<ParseArgsConfig['options']>> = ReturnType<
  typeof parseArgs<{ options: Options }>
>['values'];

/**
 * Runs `main` and exits with 0, or with 1 after one line that names the error. All output is JSON lines, except that of
 * `--help`, which does nothing else.
 *
 * The second argument of `main` is a function whose promise settles with the first SIGTERM or SIGINT. Before it is called,
 * these signals end the process at once: nothing is running yet.
 */
export async function runProcess<Options extends NonNullable<ParseArgsConfig['options']>>(
  program: Program<Options>,
  main: (values: Values<Options>, stopRequest: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const { name } = program;
  const fail = async (error: unknown): Promise<never> => {
    const reason = error instanceof Error ? error.message : String(error);
    await logLast(name, isExpected(error) ? {} : { err: error }, reason);
    return endProcess(1);
  };
  logWarnings(name);
  process.on('uncaughtException', (error) => void fail(error));
  try {
    await main(argumentsOf(program), stopRequests(name));
    await endProcess(0);
  } catch (error) {
    await fail(error);
  }
}

/**
 * Exits when the log has been written: an exit in mid-write would change the order of the last lines, or cut them. If nobody reads
 * the log, the process kills itself.
 */
export async function endProcess(code: 0 | 1): Promise<never> {
  // An exit would wait for the write that nobody reads.
  if (!(await logWritten())) process.kill(process.pid, 'SIGKILL');
  process.exit(code);
}

function stopRequests(name: string): () => Promise<void> {
  const asked = Promise.withResolvers<void>();
  let isHandled = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      asked.resolve();
      if (isHandled) return;
      createProcessLogger(name).info('stopped');
      void endProcess(0);
    });
  }
  return () => {
    isHandled = true;
    return asked.promise;
  };
}

/** Errors whose message says what to do, so that a stack adds nothing. */
function isExpected(error: unknown): boolean {
  return error instanceof ConfigError || (error as { code?: unknown }).code === 'DefinitionError';
}

/** @throws {ConfigError} naming an argument that the program does not know */
function argumentsOf<Options extends NonNullable<ParseArgsConfig['options']>>(
  program: Program<Options>,
): Values<Options> {
  const options = { ...program.options, help: { type: 'boolean', short: 'h' } } as const;
  try {
    const { values } = parseArgs({ options });
    if (!('help' in values)) return values as Values<Options>;
  } catch (error) {
    throw new ConfigError([{ name: 'command line', expected: `what --help lists (${(error as Error).message})` }]);
  }
  console.log(helpOf(program));
  process.exit(0);
}

function helpOf({ name, does, help = [] }: { name: string; does: string; help?: readonly string[] }): string {
  return [
    `perdure ${name}: ${does}`,
    '',
    `usage: perdure ${name}${help.length > 0 ? ' [options]' : ''}`,
    ...help.map((line) => `  ${line}`),
    '',
    'It is configured by environment variables, which docs/operations.md of the package lists.',
  ].join('\n');
}

/** Node writes warnings as text. */
function logWarnings(name: string): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning) => {
    createProcessLogger(name).warn({ err: warning }, warning.message);
  });
}
