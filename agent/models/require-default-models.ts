import { type AgentDefinition, DefinitionError } from '../definition/define.ts';
import type { Models } from './models.ts';

/**
 * Checks at the start that the models which are used by default exist, so that no turn fails because of them.
 * @throws {DefinitionError} naming the default model or the agent whose model cannot be resolved, and the configured ones
 */
export function requireDefaultModels(agents: readonly AgentDefinition[], models: Models): void {
  requireModel('PERDURE_MODEL, the default model', models.defaultRef, models);
  for (const { id, model } of agents) if (model !== undefined) requireModel(`agent "${id}": model`, model, models);
}

function requireModel(field: string, ref: string, models: Models): void {
  try {
    models.resolve(ref);
  } catch (error) {
    const { message, cause } = error as Error;
    const reason = cause instanceof Error ? `${message}: ${cause.message}` : message;
    throw new DefinitionError(`${field}: expected a model that can be resolved; ${reason}`, { cause: error });
  }
}
