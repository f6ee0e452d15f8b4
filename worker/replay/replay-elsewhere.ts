import { fork } from 'node:child_process';
import { constants, setPriority } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Answered, GivenHistory } from './process.ts';

/** Time limit of a replay with the start of its process; code that loops would take for ever. */
export const REPLAY_MS = 120_000;
/** Of its heap, in MiB. */
const HEAP_MB = 512;

/** With the extension of this file: source or built. */
const ENTRY = fileURLToPath(new URL(`process${path.extname(import.meta.filename)}`, import.meta.url));

/**
 * Replays histories in a process of their own, of lower priority than this one. It is killed after `REPLAY_MS` and when the
 * signal fires. If this process ends without that, the other one does, too, unless its code loops.
 */
export async function replayElsewhere(histories: readonly GivenHistory[], signal: AbortSignal): Promise<Answered> {
  const { NODE_COMPILE_CACHE } = process.env;
  const child = fork(ENTRY, [], {
    execArgv: [`--max-old-space-size=${HEAP_MB}`],
    // Nothing of what this process knows: no addresses, no keys.
    env: NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE },
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    timeout: REPLAY_MS,
    killSignal: 'SIGKILL',
    signal,
  });
  lowerPriority(child.pid);
  const { promise, resolve } = Promise.withResolvers<Answered>();
  child.once('message', (answered) => resolve(answered as Answered));
  child.once('exit', (code, killedBy) => resolve({ problem: endOf(code, killedBy) }));
  child.on('error', () => resolve({ problem: 'its process could not be started, or was stopped' }));
  child.send(histories);
  return promise;
}

function endOf(code: number | null, killedBy: NodeJS.Signals | null): string {
  if (killedBy === 'SIGKILL') return `it took more than ${REPLAY_MS / 1_000} s, or the system killed it`;
  return `its process ended with ${killedBy ?? code}; it may use at most ${HEAP_MB} MiB of memory`;
}

function lowerPriority(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has ended, or this system does not allow it.
  }
}
