import { TASK_TOOL } from '../../../domain/task-tool.ts';
import { ONCE } from '../agents.ts';
import type { Evidence, RunRow } from '../evidence.ts';
import { by } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import { providerIdOf } from './answers.ts';

const OUTCOMES: ReadonlySet<string> = new Set(['output-available', 'output-error', 'output-denied']);

/** A non-repeatable tool runs at most once, and every call has an outcome. */
export function checkTools(ledger: Ledger, evidence: Evidence, settled: ReadonlyMap<number, RunRow>): void {
  const { parts, toolRuns, serverRuns, runs, sessions } = evidence;
  const calls = new Map(parts.flatMap((part) => (part.tool_call_id === null ? [] : [[part.tool_call_id, part]])));
  const states = new Map(runs.map((run) => [`${run.session_id}/${run.answer_id}`, run.state]));
  const ran = by(toolRuns, (run) => run.call);
  const once = new Map<string, number>();
  for (const [call, all] of ran) {
    const { session, tool } = all[0]!;
    const where = `session ${session}, call ${call} (${tool})`;
    const part = calls.get(call);
    ledger.check('a tool that ran is in the rows', where, part !== undefined, () => `it ran ${all.length} times`);
    if (!ONCE.includes(tool)) continue;
    ledger.check('an unrepeatable tool runs once a call', where, all.length === 1, () => `it ran ${all.length} times`);
    const provider = (part && providerIdOf(part.data)) ?? call;
    once.set(provider, (once.get(provider) ?? 0) + 1);
    const request = Number(/r(\d+)-/.exec(provider)?.[1] ?? -1);
    ledger.check('only calls of settled steps run', where, settled.has(request), () => `request ${request}`);
  }
  for (const [provider, times] of once) {
    ledger.check('a request of the model runs a tool once', provider, times === 1, () => `it ran ${times} times`);
  }
  const onServer = by(serverRuns, ({ provider }) => provider);
  for (const [provider, all] of onServer) {
    ledger.check('a request of the model runs a tool once', provider, all.length === 1, () => `${all.length} times`);
  }
  // The tools of initiatives are commands, which their log records by the id of the call.
  const receipts = new Set(evidence.initiatives.events.map(({ command_id }) => command_id.split(':')[1]));
  for (const part of calls.values()) {
    const where = `session ${part.session_id}, call ${part.tool_call_id}`;
    const state = states.get(`${part.session_id}/${part.message_id}`);
    const closed = state === 'aborted' || OUTCOMES.has(part.tool_state ?? '');
    ledger.check('every tool call has an outcome', where, closed, () => part.data);
    const succeeded = part.tool_state === 'output-available' && part.data.type !== `tool-${TASK_TOOL}`;
    const hasRun =
      ran.has(part.tool_call_id!) ||
      onServer.has(providerIdOf(part.data) ?? '') ||
      receipts.has(part.tool_call_id!) ||
      // There was no task to give.
      (part.data.type === 'tool-task_next' && part.data['output'] === null);
    ledger.check('a call with an output did run', where, !succeeded || hasRun, () => part.data);
  }
  for (const { session_id, pending_tool, bytes } of sessions) {
    ledger.check('no tool is pending at rest', `session ${session_id}`, pending_tool === null, () => pending_tool);
    ledger.check('a session is small', `session ${session_id}`, bytes <= 1_024, () => `${bytes} bytes`);
  }
  for (const call of evidence.calls) {
    ledger.check('the model sees no open tool call', `request ${call.number}`, call.open.length === 0, () => call.open);
  }
}
