import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { UIMessage } from 'ai';
import type { AgentDefinition } from '../../agent/definition/define.ts';
import { type MemorySession, memorySession } from '../../agent/memory/memory-session.ts';
import { run } from '../../agent/memory/run.ts';
import { createModels } from '../../agent/models/models.ts';
import { type CustomProvider } from '../../agent/models/providers.ts';
import { collectTurn, type TestTurn } from './turn.ts';

/** What a turn in memory needs. */
export interface RunTurnOptions {
  agent: AgentDefinition;
  /** A model of the AI SDK, such as `scriptedModel(…)`. */
  model: ReturnType<Extract<CustomProvider, (model: string) => unknown>>;
  /** The user's message. */
  text: string | UIMessage;
  /** The `session` of an earlier turn, to go on with it; default: a new one, with an empty folder as workspace. */
  session?: MemorySession;
  userId?: string;
  /** Aborts the turn. */
  signal?: AbortSignal;
}

/** A whole turn in memory, with the worker's own loop, steps and tool calls, and no server. */
export async function runTurn(options: RunTurnOptions): Promise<TestTurn & { session: MemorySession }> {
  const { agent, text, signal, userId, model } = options;
  const session =
    options.session ??
    memorySession({ agent, workspaceRoot: temporaryFolder(), ...(userId !== undefined && { userId }) });
  const resolved = createModels({ providers: { test: () => model } }).resolve('test/model');
  const chunks = run(session, text, resolved, { attempts: 1, ...(signal && { signal }) });
  return { ...(await collectTurn(chunks)), session };
}

/** A new folder that is deleted when the process ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'perdure-test-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
