import { ApplicationFailure } from '@temporalio/activity';
import { limitsOf } from '../agent/definition/define.ts';
import { attemptToolCall } from '../agent/tools/attempt-tool-call.ts';
import type { ToolArgs, ToolOutcome } from '../domain/activities.ts';
import { toolNameOf } from '../domain/part-data.ts';
import { loadToolCall } from '../store/tools.ts';
import type { ActivityContext } from './activity-context.ts';
import type { Attempt } from './claims/attempt.ts';
import { retryWhileAway } from './claims/write-until-stored.ts';
import { PostgresToolRecorder } from './recording/postgres-tool-recorder.ts';

/**
 * Runs one tool call, from claim to stored outcome. Idempotent by the outcome on the part. A call that an earlier attempt
 * began and left without an outcome runs again only if the tool is repeatable.
 */
export async function runToolActivity(
  context: ActivityContext,
  args: ToolArgs,
  attempt: Attempt,
): Promise<ToolOutcome> {
  const { claim, stop } = attempt;
  // The attempt retries this itself: of a call that the previous activity began (args.begun), only the first attempt knows
  // that the tool has not run yet.
  const call = await retryWhileAway({ context, claim, stop }, () =>
    loadToolCall(context.db, args.session_id, args.run_seq, args.tool_call_id),
  );
  if (call === undefined) throw ApplicationFailure.nonRetryable('ToolCallNotFound', 'ToolCallNotFound');
  const agentOf = (id: string) => context.agents.all().find((each) => each.id === id);
  const agent = agentOf(call.agent);
  const limits = limitsOf(agent ?? context.agents.default);
  stop.limitTo(limits.wall_clock_ms - call.elapsed_ms);
  const { data } = call;
  const toolName = toolNameOf(data);
  const tools = agent === undefined ? [] : context.mcp.toolsOfCall(agent, toolName);
  const manifestOf = (id: string) => {
    const found = agentOf(id);
    return found ? context.mcp.rulesOf(found) : null;
  };
  const { tool_output_bytes: maxOutputBytes } = limits;
  return attemptToolCall(
    { tools, toolName, input: data['input'], stop, maxOutputBytes },
    new PostgresToolRecorder({ context, args, claim, call, manifestOf, stop, attempt: attempt.number, maxOutputBytes }),
  );
}
