// perdure: definitions of agents and tools, and running an agent without a server.
export {
  type AgentDefinition,
  DEFAULT_LIMITS,
  defineAgent,
  DefinitionError,
  defineTool,
  type Limits,
  type Raise,
  type ToolContext,
  type ToolDefinition,
  type ToolState,
  type ToolTodos,
} from './define.ts';
export { type MemorySession, memorySession } from './memory.ts';
export { createModels, type Models, type ModelSettings, type ResolvedModel } from './models.ts';
export { type AnswerMetadata, run, type RunOptions } from './run.ts';
