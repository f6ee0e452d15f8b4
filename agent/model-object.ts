import type { LanguageModel } from 'ai';

/** A model object of the AI SDK, as providers create it. */
export type ModelObject = Extract<LanguageModel, { specificationVersion: 'v4' }>;

/** A prompt as the AI SDK passes it to a model. */
export type ModelPrompt = Parameters<ModelObject['doStream']>[0]['prompt'];
