import { useState } from 'react';
import { type ListedRule, type PermissionRule, RULE_SCOPES, type RuleScope } from '../../domain/permissions.ts';
import { wordsOf } from '../api/problem.ts';
import { useShown } from '../session/read-while-shown.ts';
import type { TabSession } from '../session/tab-session.ts';
import { visible } from '../tool-calls/visible.ts';
import { Known } from './known.tsx';

const SCOPE_WORDS: Record<RuleScope, string> = {
  session: 'This session',
  project: 'Its project',
  manifest: 'The agent',
};
const ACTION_WORDS: Record<PermissionRule['action'], string> = {
  allow: 'runs without a question',
  ask: 'asks',
  deny: 'is denied',
};

/** The permission rules in force for a session; those that answers have made can be revoked. */
export function PermissionsPanel({ session }: { session: TabSession }) {
  const { permissions } = session;
  const { value: rules, notice } = useShown(permissions);
  const [refused, setRefused] = useState<string>();
  const revoke = async ({ rule_id }: PermissionRule) => {
    setRefused(undefined);
    await session.revoke(rule_id).catch((error: unknown) => setRefused(wordsOf(error)));
    permissions.changed();
  };
  return (
    <div className="panel-body rules" role="group" aria-label="Rules in force" tabIndex={0} data-focus-home=".rules">
      <Known value={rules} notice={refused ?? notice}>
        {(known) =>
          RULE_SCOPES.toReversed().map((scope) => (
            <Scope key={scope} scope={scope} rules={known.filter(({ source }) => source === scope)} onRevoke={revoke} />
          ))
        }
      </Known>
    </div>
  );
}

function Scope(props: { scope: RuleScope; rules: ListedRule[]; onRevoke: (rule: PermissionRule) => Promise<void> }) {
  const { scope, rules, onRevoke } = props;
  return (
    <section aria-label={SCOPE_WORDS[scope]}>
      <p className="label">{SCOPE_WORDS[scope]}</p>
      {rules.length === 0 && <p className="note">no rules</p>}
      <ul>
        {rules.map((rule) => (
          <li key={`${rule.session_id} ${rule.rule_id}`}>
            <span>
              <code>{rule.permission}</code> <code>{visible(rule.pattern)}</code> {ACTION_WORDS[rule.action]}
              {rule.pinned === true && ', always'}
              {rule.session_id !== undefined && ', by a session above'}
            </span>
            {scope !== 'manifest' && rule.session_id === undefined && (
              <button
                type="button"
                className="stop"
                aria-label={`Revoke: ${rule.permission} ${visible(rule.pattern)}`}
                onClick={() => void onRevoke(rule)}
              >
                Revoke
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
