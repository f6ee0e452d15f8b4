import { defineAgent, defineTool } from 'perdure';
import { z } from 'zod';

const dice = defineTool({
  name: 'dice',
  description: 'Throws dice.',
  input: z.object({ count: z.int().positive() }),
  repeatable: true,
  execute: ({ count }, ctx) => ({ thrown: count, for: ctx.userId }),
});

export const croupier = defineAgent({
  id: 'croupier',
  description: 'Plays.',
  mode: 'primary',
  prompt: 'Play.',
  tools: [dice],
});

export default [croupier];
