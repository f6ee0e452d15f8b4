import type { Client } from '@temporalio/client';
import { nextPhase, type Phase } from '../../../domain/phases.ts';
import { snapshotQuery } from '../../../workflows/definitions.ts';
import { SEARCH_ATTRIBUTES } from '../../../workflows/start.ts';
import { eventually } from '../../test-kit/eventually.ts';
import { by, type Evidence } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

const SAME_WITHIN_MS = 5_000;

/** The event log follows the transition table; row, workflow and search attribute agree with its last transition. */
export async function checkPhases(ledger: Ledger, evidence: Evidence, temporal: Client): Promise<void> {
  const events = by(evidence.events, (event) => event.session_id);
  for (const session of evidence.sessions) {
    const where = `session ${session.session_id}`;
    let phase: Phase = 'chatting';
    const makers = new Set<string>();
    for (const { seq, data, kind, command_id } of events.get(session.session_id) ?? []) {
      if (kind !== 'transition') continue;
      const legal = data.from === phase && data.to === nextPhase(phase, data.event!);
      ledger.check('a phase changes as the transition table says', `${where}, event ${seq}`, legal, () => ({
        phase,
        data,
      }));
      const maker = data.tool_call_id ?? command_id;
      const alone = maker !== null && !makers.has(maker);
      ledger.check('a transition has one maker, and it made no other', `${where}, event ${seq}`, alone, () => data);
      if (maker !== null) makers.add(maker);
      phase = data.to!;
    }
    ledger.check('the row agrees with the log', where, phase === session.phase, () => [phase, session.phase]);
    await checkTemporal(ledger, temporal, session.session_id, session.phase);
  }
}

async function checkTemporal(ledger: Ledger, temporal: Client, id: string, phase: Phase): Promise<void> {
  const handle = temporal.workflow.getHandle(id);
  const seen = await eventually(
    async () => {
      const snapshot = await handle.query(snapshotQuery);
      const { typedSearchAttributes } = await handle.describe();
      const found = { query: snapshot.phase, attribute: typedSearchAttributes.get(SEARCH_ATTRIBUTES.phase) };
      if (found.query !== phase || found.attribute !== phase) throw Object.assign(new Error('not yet'), { found });
      return found;
    },
    { timeout: SAME_WITHIN_MS },
  ).catch((error: unknown) => (error as { found?: object }).found ?? String(error));
  const same = JSON.stringify(seen) === JSON.stringify({ query: phase, attribute: phase });
  ledger.check('row, workflow and search attribute agree', `session ${id}`, same, () => ({ row: phase, seen }));
}
