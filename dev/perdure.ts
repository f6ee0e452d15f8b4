// The program `perdure`: one command each for development, deployment and operation.
const COMMANDS: Readonly<Record<string, { does: string; run: (args: readonly string[]) => Promise<void> }>> = {
  init: {
    does: 'creates a small project in this folder',
    run: async (args) => (await import('./init/init.ts')).runInit(args),
  },
  dev: {
    does: 'starts Postgres, Temporal, a worker, a host and the chat page with the agents of this folder',
    run: async (args) => (await import('./dev.ts')).runDev(args),
  },
  migrate: {
    does: 'brings database and namespace up to date',
    run: async (args) => program(() => import('../migrations/main.ts'), args),
  },
  worker: { does: 'runs the turns of sessions', run: async (args) => program(() => import('../worker/main.ts'), args) },
  host: {
    does: 'serves the HTTP API and the chat page',
    run: async (args) => program(() => import('../host/main.ts'), args),
  },
  replay: {
    does: "replays a server's histories against this version's workflow code",
    run: async (args) => (await import('./replay/run-replay.ts')).runReplay(args),
  },
  'check-server': {
    does: 'says which of our settings the Temporal server has',
    run: async (args) => (await import('./server-check/run-server-check.ts')).runServerCheck(args),
  },
  planning: {
    does: 'exports an initiative as the folder .planning/, and imports such a folder',
    run: async (args) => (await import('./planning.ts')).runPlanning(args),
  },
};

/** Runs the command that the arguments name. */
export async function perdure([name, ...args]: readonly string[]): Promise<void> {
  const command = name === undefined ? undefined : COMMANDS[name];
  if (command !== undefined) return command.run(args);
  const isHelp = name === undefined || ['help', '--help', '-h'].includes(name);
  if (isHelp) console.log(help());
  else console.error(`perdure: there is no command "${name}"\n\n${help()}`);
  process.exitCode = isHelp ? 0 : 2;
}

/** Worker, host and migrate read their arguments themselves, as they do under their own names. */
async function program(start: () => Promise<unknown>, args: readonly string[]): Promise<void> {
  process.argv.splice(2, process.argv.length - 2, ...args);
  await start();
}

function help(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length)) + 2;
  const lines = Object.entries(COMMANDS).map(([name, { does }]) => `  ${name.padEnd(width)}${does}`);
  return ['usage: perdure <command> [--help]', '', ...lines].join('\n');
}
