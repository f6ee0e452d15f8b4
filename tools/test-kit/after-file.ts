const cleanups: (() => unknown)[] = [];

/**
 * Calls `cleanup` after the last test of the file, the newest first. Unlike Vitest's `afterAll`, which is ignored there, it
 * can be called in a `beforeAll` or a test.
 */
export function afterFile(cleanup: () => unknown): void {
  cleanups.push(cleanup);
}

/** Calls what afterFile was given. @throws {AggregateError} of what failed, when all have been called */
export async function cleanUp(): Promise<void> {
  const errors: unknown[] = [];
  for (let cleanup = cleanups.pop(); cleanup !== undefined; cleanup = cleanups.pop()) {
    try {
      await cleanup();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'the file was not cleaned up');
}
