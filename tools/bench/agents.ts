// The agent of the benchmark, as PERDURE_AGENTS names it: a short prompt and one trivial tool.
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/define.ts';

/** Answers at once, as many characters as it is asked for. */
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
