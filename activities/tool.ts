import { ApplicationFailure, Context } from '@temporalio/activity';
import { limitsOf } from '../agent/define.ts';
import { performToolCall } from '../agent/tool-call.ts';
import type { ToolArgs, ToolOutcome } from '../domain/commands.ts';
import type { Claim } from '../store/runs.ts';
import { loadToolCall } from '../store/tools.ts';
import type { ActivityContext } from './context.ts';
import { ActivityStop } from './stop.ts';
import { PostgresToolCall } from './tool-recorder.ts';
import { retryWhileAway } from './write-until-stored.ts';

/**
 * Runs one tool call, from claim to stored outcome. Idempotent by the outcome on the part. A call that an earlier attempt
 * began and left without an outcome runs again only if the tool is repeatable.
 */
export async function runToolCall(context: ActivityContext, args: ToolArgs): Promise<ToolOutcome> {
  using stop = new ActivityStop(context, args);
  const fence = [args.epoch, args.ordinal, Context.current().info.attempt] as const;
  const claim: Claim = { sessionId: args.session_id, runSeq: args.run_seq, fence };
  // The attempt retries this itself: of a call that the previous activity began (args.begun), only the first attempt knows
  // that the tool has not run yet.
  const call = await retryWhileAway({ context, claim, stop }, () =>
    loadToolCall(context.db, args.session_id, args.run_seq, args.tool_call_id),
  );
  if (call === undefined) throw ApplicationFailure.nonRetryable('ToolCallNotFound', 'ToolCallNotFound');
  const agent = context.agents.list().find((each) => each.id === call.agent);
  const limits = limitsOf(agent ?? context.agents.default);
  stop.limitTo(limits.wall_clock_ms - call.elapsed_ms);
  const { data } = call;
  const toolName = data.type === 'dynamic-tool' ? String(data['toolName']) : data.type.slice('tool-'.length);
  return await performToolCall(
    { tools: agent?.tools ?? [], toolName, input: data['input'], stop, maxOutputBytes: limits.tool_output_bytes },
    new PostgresToolCall({ context, args, claim, call, stop }),
  );
}
