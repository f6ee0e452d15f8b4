import { z } from 'zod';

/** A part of a message that the model sees. */
export const viewPart = z.object({
  id: z.string(),
  role: z.enum(['user', 'assistant', 'system']),
  aborted: z.boolean(),
  data: z.looseObject({ type: z.string() }),
});

/** A stored message, as input of `modelView`. */
export interface ViewMessage {
  id: string;
  role: 'user' | 'assistant' | 'system';
  /** The run that wrote it was aborted. */
  aborted: boolean;
  parts: { type: string }[];
}

/** The messages of parts that are in order. */
export function viewMessages(parts: readonly z.infer<typeof viewPart>[]): ViewMessage[] {
  const messages: ViewMessage[] = [];
  for (const { data, ...message } of parts) {
    const last = messages.at(-1);
    if (last?.id === message.id) last.parts.push(data);
    else messages.push({ ...message, parts: [data] });
  }
  return messages;
}
