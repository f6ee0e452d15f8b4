import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { Phase } from '../domain/phases.ts';
import { INITIATIVE_WORKFLOW, SESSION_WORKFLOW } from './definitions.ts';

/** What the caller that starts a workflow knows about its session; the workflow corrects outdated values. */
export interface StartFacts {
  sessionId: string;
  /** Its user, as Temporal may know them. */
  user: string;
  agent: string;
  phase: Phase;
  projectId: string | null;
}

// Written out, because its inferred name is not exported by the SDK, so declarations could not import it.
type Keyword = ReturnType<typeof defineSearchAttributeKey<'KEYWORD'>>;

export const SEARCH_ATTRIBUTES: Record<'user' | 'project' | 'phase' | 'status', Keyword> = {
  user: defineSearchAttributeKey('PerdureUser', 'KEYWORD'),
  project: defineSearchAttributeKey('PerdureProject', 'KEYWORD'),
  phase: defineSearchAttributeKey('PerdurePhase', 'KEYWORD'),
  status: defineSearchAttributeKey('PerdureStatus', 'KEYWORD'),
};

/**
 * Start options of a session's workflow, for every update-with-start. The workflow task time-out is short because a task
 * given to a dead or frozen worker is lost until it times out, by default after ten seconds.
 */
export function sessionStart({ sessionId, user, agent, phase, projectId }: StartFacts, taskQueue: string) {
  const attributes = new TypedSearchAttributes([
    { key: SEARCH_ATTRIBUTES.user, value: user },
    { key: SEARCH_ATTRIBUTES.phase, value: phase },
    { key: SEARCH_ATTRIBUTES.status, value: 'open' },
    ...(projectId === null ? [] : [{ key: SEARCH_ATTRIBUTES.project, value: projectId }]),
  ]);
  return {
    type: SESSION_WORKFLOW,
    ...startOf(sessionId, taskQueue),
    typedSearchAttributes: attributes,
    staticSummary: `${agent} · ${user}`,
  };
}

/** Start options of an initiative's workflow; the workflow corrects outdated values. */
export function initiativeStart({ initiativeId, user, status, projectId }: InitiativeFacts, taskQueue: string) {
  return {
    type: INITIATIVE_WORKFLOW,
    ...startOf(initiativeId, taskQueue),
    typedSearchAttributes: new TypedSearchAttributes([
      { key: SEARCH_ATTRIBUTES.user, value: user },
      { key: SEARCH_ATTRIBUTES.status, value: status },
      ...(projectId === null ? [] : [{ key: SEARCH_ATTRIBUTES.project, value: projectId }]),
    ]),
    staticSummary: `initiative · ${user}`,
  };
}

/** What the caller that starts a workflow knows about its initiative. */
export interface InitiativeFacts {
  initiativeId: string;
  /** Its user, as Temporal may know them. */
  user: string;
  status: string;
  projectId: string | null;
}

function startOf(id: string, taskQueue: string) {
  return {
    workflowId: id,
    args: [id] as [string],
    taskQueue,
    workflowTaskTimeout: 2_000,
    workflowIdConflictPolicy: 'USE_EXISTING' as const,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE' as const,
  };
}
