import type { Json } from '../../domain/text.ts';

/** What the changes of a recorded event did: values that were set, and names of keys that were removed. */
interface AppliedChanges {
  set: Record<string, Json>;
  deleted: string[];
}

/**
 * Replays recorded changes, oldest first: the state they give, by full name.
 * @param changes in the order of their versions
 */
export function replayState(changes: Iterable<AppliedChanges>): Map<string, Json> {
  const state = new Map<string, Json>();
  for (const { set, deleted } of changes) {
    for (const [name, value] of Object.entries(set)) state.set(name, value);
    for (const name of deleted) state.delete(name);
  }
  return state;
}
