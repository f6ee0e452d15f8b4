import { setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import type { InitiativeState } from './initiative-state.ts';
import { SEARCH_ATTRIBUTES } from './start.ts';

/** Updates search attributes and current details, for operators. */
export function displayInitiative({ mark, initiativeId }: InitiativeState): void {
  const rows = [
    ['initiative', initiativeId],
    ['status', mark.status],
    ['project', mark.project_id ?? 'none'],
    ['watched', mark.watched?.work_session ?? 'none'],
  ];
  setCurrentDetails(rows.map(([name, value]) => `- **${name}**: ${value}`).join('\n'));
  const shown = workflowInfo().typedSearchAttributes;
  const wanted = [
    // As in a session's workflow: the user with which it was started.
    { key: SEARCH_ATTRIBUTES.user, value: shown.get(SEARCH_ATTRIBUTES.user) ?? mark.user_id },
    { key: SEARCH_ATTRIBUTES.project, value: mark.project_id },
    { key: SEARCH_ATTRIBUTES.status, value: mark.status },
  ];
  const changes = wanted.filter(({ key, value }) => (shown.get(key) ?? null) !== value);
  if (changes.length > 0) upsertSearchAttributes(changes);
}
