// The crew of examples/crew, loaded through PERDURE_AGENTS. While the file `armed` is in the folder CREW_GATE, the first file that a
// worker writes waits there: `held` names the session and the process, and the file `go` lets it go on, in whatever process.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { defineAgent, type ToolContext, type ToolDefinition } from '../../agent/definition/define.ts';
import agents from '../../examples/crew/agents.ts';

/** Who waits. */
export interface Held {
  session: string;
  pid: number;
}

const POLL_MS = 20;
const folder = process.env['CREW_GATE'] ?? '';
const at = (name: string) => path.join(folder, name);

/** The first one waits; also when it is repeated by another process. */
async function pass({ sessionId: session, signal }: ToolContext): Promise<void> {
  if (!existsSync(at('armed'))) return;
  const held: Held = { session, pid: process.pid };
  try {
    writeFileSync(at('held'), JSON.stringify(held), { flag: 'wx' });
  } catch {
    if ((JSON.parse(readFileSync(at('held'), 'utf8')) as Held).session !== session) return;
  }
  while (!existsSync(at('go'))) await delay(POLL_MS, undefined, { signal });
}

const gated = (tool: ToolDefinition): ToolDefinition => ({
  ...tool,
  async execute(input, ctx) {
    await pass(ctx);
    return tool.execute?.(input, ctx);
  },
});

export default agents.map((agent) => {
  const tools: readonly ToolDefinition[] = agent.tools;
  return defineAgent({ ...agent, tools: tools.map((tool) => (tool.name === 'write_file' ? gated(tool) : tool)) });
});
