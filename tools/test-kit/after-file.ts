/** @param kept a folder for what helps to understand a failure; undefined if the file has not failed */
type Cleanup = (kept: string | undefined) => unknown;

// Global, because a file that resets its modules loads this one again.
const shared = globalThis as { perdureCleanups?: Cleanup[] };
const cleanups = (shared.perdureCleanups ??= []);

/**
 * Calls `cleanup` after the last test of the file, the newest first. Unlike Vitest's `afterAll`, which is ignored there, it
 * can be called in a `beforeAll` or a test.
 */
export function afterFile(cleanup: Cleanup): void {
  cleanups.push(cleanup);
}

/**
 * Calls what afterFile was given.
 * @param file.failed whether a test or hook has failed so far
 * @param file.folder where a failed file keeps what it has used; undefined: nowhere
 * @throws {AggregateError} of what failed, when all have been called
 */
export async function cleanUp({ failed, folder }: { failed: boolean; folder: string | undefined }): Promise<void> {
  const errors: unknown[] = [];
  for (const cleanup of cleanups.splice(0).toReversed()) {
    try {
      await cleanup(failed || errors.length > 0 ? folder : undefined);
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'the file was not cleaned up');
}
