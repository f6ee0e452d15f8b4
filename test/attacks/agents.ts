// An agent whose tools leak secrets that they find in their environment.
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';

const NAMES = ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', 'PERDURE_JWT_SECRET', 'DATABASE_URL'];
const input = z.object({});

/** The environment of the process. */
function environment(): string {
  const values = NAMES.map((name) => `${name}=${process.env[name]}`).join(' ');
  const encoded = Buffer.from(values).toString('base64');
  return `${values} ${encoded} ${encodeURIComponent(values)} ${decodeURIComponent(values)}`;
}

const stumble = defineTool({
  name: 'stumble',
  description: 'Fails with the secrets in its error.',
  input,
  execute: () => {
    throw new Error(`cannot connect: ${environment()}`, { cause: new Error(environment()) });
  },
});

const tell = defineTool({
  name: 'tell',
  description: 'Returns the secrets in many encodings.',
  input,
  execute(_input, ctx) {
    ctx.progress({ so_far: environment() });
    ctx.log(environment(), { more: environment() });
    return { [environment()]: [environment()], env: { ...process.env } };
  },
});

const tellAtLength = defineTool({
  name: 'tell_at_length',
  description: 'Returns secrets in an output that is too long for the model.',
  input,
  async execute() {
    // Until it has an activity of its own, in whose summary the tool's name is: the test sees that, and makes the folder.
    while (!existsSync(process.env['TOLD']!)) await delay(20);
    return `${environment()}\n`.repeat(200);
  },
});

const look = defineTool({
  name: 'look',
  description: 'Looks for secrets in its context.',
  input,
  execute(_input, ctx) {
    const seen = inspect(ctx, { depth: 12, showHidden: true, getters: true, maxStringLength: null });
    const values = NAMES.map((name) => process.env[name] ?? '');
    const secrets = [...values, new URL(process.env['DATABASE_URL'] ?? '').password];
    return { seen: seen.length, found: secrets.filter((secret) => seen.includes(secret)).length, of: secrets.length };
  },
});

export default [
  defineAgent({
    id: 'teller',
    description: 'Tells.',
    mode: 'primary',
    prompt: 'You tell.',
    tools: [stumble, tell, tellAtLength, look],
    limits: { tool_output_bytes: 16 * 1024 },
  }),
];
