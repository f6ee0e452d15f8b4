/** A model: `provider/model`, such as openai/gpt-5. */
export const MODEL_PATTERN = /^[^/\s]+\/\S+$/;

/** The provider and the model that a reference names; `model_id` may contain slashes. Both are empty without a slash. */
export function splitModelRef(ref: string): { provider_id: string; model_id: string } {
  const slash = ref.indexOf('/');
  return { provider_id: ref.slice(0, Math.max(slash, 0)), model_id: slash < 0 ? '' : ref.slice(slash + 1) };
}
