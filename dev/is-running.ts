import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Whether `pid` is a live process whose command line contains all of `words`: pids are reused, so the pid is not enough. */
export function isRunning(pid: number, words: readonly string[]): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  const command = commandOf(pid);
  return command === undefined || words.every((word) => command.includes(word));
}

/** The command line; empty for a zombie, undefined if it cannot be read. */
function commandOf(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
  } catch {
    return undefined;
  }
}
