// Owns child processes that must not outlive this one, however it ends.
//
// 1. Each child is the leader of its own session: Ctrl-C in the terminal reaches us only, and we stop it in order.
// 2. A watcher beside it (a few lines of sh) holds the read end of a pipe whose write end is ours alone. When we die,
//    SIGKILL included, it reads end-of-file and carries out the stop plan.
// 3. An orderly stop takes the same way: we close the pipe.
// 4. Once the child is gone, the watcher ends what is left of the child's process group, and itself.
import { spawn, type ChildProcess } from 'node:child_process';
import type { Writable } from 'node:stream';

/** Signals to send one after the other, each with the time to wait for the exit. SIGKILL follows the last. */
export type StopPlan = readonly { signal: 'SIGINT' | 'SIGTERM' | 'SIGQUIT'; waitMs: number }[];

/** How a process ended: by itself or by a signal. */
export type Exit = { code: number | null; signal: NodeJS.Signals | null };

/** A child process that ends with its parent. */
export type TiedProcess = {
  pid: number;
  stdout: ChildProcess['stdout'];
  stderr: ChildProcess['stderr'];
  /** Settles when the process has ended, for whatever reason. */
  exited: Promise<Exit>;
  /** Carries out the stop plan and waits for the end. */
  stop(): Promise<Exit>;
};

type TiedOptions = {
  stopPlan: StopPlan;
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Account to run under; needs root. */
  uid?: number;
  gid?: number;
  /** Where stdout and stderr go: a file descriptor, or a pipe to us. */
  output: number | 'pipe' | 'ignore';
};

// The command replaces the shell (exec), so that its pid, exit code and signal are the ones we see. The watcher is
// forked twice: the command must not get a child that it does not know. $$ is the command's pid in the watcher too.
const TIE = `
plan=$1; shift
( (
  if read -r _ <&3; then kill -s KILL -- -$$; exit; fi
  for step in $plan; do
    kill -s "\${step%:*}" $$
    tenths=\${step#*:}
    while [ "$tenths" -gt 0 ]; do
      kill -0 $$ || break 2
      # Dead, and nobody has collected it: we are no longer there to do so.
      read -r _ _ state _ </proc/$$/stat && [ "$state" = Z ] && break 2
      sleep 0.1
      tenths=$((tenths - 1))
    done
  done
  kill -s KILL -- -$$
) </dev/null >/dev/null 2>&1 & )
exec "$@" 3<&-
`;

/** What the parent allows on top of the plan before it sends SIGKILL itself, should the watcher have been killed. */
const SPARE_MS = 2_000;

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
  // The watcher may be gone when we write to it.
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
    const patience = stopPlan.reduce((sum, step) => sum + step.waitMs, SPARE_MS);
    const timer = setTimeout(() => child.kill('SIGKILL'), patience);
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
