// Command line options of the commands about histories.
import { parseArgs, type ParseArgsConfig } from 'node:util';

/** Invalid arguments: printed without a stack, exit code 2. */
export class UsageError extends Error {}

const SESSION = /^[A-Za-z0-9_-]{1,64}$/;

/** Which histories of a server: the newest N, or those of one session; undefined: none. */
export type FromServer = { last: number } | { session: string };

/** @throws {UsageError} naming the option that is unknown or has no value */
export function parseOptions<const T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** @throws {UsageError} naming the option and what was expected */
export function fromServer({
  last,
  session,
}: {
  last?: string | undefined;
  session?: string | undefined;
}): FromServer | undefined {
  if (last !== undefined && session !== undefined) throw new UsageError('--session: expected without --last');
  if (session !== undefined) {
    if (!SESSION.test(session)) throw new UsageError('--session: expected the id of a session, such as ses_…');
    return { session };
  }
  if (last === undefined) return undefined;
  if (!/^[1-9]\d{0,5}$/.test(last)) throw new UsageError('--last: expected how many histories, such as 100');
  return { last: Number(last) };
}

/** Runs a command; prints an error in one line. */
export async function runCommand(command: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await command();
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}
