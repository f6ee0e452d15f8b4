import type { Delivered } from '../domain/activities.ts';
import type { ActivityContext } from './activity-context.ts';
import { deliverResult } from './recording/tasks.ts';

/** Whether a child is over, and which session its workflow is to tell. */
export async function deliverTaskActivity(context: ActivityContext, sessionId: string): Promise<Delivered> {
  const told = await deliverResult(context, sessionId);
  if (told.kind !== 'tell') return { over: told.kind !== 'early', news: null };
  const { session_id, run_seq, message_id, model } = told;
  return { over: true, news: { session_id, run_seq, message_id, model } };
}
