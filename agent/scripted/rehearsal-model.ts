import type { ModelObject } from '../model-object.ts';
import { rehearsalReply } from './rehearsal-reply.ts';
import { scriptModel } from './script-model.ts';

export const REHEARSAL_PROVIDER = 'rehearsal';

/** The model that needs no provider key, `provider/model`. */
export const REHEARSAL_MODEL = 'rehearsal/site-builder';

/** Pause between two words. */
const DELAY_MS = 12;

/** A model without a network that plays building a site. It is stateless: its response depends on the prompt alone. */
export function rehearsalModel({ delayMs = DELAY_MS }: { delayMs?: number } = {}): ModelObject {
  return scriptModel({
    provider: REHEARSAL_PROVIDER,
    modelId: REHEARSAL_MODEL.slice(REHEARSAL_PROVIDER.length + 1),
    replyTo: ({ prompt, tools }) => rehearsalReply(prompt, tools?.map((tool) => tool.name) ?? []),
    delayMs,
  });
}
