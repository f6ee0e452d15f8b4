interface Part {
  type: string;
  toolCallId?: string;
  state?: string | undefined;
}

/**
 * For `sendAutomaticallyWhen` of the AI SDK's useChat, made once for a chat: the last message is an answer in whose last step a
 * tool call was just approved or rejected. Calls ask one after the other, so a page sends each response at once. It sends it once:
 * the AI SDK asks again after every stream, and a call that the page carries out stays approved until its output is there.
 */
export function sendWhenAnswered(): (chat: {
  messages: readonly { role: string; parts: readonly Part[] }[];
}) => boolean {
  const sent = new Set<string>();
  return ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== 'assistant') return false;
    const step = last.parts.slice(last.parts.findLastIndex(({ type }) => type === 'step-start') + 1);
    const news = step.flatMap(({ state, toolCallId: id }) =>
      state === 'approval-responded' && id !== undefined && !sent.has(id) ? [id] : [],
    );
    for (const id of news) sent.add(id);
    return news.length > 0;
  };
}
