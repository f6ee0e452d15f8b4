import type { PermissionRecord } from '../../../domain/permissions.ts';
import { ASKING, FORBIDDEN } from '../agents.ts';
import { by, type Evidence, type EventRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

/** What a user said of a call, which counted. */
interface Decided {
  decision: string;
  at: Date;
}

/** No denied call ever ran, and none that asks ran before a user allowed it, or made the rule that did. */
export function checkPermissions(
  ledger: Ledger,
  { parts, events, toolRuns }: Pick<Evidence, 'parts' | 'events' | 'toolRuns'>,
): void {
  const ran = by(toolRuns, (run) => run.call);
  const decided = decisions(ledger, events);
  for (const part of parts) {
    const call = part.tool_call_id;
    if (call === null) continue;
    const where = `session ${part.session_id}, call ${call}`;
    const runs = ran.get(call) ?? [];
    const isDenied = part.tool_state === 'output-denied' || part.data.type === `tool-${FORBIDDEN}`;
    if (isDenied) ledger.check('no denied call ever ran', where, runs.length === 0, () => [part.data, runs]);
    if (part.data.type !== `tool-${ASKING}`) continue;
    for (const { at } of runs) {
      const allowed = allowedBy(call, recordOf(part.data), decided);
      const isAllowed = allowed !== undefined && allowed.at.getTime() <= at;
      ledger.check('no asked call ran without its answer', where, isAllowed, () => [part.data, allowed, at]);
    }
  }
}

/** The answers that counted, by call. */
function decisions(ledger: Ledger, events: readonly EventRow[]): Map<string, Decided> {
  const made = events.filter(({ kind, data }) => kind === 'approval' && data['repeated'] !== true);
  const found = new Map<string, Decided>();
  for (const [call, all] of by(made, ({ data }) => String(data.tool_call_id))) {
    const [first] = all;
    ledger.check('one answer to a call counts', `call ${call}`, all.length === 1, () => all);
    found.set(call, { decision: String(first!.data['decision']), at: first!.at });
  }
  const asked = events.filter(({ kind }) => kind === 'approval_requested');
  for (const [call, all] of by(asked, ({ data }) => String(data.tool_call_id))) {
    ledger.check('a call asks once', `call ${call}`, all.length === 1, () => all);
  }
  return found;
}

/** The answer that lets a call run: to itself, or to the call for which its rule was made. */
function allowedBy(
  call: string,
  record: PermissionRecord | undefined,
  decided: ReadonlyMap<string, Decided>,
): Decided | undefined {
  if (record === undefined) return undefined;
  const ofRule = record.decision === 'allow' ? decided.get((record.rule ?? '').replace('rul_', '')) : undefined;
  if (ofRule !== undefined) return ['session', 'always'].includes(ofRule.decision) ? ofRule : undefined;
  const own = decided.get(call);
  return own?.decision === record.decision && own.decision !== 'reject' ? own : undefined;
}

function recordOf(data: Record<string, unknown>): PermissionRecord | undefined {
  const metadata = (data['callProviderMetadata'] ?? data['resultProviderMetadata']) as
    | { perdure?: { permission?: PermissionRecord } }
    | undefined;
  return metadata?.perdure?.permission;
}
