import { Counter, Histogram, type Registry } from 'prom-client';
import type { Usage } from '../domain/usage.ts';

/** The metrics of activities. Labels have few values: no session, user or text. Durations in seconds. */
export interface WorkerMetrics {
  refused(command: string, code: string): void;
  stepSettled(model: string, usage: Usage): void;
  /** A turn is over: finished, aborted or error, with the error's code. */
  turnEnded(outcome: string, code: string | null): void;
  /** From the model call to its first chunk. */
  firstChunk(model: string, seconds: number): void;
  /** From a chunk of the model to its commit. */
  written(seconds: number): void;
  /** From the arrival of an abort at the worker until the last text is written and the model's connection is closed. */
  aborted(seconds: number): void;
  /** A call of a model failed; `code` is that of our error. */
  providerFailed(code: string, provider: string): void;
  /** `tool` is the name of an agent's tool, else `unknown`. */
  toolCalled(tool: string, outcome: 'ok' | 'error'): void;
  /** A tool of an MCP server is not as it was when an agent first saw it. */
  mcpToolChanged(server: string, tool: string): void;
}

const QUICK = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const MODELS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Counters on a registry of Prometheus. */
export function workerMetrics(registry: Registry): WorkerMetrics {
  const count = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter({ name, help, labelNames, registers: [registry] });
  const time = <L extends string>(name: string, help: string, buckets: number[], ...labelNames: L[]) =>
    new Histogram({ name, help, buckets, labelNames, registers: [registry] });
  const refused = count('perdure_refused_total', 'Commands that were refused.', 'command', 'code');
  const steps = count('perdure_steps_total', 'Settled steps.', 'model');
  const tokens = count('perdure_tokens_total', 'Tokens of settled steps.', 'model', 'kind');
  const turns = count('perdure_turns_total', 'Turns that are over; code is that of an error.', 'outcome', 'code');
  const tools = count('perdure_tool_calls_total', 'Tool calls that have their outcome.', 'tool', 'outcome');
  const changes = count('perdure_mcp_tool_changes_total', 'Changed tools of MCP servers.', 'server', 'tool');
  const providers = count('perdure_provider_errors_total', 'Failed model calls.', 'class', 'provider');
  const first = time('perdure_model_first_chunk_seconds', 'Time to a model’s first chunk.', MODELS, 'model');
  const lag = time('perdure_delta_lag_seconds', 'Time from a chunk of the model to its commit.', QUICK);
  const abort = time('perdure_abort_seconds', 'Time from an abort’s arrival to the end of the step.', QUICK);
  return {
    refused: (command, code) => refused.inc({ command, code }),
    stepSettled: (model, usage) => {
      steps.inc({ model });
      for (const [kind, amount] of Object.entries(usage)) tokens.inc({ model, kind }, amount);
    },
    turnEnded: (outcome, code) => turns.inc({ outcome, code: code ?? '' }),
    firstChunk: (model, seconds) => first.observe({ model }, seconds),
    written: (seconds) => lag.observe(seconds),
    aborted: (seconds) => abort.observe(seconds),
    providerFailed: (code, provider) => providers.inc({ class: code, provider }),
    mcpToolChanged: (server, tool) => changes.inc({ server, tool }),
    toolCalled: (tool, outcome) => tools.inc({ tool, outcome }),
  };
}
