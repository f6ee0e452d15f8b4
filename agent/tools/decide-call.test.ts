import { expect, it } from 'vitest';
import { MAX_PATTERN, type RuleAction } from '../../domain/permissions.ts';
import { decideCall } from './decide-call.ts';

/** What is decided about a call of `shell` that asks for so many characters, by a rule for this tool, if any. */
function decided(length: number, rule?: { action: RuleAction; pattern?: string }) {
  const own = { rule_id: 'manifest-0', permission: 'shell', pattern: '*', source: 'manifest' as const };
  return decideCall({
    toolCallId: 'call_1',
    request: { permission: 'shell', pattern: 'x'.repeat(length) },
    sessions: [{ session_id: 'ses_1', has_project: true, rules: rule ? [{ ...own, ...rule }] : [] }],
    isHeadless: false,
  });
}

it.each([MAX_PATTERN, MAX_PATTERN + 1])(
  'P3 what is asked for is decided by the rules, also if it is too long for one: %i',
  (length) => {
    expect(decided(length)).toMatchObject({ action: 'allow', record: { rule: null } });
    for (const action of ['allow', 'ask', 'deny'] as const) {
      expect(decided(length, { action })).toMatchObject({ action, record: { rule: 'manifest-0' } });
      expect(decided(length, { action, pattern: 'y*' })).toMatchObject({ action: 'allow', record: { rule: null } });
    }
  },
);

it.each([
  [MAX_PATTERN, ['once', 'session', 'always', 'reject']],
  [MAX_PATTERN + 1, ['once', 'reject']],
])('P3 no rule is offered for what is too long for its pattern: %i', (length, decisions) => {
  expect(decided(length, { action: 'ask' })).toMatchObject({ approval: { descriptor: { decisions } } });
});
