import { ApplicationFailure } from '@temporalio/activity';
import type { LoadArgs, LoadedSession } from '../domain/activities.ts';
import { loadSession } from '../store/sessions.ts';
import type { ActivityContext } from './activity-context.ts';

/** Loads a session for its workflow, under a new epoch. */
export async function loadSessionActivity(
  context: ActivityContext,
  args: LoadArgs,
  { runId }: { runId: string },
): Promise<LoadedSession> {
  const isCurrent = async () => (await context.currentRun(args.session_id)) === runId;
  const loaded = await loadSession(context.db, args, runId, isCurrent);
  if (loaded === undefined) throw ApplicationFailure.nonRetryable('SessionNotFound', 'SessionNotFound');
  const agent = context.agents.all().find((each) => each.id === loaded.agent) ?? context.agents.default;
  return {
    ...loaded,
    user_id: context.showUser(loaded.user_id),
    settings: {
      idle_close_ms: context.settings.idleCloseMs,
      continue_as_new_events: context.settings.continueAsNewEvents,
      heartbeat_timeout_ms: context.settings.heartbeatTimeoutMs,
      default_model: agent.model ?? context.models.defaultRef,
    },
  };
}
