import { setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { SEARCH_ATTRIBUTES } from './start.ts';
import type { WorkflowState } from './workflow-state.ts';

/**
 * Updates search attributes and current details, for operators. Search attributes hold slowly changing state only,
 * because each change is an event and a write; details are neither.
 */
export function displaySession(session: WorkflowState): void {
  if (!session.loaded) return;
  displayDetails(session);
  const shown = workflowInfo().typedSearchAttributes;
  const wanted = [
    // A workflow keeps the user with which it was started, although the installation hides users since then, or no longer.
    { key: SEARCH_ATTRIBUTES.user, value: shown.get(SEARCH_ATTRIBUTES.user) ?? session.userId },
    { key: SEARCH_ATTRIBUTES.project, value: session.mark.project_id },
    { key: SEARCH_ATTRIBUTES.phase, value: session.mark.phase },
    { key: SEARCH_ATTRIBUTES.status, value: status(session) },
  ];
  const changes = wanted.filter(({ key, value }) => (shown.get(key) ?? null) !== value);
  if (changes.length > 0) upsertSearchAttributes(changes);
}

/** Updates the current details only, which adds no event to the history. */
export function displayDetails(session: WorkflowState): void {
  setCurrentDetails(details(session));
}

function status(session: WorkflowState): 'open' | 'waiting' | 'error' | 'closed' {
  if (session.closed) return 'closed';
  if (session.current?.waiting === true) return 'waiting';
  return session.paused ? 'error' : 'open';
}

function details(session: WorkflowState): string {
  const run = session.current;
  const rows: [string, string | number][] = [
    ['phase', session.mark.phase],
    ['project', session.mark.project_id ?? 'none'],
    ['status', session.status().state],
    ['turn', run?.run_seq ?? 'none'],
    ['message', run?.message_id ?? 'none'],
    ['step', run ? run.step + 1 : 'none'],
    ['tool', run?.tool?.name ?? 'none'],
    ['model', run ? (run.last_model ?? run.model ?? session.settings.default_model) : 'none'],
    ['tokens', run?.tokens ?? 0],
    ['queue', session.queue.length],
    ['last error', session.lastError ?? 'none'],
  ];
  return rows.map(([name, value]) => `- **${name}**: ${value}`).join('\n');
}
