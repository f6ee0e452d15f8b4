import type { InitiativeCaller } from '../activities/activity-context.ts';
import { type InitiativeCalls, type InitiativeRole, takesTasks } from '../agent/initiatives/initiative-tools.ts';
import type { Initiatives } from '../client/initiatives/initiatives.ts';
import { resumeWithin } from '../client/initiatives/resume-within.ts';
import { PerdureError } from '../domain/errors.ts';
import type { Db } from '../store/db.ts';
import { joinInitiative, newestWorkSession } from '../store/initiatives.ts';

/** As the work session of a chat session that has had none: it holds no task. */
const NONE = 'none';

/**
 * The tools of initiatives for one tool call, as commands with receipts by its id. A chat session has one active work session, which
 * begins with its first task; that of an agent that takes no tasks, when it reads the initiative.
 */
export function initiativeCalls(api: Initiatives, db: Db, caller: InitiativeCaller): InitiativeCalls {
  const { userId: user, sessionId, agent, toolCallId: idempotencyKey } = caller;
  // The call's id stands for its input. The work session that is added to it may be another one when the call is repeated.
  const once = { idempotencyKey, keyAlone: true };
  const joined = () => {
    if (caller.initiativeId !== null) return caller.initiativeId;
    throw new PerdureError('InitiativeNotFound', 'this session has joined no initiative (metadata.initiative_id)');
  };
  const workSession = (initiativeId: string) => newestWorkSession(db, { userId: user, initiativeId, sessionId });
  /** A task with its work session, whose notes may name one that has crashed. */
  const take = async (task?: string) => {
    const taken = await api.takeTask(user, joined(), { agent, sessionId }, task, once);
    return taken === undefined
      ? null
      : { ...taken.task, work_session: { id: taken.session.id, notes: taken.session.notes } };
  };
  /** Of a task that a work session holds. Without an active one it is the last one, which is refused. */
  const holding = async <T>(work: (id: string, by: { work_session: string }) => Promise<T>): Promise<T> => {
    const id = joined();
    const { id: work_session } = (await workSession(id)) ?? { id: NONE };
    return work(id, { work_session });
  };
  return named({
    initiative_read: async (_input, role) =>
      resumeWithin(
        takesTasks(role)
          ? await api.resume(user, joined())
          : await api.attend(user, joined(), { agent, sessionId }, once),
        caller.maxOutputBytes,
      ),
    // Its session goes on with it, in the same project or folder, unless it works on another one.
    initiative_create: async (input) => {
      const isFree = caller.initiativeId === null;
      const place = isFree && { project_id: caller.projectId, workspace_root: caller.workspaceRoot };
      const made = await api.create(user, { ...input, ...place }, once);
      await joinInitiative(db, { userId: user, initiativeId: made.initiative.initiative_id, sessionId });
      return made;
    },
    task_next: () => take(),
    task_start: ({ task_id }) => take(task_id),
    task_progress: ({ task_id, note }) =>
      holding((id, by) => api.reportProgress(user, id, task_id, { ...by, note }, once)),
    task_complete: ({ task_id, note }) =>
      holding((id, by) => api.completeTask(user, id, task_id, { ...by, note }, once)),
    decision_add: (input) => api.addDecision(user, joined(), input, once),
    blocker_add: (input) => api.addBlocker(user, joined(), input, once),
    blocker_bypass: ({ blocker, ...input }) => api.bypassBlocker(user, joined(), blocker, input, once),
    blocker_resolve: ({ blocker, ...input }) => api.resolveBlocker(user, joined(), blocker, input, once),
    state_update: (input) => api.updateState(user, joined(), input, once),
    review: (input) => api.review(user, joined(), input, once),
    session_end: async (input) => {
      const id = joined();
      const work = await workSession(id);
      if (work === undefined) throw new PerdureError('WorkSessionNotFound', 'this session has had no work session');
      return api.endSession(user, id, work.id, input, once);
    },
  });
}

/** Refusals name their codes to the model. */
function named(calls: InitiativeCalls): InitiativeCalls {
  const entries = Object.entries(calls).map(([name, call]) => [
    name,
    async (input: never, role?: InitiativeRole) => {
      try {
        return await call(input, role);
      } catch (error) {
        if (error instanceof PerdureError) throw new Error(`${error.code}: ${error.message}`, { cause: error });
        throw error;
      }
    },
  ]);
  return Object.fromEntries(entries) as InitiativeCalls;
}
