import type { LanguageModel } from 'ai';

/** A model object of the AI SDK: what a provider makes, and what a worker may bring of its own. */
export type ModelObject = Extract<LanguageModel, { specificationVersion: 'v4' }>;

/** A prompt as the AI SDK hands it to a model. */
export type ModelPrompt = Parameters<ModelObject['doStream']>[0]['prompt'];
