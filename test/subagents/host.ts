// Agents with subagents, and a host through which users reach them.
import type { AgentDefinition } from '../../agent/definition/define.ts';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';

/** A runtime with these agents, and a host that offers some of them by their ids. Call it in a beforeAll. */
export async function startWithHost(
  agents: readonly AgentDefinition[],
  offered: readonly [string, ...string[]],
): Promise<{ runtime: TestRuntime; host: TestHost }> {
  const runtime = await startRuntime({ agents });
  const { databaseUrl, address, namespace, workspaces } = runtime;
  const temporal = temporalClient({ connectionOptions: { address }, namespace });
  return { runtime, host: await startHost({ databaseUrl, temporal, workspaces, agents: offered }) };
}
