import type { Logger } from 'pino';
import type pg from 'pg';
import type { AgentRegistry } from '../agent/registry.ts';
import type { Models } from '../agent/models.ts';
import type { Bus } from '../bus/bus.ts';
import type { Usage } from '../domain/usage.ts';
import type { WorkerMetrics } from './metrics.ts';

/** A host application's say in what happens. */
export interface Hooks {
  /** The price of a step in US dollars, where the host knows it. */
  cost?(step: { model: string; usage: Usage }): number | undefined;
}

/** What activities work with; made once by the worker. */
export interface ActivityContext {
  db: pg.Pool;
  bus: Bus;
  agents: AgentRegistry;
  models: Models;
  log: Logger;
  metrics: WorkerMetrics;
  hooks: Hooks;
  /** Takes secrets out of what tools bring: what they have seen of the process is for no model and no row. */
  hide(text: string): string;
  settings: ActivitySettings;
}

/** Durations in milliseconds. */
export interface ActivitySettings {
  idleCloseMs: number;
  continueAsNewEvents: number;
  heartbeatTimeoutMs: number;
  /** Longest time that a chunk of an answer waits before it is saved. */
  saveBufferMs: number;
  /** Most chunks that wait before they are saved. */
  saveBufferSize: number;
  /** Folder below which workspaces lie. */
  workspaces: string;
  /** Tries of a step against a provider that fails in passing. */
  providerAttempts: number;
}
