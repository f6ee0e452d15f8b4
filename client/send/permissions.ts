import { PerdureError } from '../../domain/errors.ts';
import { type ListedRule, MCP_RULE } from '../../domain/permissions.ts';
import type { Db } from '../../store/db.ts';
import { revokeRule, rulesInForce } from '../../store/permissions.ts';
import { findSession } from '../../store/sessions.ts';
import type { Catalog } from '../catalog.ts';
import { sessionNotFound } from '../refusal-errors.ts';

/** @throws {PerdureError} see `PerdureClient.permissions` */
export async function listPermissions(
  db: Db,
  catalog: Catalog | undefined,
  user: string,
  id: string,
): Promise<{ items: ListedRule[] }> {
  const session = await findSession(db, user, id);
  const found = session && (await rulesInForce(db, session.session_id));
  if (session === undefined || found === undefined) throw sessionNotFound();
  const manifest = (agent: string) => catalog?.rulesOf?.(agent) ?? [];
  const above: ListedRule[] = [];
  for (const { session_id, agent, rules } of found.above) {
    for (const rule of [...manifest(agent), ...rules]) above.push({ ...rule, session_id });
  }
  return { items: [...manifest(session.agent), ...found.rules, ...above] };
}

/** @throws {PerdureError} see `PerdureClient.revokePermission` */
export async function revokePermission(
  db: Db,
  catalog: Catalog | undefined,
  { user, session: id, ruleId }: { user: string; session: string; ruleId: string },
): Promise<string> {
  const session = await findSession(db, user, id);
  if (session === undefined) throw sessionNotFound();
  const isOfManifest = catalog?.rulesOf?.(session.agent).some(({ rule_id }) => rule_id === ruleId) === true;
  if (isOfManifest || ruleId.startsWith(MCP_RULE)) {
    throw new PerdureError(
      'ManifestRule',
      "the rule is part of the agent's definition, which only its author can change",
    );
  }
  const isGone = ruleId.includes('\0') || !(await revokeRule(db, user, session.session_id, ruleId));
  if (isGone) throw new PerdureError('RuleNotFound', 'the session and its project have no such rule');
  return session.session_id;
}
