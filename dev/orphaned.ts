import { readFileSync } from 'node:fs';
import type { Env } from '../config/config.ts';

const POLL_MS = 500;

/**
 * Calls back once when the npm that runs this process has ended: if npm is killed with SIGKILL, it forwards no signal. If
 * npm does not run this process, it never calls back, since the shell that started it may end first.
 */
export function onceOrphaned(env: Env, callback: () => void): void {
  if (env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  // npm may run scripts through a shell, which is then the parent.
  const shellsParent = isShell(parent) ? parentOf(parent) : undefined;
  const timer = setInterval(() => {
    if (process.ppid === parent && (shellsParent === undefined || parentOf(parent) === shellsParent)) return;
    clearInterval(timer);
    callback();
  }, POLL_MS);
  timer.unref();
}

function isShell(pid: number): boolean {
  return /^(sh|dash|bash|ash|busybox)$/.test(readProc(pid, 'comm').trim());
}

function parentOf(pid: number): number | undefined {
  // The fields after the command's name in parentheses: state, pid of the parent.
  const fields = readProc(pid, 'stat').split(')').at(-1)?.trim().split(' ');
  return fields?.[1] === undefined ? undefined : Number(fields[1]);
}

/** A file of Linux's /proc; empty on other systems. */
function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
