// Permission rules: which of them decides about a tool call, and the language of their patterns (docs/permissions.md).

export const RULE_ACTIONS = ['allow', 'deny', 'ask'] as const;
export type RuleAction = (typeof RULE_ACTIONS)[number];

/** From the widest to the narrowest scope. */
export const RULE_SCOPES = ['manifest', 'project', 'session'] as const;
export type RuleScope = (typeof RULE_SCOPES)[number];

/** A rule. The order of a list is that in which its rules were made. */
export interface PermissionRule {
  rule_id: string;
  /** Name of a tool. */
  permission: string;
  pattern: string;
  action: RuleAction;
  source: RuleScope;
  /** Of a rule of the manifest: nothing overrides it. */
  pinned?: boolean | undefined;
}

/** A rule that holds in a session; `session_id`: it is one of this session above. */
export type ListedRule = PermissionRule & { session_id?: string };

/** What a tool call asks for: its tool, and what the tool's `permission(input)` says about the input. */
export interface PermissionRequest {
  permission: string;
  pattern: string;
}

/** What was decided about a call, and by which rule; null: no rule matches, which allows. */
export interface PermissionDecision {
  action: RuleAction;
  rule: PermissionRule | null;
}

/** The rules of a session, those of its agent included. */
export interface SessionRules {
  session_id: string;
  /** Null: its agent is not known here, so its rules are not either, and nothing is allowed. */
  rules: readonly PermissionRule[] | null;
}

/** What was decided about a call by the rules of its session and of those above it. */
export interface SharedDecision extends PermissionDecision {
  /** Whose rule it is. */
  session_id: string;
  /** If the call asks: each session whose rules ask, with the rule. */
  asking: { session_id: string; rule: PermissionRule }[];
}

/** The answers to a call that asks, in the order in which they are offered. */
export const ANSWERS = ['once', 'session', 'always', 'reject'] as const;
export type PermissionAnswer = (typeof ANSWERS)[number];

/** What a call's part keeps of the decision, as `callProviderMetadata.perdure.permission`. */
export interface PermissionRecord {
  /** Id of the rule that decided, or that asked; null: denied without one. */
  rule: string | null;
  decision: 'allow' | 'deny' | PermissionAnswer;
  scope: RuleScope | null;
  /** Whose rule it is, if it is that of a session above. */
  session_id?: string;
  /** The id of a user, or `rule`. */
  decided_by: string;
  /** ISO 8601. */
  decided_at: string;
}

/** A record but for its time. */
export type UntimedRecord = Omit<PermissionRecord, 'decided_at'>;

/** How the ids of the rules begin that an MCP server's definition has, or its tools' annotations. */
export const MCP_RULE = 'mcp:';

/** Maximum length of a pattern, and of what a call asks for if rules are offered for it, in UTF-16 units. */
export const MAX_PATTERN = 1_024;

/**
 * Decides about a call. A pinned rule that matches decides before all others. Among the rest, and among several pinned ones, the
 * more specific pattern decides; of equals the narrower scope, then the later rule. None: the call is allowed.
 */
export function decide(rules: readonly PermissionRule[], request: PermissionRequest): PermissionDecision {
  const matching = rules.filter(
    ({ permission, pattern }) => permission === request.permission && matches(pattern, request.pattern),
  );
  const pinned = matching.filter((rule) => rule.pinned === true);
  const rule = (pinned.length > 0 ? pinned : matching).reduce<PermissionRule | null>(
    (best, each) => (best === null || !comesBefore(best, each) ? each : best),
    null,
  );
  return { action: rule?.action ?? 'allow', rule };
}

const STRICTNESS: readonly RuleAction[] = ['allow', 'ask', 'deny'];

/**
 * Decides about a call of the first session. Those that follow are above it: their tool calls have opened it, so it may do at most
 * what each of them may. The strictest of their decisions counts; of equals that of the nearest session.
 */
export function decideTogether(
  sessions: readonly [SessionRules, ...SessionRules[]],
  request: PermissionRequest,
): SharedDecision {
  const [own, ...above] = sessions.map(({ session_id, rules }) => ({
    session_id,
    ...(rules === null ? ({ action: 'deny', rule: null } as const) : decide(rules, request)),
  })) as [Omit<SharedDecision, 'asking'>, ...Omit<SharedDecision, 'asking'>[]];
  const strictest = above.reduce((best, each) => (isStricter(each.action, best.action) ? each : best), own);
  const asking = [own, ...above].flatMap(({ session_id, action, rule }) =>
    action === 'ask' && rule !== null ? [{ session_id, rule }] : [],
  );
  return { ...strictest, asking: strictest.action === 'ask' ? asking : [] };
}

/** Whether a decision allows less than another one. */
export function isStricter(action: RuleAction, than: RuleAction): boolean {
  return STRICTNESS.indexOf(action) > STRICTNESS.indexOf(than);
}

/** Whether a rule decides before one that comes later in its list. */
function comesBefore(rule: PermissionRule, later: PermissionRule): boolean {
  const specific = specificity(rule.pattern) - specificity(later.pattern);
  if (specific !== 0) return specific > 0;
  return RULE_SCOPES.indexOf(rule.source) > RULE_SCOPES.indexOf(later.source);
}

/** What is wrong with a pattern, completing "expected …"; undefined: it is valid. */
export function patternFault(pattern: string): string | undefined {
  if (pattern.length > MAX_PATTERN) return `a pattern of at most ${MAX_PATTERN} characters`;
  if (!/^(?:[^\\\0]|\\[*\\])*$/u.test(pattern) || !pattern.isWellFormed()) {
    return 'a pattern of characters and *, with \\* for an asterisk and \\\\ for a backslash';
  }
  return undefined;
}

/** Number of characters of a pattern that are not wildcards; an escaped one counts once. */
export function specificity(pattern: string): number {
  return Array.from(textsOf(pattern).join('')).length;
}

/** Whether a pattern matches the whole text. */
export function matches(pattern: string, text: string): boolean {
  const [first = '', ...others] = textsOf(pattern);
  const last = others.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  // Each as early as possible: that leaves the most for those that follow.
  for (const each of others) {
    const found = text.indexOf(each, at);
    if (found === -1) return false;
    at = found + each.length;
  }
  return at + last.length <= text.length && text.endsWith(last);
}

/** Stands for a wildcard. No valid pattern has it, so that it differs from an escaped asterisk. */
const ANY = '\0';

/** What a pattern has before, between and after its wildcards. */
function textsOf(pattern: string): string[] {
  return pattern.replaceAll(/\\(.)|\*/gsu, (_all, escaped?: string) => escaped ?? ANY).split(ANY);
}
