import { isToolPart, toolNameOf } from './part-data.ts';

interface Part {
  type: string;
  toolCallId?: string;
  toolName?: string;
  state?: string | undefined;
  providerExecuted?: boolean | undefined;
  preliminary?: boolean | undefined;
}

const DECIDED: ReadonlySet<unknown> = new Set(['approval-requested', 'approval-responded', 'output-denied']);

/**
 * For `sendAutomaticallyWhen` of the AI SDK's useChat; made once, outside of components, because it knows what it has reported. It
 * is true if the last message is an answer, and in its last step a tool call was approved or rejected, or the page has given the
 * outcome of one of `tools`, which it carries out. Calls run one after the other, and the server takes only what it waits for: so it
 * is false while an earlier call of the step is open. Each response and outcome is reported once, because the AI SDK asks after
 * every stream: what did not reach the server is sent by `sendMessage()`.
 *
 * @param options.tools names of the tools that the page carries out, with `addToolOutput`
 */
export function sendWhenAnswered({ tools = [] }: { tools?: readonly string[] } = {}): (chat: {
  messages: readonly { role: string; parts: readonly Part[] }[];
}) => boolean {
  const reported = new Set<string>();
  const isNews = (mark: string) => reported.size < reported.add(mark).size;
  return ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== 'assistant') return false;
    const step = last.parts.slice(last.parts.findLastIndex(({ type }) => type === 'step-start') + 1);
    const calls = step.filter((part) => isToolPart(part) && part.providerExecuted !== true);
    // What is before a call that was decided has reached the server.
    const from = Math.max(
      0,
      calls.findLastIndex(({ state }) => DECIDED.has(state)),
    );
    for (const { state, toolCallId: id, preliminary, ...part } of calls.slice(from)) {
      if (state === 'approval-responded') return isNews(`approval ${id}`);
      if (state === 'output-denied') continue;
      if ((state !== 'output-available' && state !== 'output-error') || preliminary === true) return false;
      if (tools.includes(toolNameOf(part)) && isNews(`output ${id}`)) return true;
    }
    return false;
  };
}
