// The agents of the benchmark, loaded through PERDURE_AGENTS: a short prompt and one trivial tool; and one that calls another.
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { ASKING_AGENT } from './names.ts';

/** Returns at once, with as many characters as asked for. */
export const ping = defineTool({
  name: 'ping',
  description: 'Answers pong.',
  input: z.object({ output: z.int() }),
  execute: ({ output }) => 'pong'.repeat(Math.ceil(output / 4)).slice(0, output),
});

/** Tells when it began, in epoch milliseconds. */
const approved = defineTool({
  name: 'approved',
  description: 'Tells the time.',
  input: z.object({}),
  execute: () => ({ startedAt: Date.now() }),
});

export const AGENT = 'bench';
/** Calls `CHILD`. */
export const PARENT = 'bench-parent';
export const CHILD = 'bench-child';
export const PROMPT = 'You are here to be measured. Be brief.';

const measured = { description: 'For the benchmark.', prompt: PROMPT, tools: [ping] } as const;

export default [
  defineAgent({ ...measured, id: AGENT, mode: 'primary' }),
  defineAgent({
    id: ASKING_AGENT,
    description: 'For approvals.',
    mode: 'primary',
    prompt: PROMPT,
    tools: [approved],
    permissions: [{ permission: 'approved', pattern: '*', action: 'ask' }],
  }),
  defineAgent({ ...measured, id: PARENT, mode: 'primary', subagents: [CHILD] }),
  defineAgent({ ...measured, id: CHILD, mode: 'subagent' }),
];
