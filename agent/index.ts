// perdure: definitions of agents and tools, and running an agent without a server.
export {
  type AgentDefinition,
  DEFAULT_LIMITS,
  defineAgent,
  defineMcpServer,
  DefinitionError,
  defineTool,
  type Limits,
  type PromptSession,
  type Raise,
  type ToolContext,
  type ToolDefinition,
  type ToolSetOf,
  type ToolState,
  type ToolTodos,
  type TurnSession,
} from './definition/define.ts';
export type { McpServerDefinition } from './definition/mcp-server-definition.ts';
export { type MemorySession, memorySession } from './memory/memory-session.ts';
export { createModels, type Models, type ModelSettings, type ResolvedModel } from './models/models.ts';
export type { CustomProvider, CustomProviders } from './models/providers.ts';
export { providerFetch } from './provider-stream/provider-fetch.ts';
export type { RestorePlace, SnapshotPlace, Snapshots } from './snapshots.ts';
export { type AnswerMetadata, run, type RunOptions } from './memory/run.ts';
