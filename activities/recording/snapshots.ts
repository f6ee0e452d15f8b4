import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { SnapshotPlace, Snapshots } from '../../agent/snapshots.ts';
import { whenAborted } from '../../agent/stop-signal.ts';
import { queueLeftFiles } from '../../store/erasure.ts';
import {
  beginRestore,
  endRestore,
  isStillAsked,
  lacksSnapshot,
  noteRewound,
  noteSnapshot,
  type RestoreRequest,
} from '../../store/snapshots.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { requireWorkspace } from '../../workspaces/require-workspace.ts';
import type { ActivityContext } from '../activity-context.ts';
import { retryInBackground } from '../claims/write-until-stored.ts';
import { sessionWorkspace } from '../prompt/step-prompt.ts';
import { workspaceName } from '../prompt/tool-watch.ts';

const HOOK_MS = 10_000;
const BUSY_MS = 100;
const MAX_ID = 128;
/** Folder of all snapshots in a user's folder. */
const FOLDER = '.snapshots';

interface Place {
  sessionId: string;
  user_id: string;
  project_id: string | null;
  workspace_root: string | null;
}

/** Whether the files are as the conversation needs them: what a rewind has asked for is restored. */
export async function restoreFiles(
  context: ActivityContext,
  sessionId: string,
  { giveUp = false } = {},
): Promise<boolean> {
  const { snapshots } = context.hooks;
  if (!snapshots) return true;
  const end = performance.now() + 3 * HOOK_MS;
  for (;;) {
    const request = await beginRestore(context.db, sessionId);
    if (request === undefined) return true;
    if (!('busy' in request)) {
      const restored = await restore({ context, snapshots, sessionId }, request, giveUp);
      if (restored !== undefined) return restored;
    }
    if (performance.now() > end) return false;
    if ('busy' in request) await delay(BUSY_MS);
  }
}

interface Restoring {
  context: ActivityContext;
  snapshots: Snapshots;
  sessionId: string;
}

/** Undefined: another request has replaced this one meanwhile, or it was undone. */
async function restore(
  { context, snapshots, sessionId }: Restoring,
  request: RestoreRequest,
  giveUp: boolean,
): Promise<boolean | undefined> {
  const { db, log } = context;
  const { n } = request;
  try {
    const place = placeOf(context, { ...request, sessionId });
    if (request.take && request.rewind !== null) {
      const taken = await take(context, snapshots, place);
      if (taken !== null) await noteRewound(db, sessionId, request.rewind, taken);
    }
    if (await isStillAsked(db, sessionId, n)) {
      await called(context, place, (signal) => snapshots.restore(place, request.to, signal));
    }
    return (await endRestore(db, sessionId, n, true)) ? true : undefined;
  } catch (err) {
    log.error({ err, session: sessionId }, 'the files of a rewind could not be restored');
    return (await endRestore(db, sessionId, n, giveUp)) ? false : undefined;
  }
}

/** Takes the snapshot of a turn that begins, unless its message has one. A turn goes on without one if the hook fails. */
export async function snapshotTurn(context: ActivityContext, session: Place, messageId: string): Promise<void> {
  const { hooks, db, log } = context;
  if (!hooks.snapshots) return;
  const { sessionId } = session;
  try {
    if (!(await lacksSnapshot(db, sessionId, messageId))) return;
    const taken = await take(context, hooks.snapshots, placeOf(context, session));
    if (taken !== null) await noteSnapshot(db, sessionId, messageId, taken);
  } catch (err) {
    log.warn(
      { err, session: sessionId },
      'no snapshot was taken: a rewind to this message will leave the files as they are',
    );
  }
}

async function take(context: ActivityContext, snapshots: Snapshots, place: SnapshotPlace): Promise<string | null> {
  const id: unknown = await called(context, place, (signal) => snapshots.take(place, signal));
  if (id === null || (typeof id === 'string' && id !== '' && id.length <= MAX_ID)) return id;
  throw new TypeError(
    'the hook snapshots.take returned something else: expected an id of 1 to 128 characters, or null',
  );
}

/** Calls a hook that may ignore its signal. */
async function called<T>(
  context: ActivityContext,
  place: SnapshotPlace,
  hook: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const signal = AbortSignal.timeout(HOOK_MS);
  const ended = Promise.try(hook, signal).finally(() => removeIfErased(context, place));
  return Promise.race([ended, whenAborted(signal)]);
}

/** In the background: if the session was erased while the hook ran, the hook may have written after the last removal. */
function removeIfErased({ db, log, settings }: ActivityContext, place: SnapshotPlace): void {
  const { sessionId, userId, workspaceRoot, folder } = place;
  const folders = [workspaceRoot, folder].map((each) => workspaceName(each, settings.workspaces));
  retryInBackground(() => queueLeftFiles(db, { sessionId, userId, home: userFolder('', userId), folders })).catch(
    (err: unknown) => log.warn({ err, session: sessionId }, 'what a hook may have left of an erased session stays'),
  );
}

function placeOf(context: ActivityContext, session: Place): SnapshotPlace {
  const { workspaces } = context.settings;
  const workspaceRoot = sessionWorkspace(context, session);
  const folder = path.join(userFolder(workspaces, session.user_id), FOLDER, session.sessionId);
  requireWorkspace(workspaces, folder);
  const { sessionId, user_id: userId, project_id: projectId } = session;
  return { sessionId, userId, projectId, workspaceRoot, folder };
}
