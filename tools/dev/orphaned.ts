import { readFileSync } from 'node:fs';
import type { Env } from '../../config/config.ts';

const POLL_MS = 500;

/**
 * Calls back once when the npm that runs us is gone: after a SIGKILL it cannot tell us so. Without npm, never: whoever
 * starts us from a shell may leave it.
 */
export function onceOrphaned(env: Env, callback: () => void): void {
  if (env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  // Between npm and us there may be the shell that it runs scripts with.
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
  // After the command's name in parentheses: state, then the parent's pid.
  const fields = readProc(pid, 'stat').split(')').at(-1)?.trim().split(' ');
  return fields?.[1] === undefined ? undefined : Number(fields[1]);
}

/** A file of Linux's /proc; empty elsewhere. */
function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
