import {
  ANSWERS,
  decideTogether,
  MAX_PATTERN,
  type PermissionAnswer,
  type PermissionRecord,
  type PermissionRequest,
  type RuleScope,
  type UntimedRecord,
  type SessionRules,
} from '../../domain/permissions.ts';

// What a decision means for a tool call, for workers and for runs in memory.

/** What the part of a call that asks shows, as `approval.descriptor`. */
export interface ApprovalDescriptor {
  permission: string;
  /** What the tool's `permission(input)` returned. */
  pattern: string;
  rule: string;
  scope: RuleScope;
  /** Whose rule it is, if it is that of a session above. */
  session_id?: string;
  /** Of a child: the sessions whose rules ask. The answers `session` and `always` make a rule for each. */
  asking?: string[];
  /** The answers that are offered. */
  decisions: PermissionAnswer[];
}

/** What was decided about a call before it begins. `approval` is that of the AI SDK's part. */
export type DecidedCall =
  | { action: 'allow'; record: UntimedRecord }
  | {
      action: 'deny';
      record: UntimedRecord;
      approval: { id: string; isAutomatic: true; approved: false; reason: string };
    }
  /** Nothing is decided yet: `record` says by which rule it asks. */
  | {
      action: 'ask';
      record: Pick<UntimedRecord, 'rule' | 'scope' | 'session_id'>;
      approval: { id: string; descriptor: ApprovalDescriptor };
    };

/** A call that is about to run. */
export interface CallToDecide {
  toolCallId: string;
  request: PermissionRequest;
  /** The call's session, then those above it, the nearest first. */
  sessions: readonly [DecidingSession, ...DecidingSession[]];
  /** Nobody can be asked. */
  isHeadless: boolean;
}

/** A session with all rules that are in force in it. */
export interface DecidingSession extends SessionRules {
  has_project: boolean;
}

const NOBODY = 'it needs an approval, and nobody can be asked in this session';
const ABOVE = ' of a session above';
const UNKNOWN = 'the rules of a session above are not known, because its agent is not configured';

/** Decides about a call. Without anybody to ask, a question is a denial. */
export function decideCall(call: CallToDecide & { isHeadless: true }): Exclude<DecidedCall, { action: 'ask' }>;
export function decideCall(call: CallToDecide): DecidedCall;
export function decideCall({ toolCallId, request, sessions, isHeadless }: CallToDecide): DecidedCall {
  const { action, rule, session_id, asking } = decideTogether(sessions, request);
  const isOwn = session_id === sessions[0].session_id;
  const by = { rule: rule?.rule_id ?? null, scope: rule?.source ?? null, ...(!isOwn && { session_id }) };
  const record = { ...by, decided_by: 'rule' } as const;
  if (action === 'allow') return { action, record: { ...record, decision: 'allow' } };
  if (rule === null || action === 'deny' || isHeadless) {
    const denies = rule === null ? UNKNOWN : `a rule of the ${rule.source}${isOwn ? '' : ABOVE} denies it`;
    const reason = action === 'deny' ? denies : NOBODY;
    const approval = { id: toolCallId, isAutomatic: true, approved: false, reason } as const;
    return { action: 'deny', record: { ...record, decision: 'deny' }, approval };
  }
  const ids = asking.map((each) => each.session_id);
  // The pinned rule would override the one that is made, or its pattern would be too long.
  const makesNoRule = asking.some((each) => each.rule.pinned === true) || request.pattern.length > MAX_PATTERN;
  const hasProjects = sessions.every((each) => each.has_project || !ids.includes(each.session_id));
  const offered = (answer: PermissionAnswer) =>
    answer === 'session' || answer === 'always' ? !makesNoRule && (answer === 'session' || hasProjects) : true;
  const descriptor = {
    ...{ ...request, ...by, rule: rule.rule_id, scope: rule.source, decisions: ANSWERS.filter(offered) },
    ...(sessions.length > 1 && { asking: ids }),
  };
  return { action: 'ask', record: by, approval: { id: toolCallId, descriptor } };
}

/**
 * A part's data with what a rule decided about its call; unchanged if no rule matched. Like a denial, what a rule allows is an
 * automatic approval of the AI SDK.
 */
export function withDecision<Data extends Record<string, unknown>>(data: Data, permission: PermissionRecord): Data {
  if (permission.rule === null) return data;
  const metadata = data['callProviderMetadata'] as Record<string, object> | undefined;
  const decided = { ...metadata, perdure: { ...metadata?.['perdure'], permission } };
  const approval = { id: data['toolCallId'], isAutomatic: true, approved: permission.decision === 'allow' };
  return { ...data, callProviderMetadata: decided, approval };
}
