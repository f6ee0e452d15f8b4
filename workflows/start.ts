import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { Phase } from '../domain/phases.ts';
import { SESSION_WORKFLOW, TASK_QUEUE } from './definitions.ts';

/** What the caller that starts a workflow knows about its session; the workflow corrects outdated values. */
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
 * Start options of a session's workflow, for every update-with-start. The workflow task time-out is short because a task
 * given to a dead or frozen worker is lost until it times out, by default after ten seconds.
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
