// Starts child processes that end when this process ends, also when it is killed. Libraries (execa's `cleanup`) kill their
// children in an exit handler, which does not run on SIGKILL.
//
// 1. Each child leads its own session: Ctrl-C in the terminal reaches this process only, which stops the child in order.
// 2. A watcher process (a few lines of sh) holds the read end of a pipe. Only this process holds the write end. When this
//    process dies, the watcher reads end-of-file and carries out the stop plan.
// 3. A regular stop works the same way: this process closes the pipe.
// 4. When the child has ended, the watcher kills the rest of the child's process group and exits.
import { spawn, type ChildProcess } from 'node:child_process';
import type { Writable } from 'node:stream';

/** Signals to send in order, each with the time to wait for the exit. SIGKILL follows the last one. */
export type StopPlan = readonly { signal: 'SIGINT' | 'SIGTERM' | 'SIGQUIT'; waitMs: number }[];

/** How a process ended: its exit code or the signal. */
export type Exit = { code: number | null; signal: NodeJS.Signals | null };

/** A child process that ends with its parent. */
export type TiedProcess = {
  pid: number;
  stdout: ChildProcess['stdout'];
  stderr: ChildProcess['stderr'];
  /** Resolves when the process has ended, for any reason. */
  exited: Promise<Exit>;
  /** Carries out the stop plan and waits for the exit. */
  stop(): Promise<Exit>;
};

type TiedOptions = {
  stopPlan: StopPlan;
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Account to run as; needs root. */
  uid?: number;
  gid?: number;
  /** Where stdout and stderr go: a file descriptor, or a pipe to this process. */
  output: number | 'pipe' | 'ignore';
};

// The command replaces the shell (exec), so its pid, exit code and signal are visible here. The watcher is forked twice so
// that it is not a child of the command. $$ is the command's pid in the watcher, too.
const TIE = `
plan=$1; shift
( (
  if read -r _ <&3; then kill -s KILL -- -$$; exit; fi
  for step in $plan; do
    kill -s "\${step%:*}" $$
    tenths=\${step#*:}
    while [ "$tenths" -gt 0 ]; do
      kill -0 $$ || break 2
      # A zombie: the parent that would have reaped it is dead.
      read -r _ _ state _ </proc/$$/stat && [ "$state" = Z ] && break 2
      sleep 0.1
      tenths=$((tenths - 1))
    done
  done
  kill -s KILL -- -$$
) </dev/null >/dev/null 2>&1 & )
exec "$@" 3<&-
`;

/** Time beyond the plan after which the parent sends SIGKILL itself, in case the watcher was killed. */
const MARGIN_MS = 2_000;

/**
 * Starts a process that is stopped when this one ends.
 * @throws when the process cannot be spawned
 */
export async function spawnTied(command: string, args: readonly string[], options: TiedOptions): Promise<TiedProcess> {
  const { stopPlan, output, ...spawnOptions } = options;
  const plan = stopPlan.map((step) => `${step.signal.slice(3)}:${Math.ceil(step.waitMs / 100)}`).join(' ');
  const child = spawn('/bin/sh', ['-c', TIE, 'tie', plan, command, ...args], {
    ...spawnOptions,
    detached: true,
    stdio: ['ignore', output, output, 'pipe'],
  });
  const pipe = child.stdio[3] as Writable;
  // Writing fails with EPIPE if the watcher has exited.
  pipe.on('error', () => {});
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      pipe.end('exited\n');
      resolve({ code, signal });
    });
  });
  const pid = await spawned(child);
  return { pid, stdout: child.stdout, stderr: child.stderr, exited, stop };

  async function stop(): Promise<Exit> {
    pipe.end();
    const timeoutMs = stopPlan.reduce((sum, step) => sum + step.waitMs, MARGIN_MS);
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    try {
      return await exited;
    } finally {
      clearTimeout(timer);
    }
  }
}

function spawned(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('spawn', () => resolve(child.pid as number));
  });
}
