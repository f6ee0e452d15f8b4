import type { Logger } from 'pino';
import type pg from 'pg';
import type { AgentRegistry } from '../agent/registry.ts';
import type { Models } from '../agent/models.ts';
import type { Bus } from '../bus/bus.ts';
import type { Usage } from '../domain/usage.ts';
import type { WorkerMetrics } from './metrics.ts';

/** Callbacks of the application. */
export interface Hooks {
  /** The price of a step in US dollars; undefined: unknown. */
  cost?(step: { model: string; usage: Usage }): number | undefined;
}

/** The dependencies of activities, created once per worker. */
export interface ActivityContext {
  db: pg.Pool;
  bus: Bus;
  agents: AgentRegistry;
  models: Models;
  log: Logger;
  metrics: WorkerMetrics;
  hooks: Hooks;
  /** Removes this process's secrets from what tools return, before a model or a row gets it. */
  hide(text: string): string;
  settings: ActivitySettings;
}

/** Durations in milliseconds. */
export interface ActivitySettings {
  idleCloseMs: number;
  continueAsNewEvents: number;
  heartbeatTimeoutMs: number;
  /** A chunk of an answer is written after at most this time. */
  saveBufferMs: number;
  /** Chunks of an answer are written when this many wait. */
  saveBufferSize: number;
  /** Folder of all workspaces. */
  workspaces: string;
  /** Maximum of attempts at a step while the provider fails temporarily. */
  providerAttempts: number;
}
