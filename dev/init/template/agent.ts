import { defineAgent, defineTool } from 'perdure';
import { z } from 'zod';

export const roll = defineTool({
  name: 'roll',
  description: 'Rolls dice with six sides.',
  input: z.object({ dice: z.int().min(1).max(100).describe('how many dice') }),
  // Running it again after a crash does no harm.
  repeatable: true,
  execute: ({ dice }) => {
    const thrown = Array.from({ length: dice }, () => 1 + Math.floor(Math.random() * 6));
    return { thrown, sum: thrown.reduce((sum, each) => sum + each, 0) };
  },
});

// The first agent is the default. PERDURE_AGENTS names this file for workers and hosts; `perdure dev` finds it by its name.
export default [
  defineAgent({
    id: 'croupier',
    description: 'Rolls dice.',
    mode: 'primary',
    prompt: 'You roll dice for the user. Use the tool for every roll and report what it returned. Be brief.',
    tools: [roll],
  }),
];
