import type { InitiativeCaller } from '../activities/activity-context.ts';
import type { InitiativeCalls } from '../agent/initiatives/initiative-tools.ts';
import type { Initiatives } from '../client/initiatives/initiatives.ts';
import { PerdureError } from '../domain/errors.ts';
import type { Db } from '../store/db.ts';
import { activeWorkSession } from '../store/initiatives.ts';

/**
 * The tools of initiatives for one tool call, as commands with receipts by its id. A chat session has one active work session, which
 * its first task starts.
 */
export function initiativeCalls(api: Initiatives, db: Db, caller: InitiativeCaller): InitiativeCalls {
  const { userId: user, sessionId: session_id, agent, toolCallId: idempotencyKey } = caller;
  // The call's id stands for its input. The work session that is added to it may be another one when the call is repeated.
  const once = { idempotencyKey, keyAlone: true };
  const joined = () => {
    if (caller.initiativeId !== null) return caller.initiativeId;
    throw new PerdureError('InitiativeNotFound', 'this session has joined no initiative (metadata.initiative_id)');
  };
  const workSession = async (id: string): Promise<string> => {
    const active = await activeWorkSession(db, id, session_id);
    return active ?? (await api.startSession(user, id, { agent, session_id }, once)).session.id;
  };
  /** With what a worker's commands need. */
  const working = async <T>(work: (id: string, by: { work_session: string }) => Promise<T>): Promise<T> => {
    const id = joined();
    // Another user's, before a work session is started.
    await api.requireOwn(user, id);
    return work(id, { work_session: await workSession(id) });
  };
  return named({
    initiative_read: () => api.resume(user, joined()),
    initiative_create: (input) => api.create(user, input, once),
    task_next: () => working(async (id, by) => (await api.assignTask(user, id, by, once)) ?? null),
    task_start: ({ task_id }) => working((id, by) => api.startTask(user, id, task_id, by, once)),
    task_progress: ({ task_id, note }) =>
      working((id, by) => api.reportProgress(user, id, task_id, { ...by, note }, once)),
    task_complete: ({ task_id, note }) =>
      working((id, by) => api.completeTask(user, id, task_id, { ...by, note }, once)),
    decision_add: (input) => api.addDecision(user, joined(), input, once),
    blocker_add: (input) => api.addBlocker(user, joined(), input, once),
    blocker_bypass: ({ blocker, ...input }) => api.bypassBlocker(user, joined(), blocker, input, once),
    blocker_resolve: ({ blocker, ...input }) => api.resolveBlocker(user, joined(), blocker, input, once),
    state_update: (input) => api.updateState(user, joined(), input, once),
    review: (input) => api.review(user, joined(), input, once),
    session_end: async (input) => {
      const id = joined();
      const active = await activeWorkSession(db, id, session_id);
      if (active === undefined)
        throw new PerdureError('WorkSessionNotFound', 'this session has no active work session');
      return api.endSession(user, id, active, input, once);
    },
  });
}

/** Refusals name their codes to the model. */
function named(calls: InitiativeCalls): InitiativeCalls {
  const entries = Object.entries(calls).map(([name, call]) => [
    name,
    async (input: never) => {
      try {
        return await call(input);
      } catch (error) {
        if (error instanceof PerdureError) throw new Error(`${error.code}: ${error.message}`, { cause: error });
        throw error;
      }
    },
  ]);
  return Object.fromEntries(entries) as InitiativeCalls;
}
