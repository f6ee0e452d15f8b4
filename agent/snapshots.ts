/** The files of a session, for a hook that takes snapshots of them. */
export interface SnapshotPlace {
  sessionId: string;
  userId: string;
  projectId: string | null;
  /** Its workspace, which exists. */
  workspaceRoot: string;
  /** A folder outside of all workspaces for the session's snapshots. It may not exist yet; it is erased with the session. */
  folder: string;
}

/** The same for a restore. */
export interface RestorePlace extends SnapshotPlace {
  /** The session has made its project itself: nobody can have put files in its folder before. */
  madeProject: boolean;
}

/**
 * Takes and restores snapshots of what tools change, so that going back in a conversation brings the files back, too. Both have ten
 * seconds; then the signal fires, and what they do later must not change the workspace. If one fails, the worker's log says so: the
 * turn goes on without a snapshot, but ends as `WorkspaceNotUsable` if the files that it begins with cannot be restored.
 */
export interface Snapshots {
  /**
   * Called when the turn of a user message begins, before its first tool, and before a rewind is carried out.
   * @returns an id of at most 128 characters; null: there is nothing to restore later
   */
  take(place: SnapshotPlace, signal: AbortSignal): Promise<string | null>;
  /**
   * Called after a rewind, un-rewind, edit or new answer, at the latest when the next turn begins. May be repeated. The workspace
   * may be another one than that of the snapshot: the session may have got a project meanwhile.
   */
  restore(place: RestorePlace, snapshotId: string, signal: AbortSignal): Promise<void>;
}
