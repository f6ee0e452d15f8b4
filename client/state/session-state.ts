import type { z } from 'zod';
import { type Bus, userMark } from '../../bus/bus.ts';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { actionsOf, changesOf, lasting, type StateChange } from '../../domain/state-changes.ts';
import { fullName, StateError } from '../../domain/state-keys.ts';
import type { Json } from '../../domain/text.ts';
import type { Db } from '../../store/db.ts';
import { appendStateEvent, getStateSession, type NewStateEvent, type StoredStateSession } from '../../store/state.ts';
import { InvalidInputError, keyReused, parseInput } from '../../wire/input.ts';
import { stateBody } from '../../wire/requests.ts';
import { sessionNotFound } from '../refusal-errors.ts';
import { fenced, secondsOf, storedTime, valuesOf, versionsOf } from './session.ts';

/** The state that a session sees. */
export interface SessionState {
  state: Record<string, Json>;
  /** Of each key. */
  versions: Record<string, number>;
  /** When the session changed it last, in epoch seconds. */
  lastUpdateTime: number;
}

/** Input of `changeState`: the body of POST /api/sessions/:id/state. */
export type StateInput = z.input<typeof stateBody>;

export async function readState(db: Db, user: string, sessionId: string): Promise<SessionState> {
  const stored = await getStateSession(db, { app: null, user, id: sessionId }, { recent: 0 });
  if (stored === undefined) throw sessionNotFound();
  return shown(stored);
}

/**
 * Appends an event of the user's to a session, and returns the state after it. With `versions` only if the keys that it sets
 * or removes still have these; else with `lastUpdateTime` only if nothing has happened in the session since, except that keys
 * may be added.
 * @param options.admin the user may change `app:` state
 * @throws {PerdureError} `SessionNotFound`, `Forbidden`, `StaleSession`, `KeyReused`, `BadRequest`, `TooLarge`
 */
export async function changeState(
  { db, bus }: { db: Db; bus: Bus },
  { user, sessionId }: { user: string; sessionId: string },
  given: StateInput,
  {
    idempotencyKey = newId('evt'),
    admin = false,
  }: { idempotencyKey?: string | undefined; admin?: boolean | undefined },
): Promise<SessionState> {
  const { versions, lastUpdateTime, ...actions } = parseInput(stateBody, given);
  const changes = lastingChanges(actions);
  const ofApp = changes.find(({ scope }) => scope === 'app');
  if (ofApp !== undefined && !admin) {
    throw new PerdureError('Forbidden', `only an administrator may change ${JSON.stringify(fullName(ofApp))}`);
  }
  const event = {
    ...{ id: idempotencyKey, invocationId: '', author: user, timestamp: Date.now() / 1_000 },
    actions: actionsOf(changes),
  };
  const isByTime = versions === undefined && lastUpdateTime !== undefined;
  const append: NewStateEvent = {
    event,
    changes: versions === undefined ? changes : changes.map((change) => fenced(change, versions)),
    actor: 'user',
  };
  // At another time than the session's, the result has the session as it is then.
  const seen = { at: isByTime ? storedTime({ lastUpdateTime }) : 0, seq: 0, versions: !isByTime, recent: 0 };
  const done = await appendStateEvent(db, { app: null, user, id: sessionId }, append, seen).catch((error: unknown) => {
    // The event's id is the key.
    throw error instanceof PerdureError && error.code === 'EventConflict' ? keyReused() : error;
  });
  const ofUser = changes.some(({ scope }) => scope === 'user');
  bus.publish({ session: sessionId, kind: 'status', ...(ofUser && { user: userMark(user) }) });
  return done.fresh === undefined ? readState(db, user, sessionId) : shown(done.fresh);
}

/** @throws {InvalidInputError} naming the path to what cannot be stored */
function lastingChanges(actions: Parameters<typeof changesOf>[0]): StateChange[] {
  try {
    return lasting(changesOf(actions));
  } catch (error) {
    if (error instanceof StateError)
      throw new InvalidInputError([{ field: error.field, expected: error.expected }], error.code);
    throw error;
  }
}

function shown(stored: StoredStateSession): SessionState {
  return {
    state: Object.fromEntries(valuesOf(stored)),
    versions: versionsOf(stored),
    lastUpdateTime: secondsOf(stored.at),
  };
}
