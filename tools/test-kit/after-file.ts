type Cleanup = () => unknown;

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

/** Calls what afterFile was given. @throws {AggregateError} of what failed, when all have been called */
export async function cleanUp(): Promise<void> {
  const errors: unknown[] = [];
  for (const cleanup of cleanups.splice(0).toReversed()) {
    try {
      await cleanup();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'the file was not cleaned up');
}
