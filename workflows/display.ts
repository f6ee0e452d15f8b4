import {
  defineSearchAttributeKey,
  type SearchAttributeUpdatePair,
} from '@temporalio/common';
import { setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import type { SessionState } from './state.ts';

const KEYS = {
  user: defineSearchAttributeKey('PerdureUser', 'KEYWORD'),
  project: defineSearchAttributeKey('PerdureProject', 'KEYWORD'),
  phase: defineSearchAttributeKey('PerdurePhase', 'KEYWORD'),
  status: defineSearchAttributeKey('PerdureStatus', 'KEYWORD'),
};

/**
 * Shows operators what the session is. Search attributes hold lasting states only, for each change is an event and a
 * write; the details cost nothing.
 */
export function show(session: SessionState): void {
  if (!session.loaded) return;
  setCurrentDetails(details(session));
  const shown = workflowInfo().typedSearchAttributes;
  const wanted = [
    { key: KEYS.user, value: session.userId },
    { key: KEYS.project, value: session.mark.project_id },
    { key: KEYS.phase, value: session.mark.phase },
    { key: KEYS.status, value: status(session) },
  ];
  const changes = wanted.filter(({ key, value }) => (shown.get(key) ?? null) !== value);
  if (changes.length > 0) upsertSearchAttributes(changes as SearchAttributeUpdatePair[]);
}

function status(session: SessionState): 'open' | 'error' | 'closed' {
  if (session.closed) return 'closed';
  return session.paused ? 'error' : 'open';
}

function details(session: SessionState): string {
  const run = session.current;
  const rows: [string, string | number][] = [
    ['phase', session.mark.phase],
    ['project', session.mark.project_id ?? 'none'],
    ['status', session.status().state],
    ['turn', run ? `${run.run_seq} (message ${run.message_id})` : 'none'],
    ['step', run ? run.step + 1 : 'none'],
    ['tool', run?.tool ? `${run.tool.name} (${run.tool.tool_call_id})` : 'none'],
    ['model', run ? (run.last_model ?? run.model ?? session.settings.default_model) : 'none'],
    ['tokens of this turn', run?.tokens ?? 0],
    ['queue', session.queue.length],
    ['last error', session.lastError ?? 'none'],
  ];
  return ['| | |', '|---|---|', ...rows.map(([name, value]) => `| ${name} | ${value} |`)].join('\n');
}
