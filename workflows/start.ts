import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { Phase } from '../domain/phases.ts';
import { SESSION_WORKFLOW, TASK_QUEUE } from './definitions.ts';

/** What is known of a session by whoever starts its workflow; the workflow corrects what has changed since. */
export interface StartFacts {
  sessionId: string;
  userId: string;
  agent: string;
  phase: Phase;
  projectId: string | null;
}

export const SEARCH_ATTRIBUTES = {
  user: defineSearchAttributeKey('PerdureUser', 'KEYWORD'),
  project: defineSearchAttributeKey('PerdureProject', 'KEYWORD'),
  phase: defineSearchAttributeKey('PerdurePhase', 'KEYWORD'),
  status: defineSearchAttributeKey('PerdureStatus', 'KEYWORD'),
} as const;

/**
 * How a session's workflow is started or, where it runs already, used: for every update-with-start, of the client and of
 * the sweeper alike. A short task time-out: a task that is handed to a worker in the moment of its death is lost for so long,
 * and with the default a frozen worker swallows tasks for ten seconds.
 */
export function sessionStart({ sessionId, userId, agent, phase, projectId }: StartFacts) {
  const attributes = new TypedSearchAttributes([
    { key: SEARCH_ATTRIBUTES.user, value: userId },
    { key: SEARCH_ATTRIBUTES.phase, value: phase },
    { key: SEARCH_ATTRIBUTES.status, value: 'open' },
    ...(projectId === null ? [] : [{ key: SEARCH_ATTRIBUTES.project, value: projectId }]),
  ]);
  return {
    type: SESSION_WORKFLOW,
    workflowId: sessionId,
    args: [sessionId] as [string],
    taskQueue: TASK_QUEUE,
    workflowTaskTimeout: 2_000,
    workflowIdConflictPolicy: 'USE_EXISTING' as const,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE' as const,
    typedSearchAttributes: attributes,
    staticSummary: `${agent} · ${userId}`,
  };
}
