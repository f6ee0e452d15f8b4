/** Memory of a cached session in bytes, measured by the benchmark's figure `idle`. Content never enters a workflow. */
const SESSION_BYTES = 256 * 1024;

/**
 * The number of sessions that a cache of this many bytes holds, at least one. The SDK's cache counts workflows and evicts the
 * one that was unused for longest; an evicted session takes no memory and is replayed when it is needed.
 */
export function cachedSessions(bytes: number): number {
  return Math.max(1, Math.floor(bytes / SESSION_BYTES));
}
