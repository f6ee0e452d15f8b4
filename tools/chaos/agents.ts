// The agent of a campaign, loaded through PERDURE_AGENTS. Every tool logs a line before it acts, so that actual runs are
// known independently of the rows.
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { defineAgent, defineTool, type ToolContext, type ToolDefinition } from '../../agent/define.ts';
import { buildAndDeploy, todoComplete } from '../../examples/site-builder/tools.ts';

/** A line of the tool log. */
export interface ToolRun {
  session: string;
  call: string;
  tool: string;
}

/** Tools that are not repeatable. */
export const ONCE: readonly string[] = ['pay', 'slow_pay'];

const TAKES_MS = { pay: 50, slow_pay: 1_200, look: 100 };

function note(tool: string, ctx: ToolContext): void {
  const run: ToolRun = { session: ctx.sessionId, call: ctx.toolCallId, tool };
  const file = process.env['CHAOS_TOOL_LOG'];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(run)}\n`);
}

function acting(name: keyof typeof TAKES_MS, repeatable: boolean): ToolDefinition {
  return defineTool({
    name,
    description: `Acts, and takes ${TAKES_MS[name]} ms.`,
    input: z.object({ what: z.string() }),
    repeatable,
    async execute({ what }, ctx) {
      note(name, ctx);
      await delay(TAKES_MS[name], undefined, { signal: ctx.signal });
      ctx.state.set(`did-${name}`, what);
      return { did: what };
    },
  });
}

function noted(tool: ToolDefinition): ToolDefinition {
  return {
    ...tool,
    execute(input, ctx) {
      note(tool.name, ctx);
      return tool.execute(input, ctx);
    },
  };
}

export default [
  defineAgent({
    id: 'chaos',
    description: 'Does what its messages say.',
    mode: 'primary',
    prompt: 'Do as you are told.',
    tools: [
      acting('pay', false),
      acting('slow_pay', false),
      acting('look', true),
      noted(buildAndDeploy),
      noted(todoComplete),
    ],
  }),
];
