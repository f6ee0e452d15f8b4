import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { RestorePlace, SnapshotPlace, Snapshots } from '../../agent/snapshots.ts';
import { whenAborted } from '../../agent/stop-signal.ts';
import { queueLeftFiles } from '../../store/erasure.ts';
import {
  beginRestore,
  endRestore,
  type FilesPlace,
  giveUpRestore,
  isStillAsked,
  lacksSnapshot,
  noteRewound,
  noteSnapshot,
  placeToRestore,
  type RestoreRequest,
} from '../../store/snapshots.ts';
import { SNAPSHOTS_FOLDER, userFolder, workspaceRoot } from '../../workspaces/paths.ts';
import { requireWorkspace } from '../../workspaces/require-workspace.ts';
import type { ActivityContext } from '../activity-context.ts';
import { retryInBackground } from '../claims/write-until-stored.ts';
import { sessionWorkspace } from '../prompt/step-prompt.ts';
import { workspaceName } from '../prompt/tool-watch.ts';

/** Three times this is at most the time of a claim; see begin_restore(). */
const HOOK_MS = 10_000;
const hookMs = ({ settings }: ActivityContext) => settings.snapshotMs ?? HOOK_MS;
const BUSY_MS = 100;
const MAX_ID = 128;

interface Place extends FilesPlace {
  sessionId: string;
}

/**
 * Whether the files are as the conversation needs them: what a rewind has asked for is restored.
 * @param beginsTurn what fails now is given up: a later restore would undo what the turn changes. What another worker still restores
 * when the time is up stays asked for
 */
export async function restoreFiles(
  context: ActivityContext,
  sessionId: string,
  { beginsTurn = false } = {},
): Promise<boolean> {
  const { db, hooks, settings } = context;
  const { snapshots } = hooks;
  if (!snapshots && !beginsTurn) return true;
  const place = await placeToRestore(db, sessionId);
  if (place === undefined) return true;
  const root = workspaceRoot(settings.workspaces, { ...place, session_id: sessionId });
  const end = performance.now() + 3 * hookMs(context);
  for (;;) {
    const request = await beginRestore(db, sessionId, workspaceName(root, settings.workspaces));
    if (request === undefined) return true;
    if (!('busy' in request)) {
      const restored = await restore({ context, snapshots, sessionId }, request, beginsTurn);
      if (restored !== undefined) return restored;
    }
    if (performance.now() > end) return false;
    if ('busy' in request) await delay(BUSY_MS);
  }
}

interface Restoring {
  context: ActivityContext;
  snapshots: Snapshots | undefined;
  sessionId: string;
}

/** Undefined: another request has replaced this one meanwhile, or it was undone. */
async function restore(
  { context, snapshots, sessionId }: Restoring,
  request: RestoreRequest,
  beginsTurn: boolean,
): Promise<boolean | undefined> {
  const { db, log } = context;
  const { n } = request;
  try {
    if (snapshots) await carryOut(context, snapshots, { ...request, sessionId });
    return (await endRestore(db, sessionId, n, true)) ? true : undefined;
  } catch (err) {
    log.error({ err, session: sessionId }, 'the files of a rewind could not be restored');
    const isAsked = beginsTurn ? await giveUpRestore(db, sessionId, n) : await endRestore(db, sessionId, n, false);
    return isAsked ? false : undefined;
  }
}

async function carryOut(
  context: ActivityContext,
  snapshots: Snapshots,
  request: RestoreRequest & { sessionId: string },
): Promise<void> {
  const { db } = context;
  const { sessionId, n, rewind, to } = request;
  const place: RestorePlace = { ...placeOf(context, request), madeProject: request.made_project };
  if (request.take && rewind !== null) {
    const taken = await take(context, snapshots, place);
    if (taken !== null) await noteRewound(db, sessionId, rewind, taken);
  }
  if (!(await isStillAsked(db, sessionId, n))) return;
  await called(context, place, 'restore', (signal) => snapshots.restore(place, to, signal));
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
  const id: unknown = await called(context, place, 'take', (signal) => snapshots.take(place, signal));
  if (id === null || (typeof id === 'string' && id !== '' && id.length <= MAX_ID)) return id;
  throw new TypeError(
    'the hook snapshots.take returned something else: expected an id of 1 to 128 characters, or null',
  );
}

/** Calls a hook that may ignore its signal. */
async function called<T>(
  context: ActivityContext,
  place: SnapshotPlace,
  name: keyof Snapshots,
  hook: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ms = hookMs(context);
  const signal = AbortSignal.timeout(ms);
  const ended = Promise.try(hook, signal).finally(() => removeIfErased(context, place));
  try {
    return await Promise.race([ended, whenAborted(signal)]);
  } catch (cause) {
    const how = signal.aborted ? `has not ended within ${ms} ms` : 'has failed';
    throw new Error(`the hook snapshots.${name} ${how}`, { cause });
  }
}

/** In the background: if the session was erased while the hook ran, the hook may have written after the last removal. */
function removeIfErased({ db, log, settings }: ActivityContext, place: SnapshotPlace): void {
  const { sessionId, userId } = place;
  const folders = [place.workspaceRoot, place.folder].map((each) => workspaceName(each, settings.workspaces));
  retryInBackground(() => queueLeftFiles(db, { sessionId, userId, home: userFolder('', userId), folders })).catch(
    (err: unknown) => log.warn({ err, session: sessionId }, 'what a hook may have left of an erased session stays'),
  );
}

function placeOf(context: ActivityContext, session: Place): SnapshotPlace {
  const { workspaces } = context.settings;
  const root = sessionWorkspace(context, session);
  const folder = path.join(userFolder(workspaces, session.user_id), SNAPSHOTS_FOLDER, session.sessionId);
  requireWorkspace(workspaces, folder);
  const { sessionId, user_id: userId, project_id: projectId } = session;
  return { sessionId, userId, projectId, workspaceRoot: root, folder };
}
