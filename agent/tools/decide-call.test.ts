import { expect, it } from 'vitest';
import { MAX_PATTERN, type RuleAction } from '../../domain/permissions.ts';
import { decideCall } from './decide-call.ts';

/** What is decided about a call of `shell` that asks for so many characters, by a rule for this tool, if any. */
function decided(length: number, rule?: { permission: string; action: RuleAction }) {
  const rules = rule ? [{ ...rule, rule_id: 'manifest-0', pattern: '*', source: 'manifest' as const }] : [];
  return decideCall({
    toolCallId: 'call_1',
    request: { permission: 'shell', pattern: 'x'.repeat(length) },
    sessions: [{ session_id: 'ses_1', has_project: true, rules }],
    isHeadless: false,
  });
}

it('P3 what is too long for a pattern runs if there is no rule for its tool', () => {
  expect(decided(MAX_PATTERN + 1)).toMatchObject({ action: 'allow', record: { rule: null } });
  expect(decided(MAX_PATTERN + 1, { permission: 'look', action: 'deny' })).toMatchObject({ action: 'allow' });
});

it.each(['allow', 'ask', 'deny'] as const)(
  'P3 what is too long for a pattern is denied if there is a rule for its tool: %s',
  (action) => {
    const rule = { permission: 'shell', action };
    expect(decided(MAX_PATTERN, rule)).toMatchObject({ action, record: { rule: 'manifest-0' } });
    const denied = decided(MAX_PATTERN + 1, rule);
    expect(denied).toMatchObject({ action: 'deny', record: { rule: null, scope: null, decided_by: 'rule' } });
    expect(denied).toMatchObject({
      approval: {
        ...{ id: 'call_1', isAutomatic: true, approved: false },
        reason: 'it asks for more than 1024 characters, which no rule can allow',
      },
    });
  },
);
