import { ConfigError } from './error.ts';
import { createLogger } from './log.ts';

/** Runs a process to its end: exit code 0, or 1 with one line that says what was wrong. */
export async function runProcess(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
    process.exit(0);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    createLogger(name, { logLevel: 'info' }).fatal(error instanceof ConfigError ? {} : { err: error }, reason);
    process.exit(1);
  }
}
