// The agent of a campaign, loaded through PERDURE_AGENTS. Every tool logs a line before it acts, so that actual runs are
// known independently of the rows.
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import {
  defineAgent,
  defineMcpServer,
  defineTool,
  type ToolContext,
  type ToolDefinition,
} from '../../agent/definition/define.ts';
import { buildAndDeploy, todoComplete } from '../../examples/site-builder/tools.ts';
import { CANARY, CREW, SUMMARIZER_MODEL, TEMP_CANARY } from './plan.ts';

/** A line of the tool log. */
export interface ToolRun {
  session: string;
  call: string;
  tool: string;
  /** When it began, in epoch milliseconds. */
  at: number;
  /** Of `keep`: the call whose `temp:` value it found. */
  saw?: string;
}

/** A line of the MCP server, which knows the model's id of a call only. */
export interface ServerRun {
  provider: string;
}

/** The tool that asks, and the one that is denied. */
export const ASKING = 'ask';
export const FORBIDDEN = 'never';

/** Tools that are not repeatable. */
export const ONCE: readonly string[] = ['pay', 'slow_pay', ASKING, FORBIDDEN];

const TAKES_MS = { pay: 50, slow_pay: 1_200, look: 100, [ASKING]: 50, [FORBIDDEN]: 50 };

function note(tool: string, ctx: ToolContext, more: Pick<ToolRun, 'saw'> = {}): void {
  const run: ToolRun = { session: ctx.sessionId, call: ctx.toolCallId, tool, at: Date.now(), ...more };
  const file = process.env['CHAOS_TOOL_LOG'];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(run)}\n`);
}

function acting(name: keyof typeof TAKES_MS, repeatable: boolean): ToolDefinition {
  return defineTool({
    name,
    description: `Acts, and takes ${TAKES_MS[name]} ms.`,
    input: z.object({ what: z.string() }),
    repeatable,
    // The number of the call in its step: what was allowed for the session is allowed again.
    permission: ({ what }) => what.slice(-1),
    async execute({ what }, ctx) {
      note(name, ctx);
      await delay(TAKES_MS[name], undefined, { signal: ctx.signal });
      ctx.state.set(`did-${name}`, what);
      // Large enough to be pruned.
      return name === 'look' ? { did: what, saw: `${CANARY} `.repeat(60) } : { did: what };
    },
  });
}

/** Writes state of all scopes. It counts by increments, so that a repetition shows. */
const keep = defineTool({
  name: 'keep',
  description: 'Writes state.',
  input: z.object({ what: z.string() }),
  repeatable: true,
  execute(_input, ctx) {
    const { state, toolCallId } = ctx;
    const draft = state.get('temp:draft');
    note('keep', ctx, typeof draft === 'string' ? { saw: draft.slice(TEMP_CANARY.length) } : {});
    for (const scope of ['', 'user:', 'app:']) {
      state.increment(`${scope}kept`);
      state.set(`${scope}last`, toolCallId);
      // Read, then removed or set: if another writer did so meanwhile, the result is an error.
      const odd = `${scope}odd`;
      if (state.has(odd)) state.delete(odd);
      else state.set(odd, toolCallId);
    }
    state.set('temp:draft', `${TEMP_CANARY}${toolCallId}`);
    return 'kept';
  },
});

function noted(tool: ToolDefinition): ToolDefinition {
  return {
    ...tool,
    execute(input, ctx) {
      note(tool.name, ctx);
      return tool.execute?.(input, ctx);
    },
  };
}

const notes = defineMcpServer({
  name: 'notes',
  transport: { type: 'http', url: process.env['CHAOS_MCP_URL'] ?? 'http://127.0.0.1:1/mcp' },
});

export default [
  defineAgent({
    id: 'chaos',
    description: 'Does what its messages say.',
    mode: 'primary',
    prompt: 'Do as you are told. The last call was {app:last?}, {temp:draft?}.',
    compaction: {
      compact_at: 0.03,
      prune_at: 0.02,
      tail_turns: 1,
      prune_min_tokens: 20,
      prune_keep: 0,
      summarizer: 'summarizer',
    },
    tools: [
      acting('pay', false),
      acting('slow_pay', false),
      acting('look', true),
      acting(ASKING, false),
      acting(FORBIDDEN, false),
      keep,
      noted(buildAndDeploy),
      noted(todoComplete),
    ],
    permissions: [
      { permission: ASKING, pattern: '*', action: 'ask' },
      { permission: FORBIDDEN, pattern: '*', action: 'deny', pinned: true },
    ],
    subagents: ['helper'],
    mcp: [notes],
  }),
  defineAgent({
    id: CREW,
    description: 'Works on an initiative.',
    mode: 'primary',
    initiative: 'worker',
    prompt: 'Do as you are told.',
    compaction: { compact_at: 0.2, tail_turns: 1, summarizer: 'summarizer' },
    tools: [],
  }),
  defineAgent({
    id: 'helper',
    description: 'Helps.',
    mode: 'subagent',
    prompt: 'Do as you are told.',
    tools: [acting('pay', false), acting('look', true)],
  }),
  defineAgent({
    id: 'summarizer',
    description: 'Writes summaries.',
    mode: 'subagent',
    prompt: 'Summarize it.',
    model: SUMMARIZER_MODEL,
    tools: [],
  }),
];
