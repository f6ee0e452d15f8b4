import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Whether the pid is that of a live process whose command line holds all of `words`; after a reboot it may be anything's. */
export function isRunning(pid: number, words: readonly string[]): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  const command = commandOf(pid);
  return command === undefined || words.every((word) => command.includes(word));
}

/** The command line; empty for a process that is dead and not yet collected, undefined when it cannot be read. */
function commandOf(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
  } catch {
    return undefined;
  }
}
