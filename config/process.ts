import { ConfigError } from './error.ts';
import { createLogger } from './log.ts';

/** Runs `main` and exits with 0, or with 1 after one line that names the error. */
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
