// The agent of the benchmark, loaded through PERDURE_AGENTS: a short prompt and one trivial tool.
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/define.ts';

/** Returns at once, with as many characters as asked for. */
export const ping = defineTool({
  name: 'ping',
  description: 'Answers pong.',
  input: z.object({ output: z.int() }),
  execute: ({ output }) => 'pong'.repeat(Math.ceil(output / 4)).slice(0, output),
});

export const AGENT = 'bench';
export const PROMPT = 'You are here to be measured. Be brief.';

export default [
  defineAgent({ id: AGENT, description: 'For the benchmark.', mode: 'primary', prompt: PROMPT, tools: [ping] }),
];
