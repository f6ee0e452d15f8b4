import type pg from 'pg';
import type { Logger } from 'pino';
import type { InitiativeCalls } from '../agent/initiatives/initiative-tools.ts';
import type { AgentRegistry } from '../agent/loading/agent-registry.ts';
import type { McpTools } from '../agent/mcp/mcp-tools.ts';
import type { Models } from '../agent/models/models.ts';
import type { Snapshots } from '../agent/snapshots.ts';
import type { Bus } from '../bus/bus.ts';
import type { Usage } from '../domain/usage.ts';
import type { Contents } from '../store/contents.ts';
import type { Admission } from './admission/admission.ts';
import type { StreamWriter } from './streaming/stream-writer.ts';
import type { WorkerMetrics } from './worker-metrics.ts';

/** Callbacks of the application. */
export interface Hooks {
  /** The price of a step in US dollars; undefined: unknown. */
  cost?(step: { model: string; usage: Usage }): number | undefined;
  /** Snapshots of what tools change. */
  snapshots?: Snapshots;
}

/** Whose tool call it is. */
export interface InitiativeCaller {
  userId: string;
  sessionId: string;
  /** The agent's id. */
  agent: string;
  /** The initiative that the session has joined; null: none. */
  initiativeId: string | null;
  /** Of the session; an initiative that it creates gets the same. Null: it has no project, or was given no folder. */
  projectId: string | null;
  workspaceRoot: string | null;
  toolCallId: string;
  /** Of the call's output; what is longer is cut. */
  maxOutputBytes: number;
}

/** The dependencies of activities, created once per worker. */
export interface ActivityContext {
  /** The id under which this worker has its lease. */
  worker: string;
  db: pg.Pool;
  /** The bytes of attachments. */
  contents: Contents;
  bus: Bus;
  /** Writes the answers that stream, through `db`. */
  streams: StreamWriter;
  agents: AgentRegistry;
  /** The tools of the agents' MCP servers. */
  mcp: McpTools;
  models: Models;
  log: Logger;
  metrics: WorkerMetrics;
  admission: Admission;
  hooks: Hooks;
  /** Removes this process's secrets from what tools return, before a model or a row gets it. */
  hide(text: string): string;
  /** The tools of initiatives for one tool call. */
  initiativeCalls(caller: InitiativeCaller): InitiativeCalls;
  /** The run id of a session's newest execution, as Temporal has it. */
  currentRun(sessionId: string): Promise<string>;
  /** A user's id as Temporal gets it. */
  showUser(userId: string): string;
  settings: ActivitySettings;
}

/** Durations in milliseconds. */
export interface ActivitySettings {
  idleCloseMs: number;
  /** Of a work session: since it was given a task, and since its last sign of life. */
  staleAssignmentMs: number;
  staleProgressMs: number;
  continueAsNewEvents: number;
  heartbeatTimeoutMs: number;
  /** When an answer is written and shown: while it streams, when each step is complete, or when the turn is over. */
  saveOn: 'chunk' | 'step' | 'turn';
  /** A chunk of an answer is written after at most this time. */
  saveBufferMs: number;
  /** Chunks of an answer are written when this many wait. */
  saveBufferSize: number;
  /** Folder of all workspaces. */
  workspaces: string;
  /** Time for each call of the hook for snapshots; default: ten seconds. */
  snapshotMs?: number;
  /** Instruction files that tools wrote enter prompts, too. */
  trustOwnInstructions: boolean;
  /** Maximum of children that a turn may call. */
  maxSubagents: number;
  /** Maximum of attempts at a step while the provider fails temporarily. */
  providerAttempts: number;
}
