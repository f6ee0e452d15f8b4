import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Env } from '../config/config.ts';
import { runInTerminal } from './terminal.ts';

const HELP = `perdure dev: starts Postgres, Temporal with its UI, a worker, a host and the chat page, and stops them with
Ctrl-C. Everything is kept in .perdure/. When a file of the agents changes, they are loaded again; sessions go on.

usage: perdure dev

The agents are those of PERDURE_AGENTS, else of agents or agent (.ts, .mts, .js or .mjs) in this folder. Settings come
from the environment, then from the file .env.development. docs/operations.md of the package lists them.`;

const AGENTS = ['agents', 'agent'].flatMap((name) => ['ts', 'mts', 'js', 'mjs'].map((type) => `${name}.${type}`));

/** `perdure dev`, in the working directory. */
export async function runDev(args: readonly string[]): Promise<void> {
  if (args.includes('--help') || args.includes('-h')) return console.log(HELP);
  const [unknown] = args;
  if (unknown !== undefined) {
    console.error(`perdure dev: expected no "${unknown}"; see perdure dev --help`);
    process.exit(2);
  }
  if (existsSync('.env.development')) process.loadEnvFile('.env.development');
  await runInTerminal(devEnvironment(process.env));
}

/** The environment with the agents of the working directory, which are loaded again when they change. */
function devEnvironment(env: Env, folder: string = process.cwd()): Env {
  const found = AGENTS.map((name) => path.join(folder, name)).find((file) => existsSync(file));
  return { PERDURE_RELOAD: 'true', ...env, PERDURE_AGENTS: env['PERDURE_AGENTS'] || found };
}
