// CPU and memory of processes from /proc; NaN on systems without it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

/** Clock ticks per second in /proc (USER_HZ, 100 on Linux). */
const TICKS = 100;

/** CPU time of a process so far, in milliseconds; `children` includes its child processes. */
export function cpuOf(pid: number, { children = false } = {}): number {
  const own = ticksOf(pid, children);
  const theirs = children ? childrenOf(pid).map((child) => ticksOf(child, false)) : [];
  return (theirs.reduce((sum, ticks) => sum + ticks, own) * 1000) / TICKS;
}

/** Resident memory of a process, in bytes. */
export function memoryOf(pid: number): number {
  return sizeOf(pid, 'VmRSS');
}

/** The highest since `forgetPeak`. */
export function peakMemoryOf(pid: number): number {
  return sizeOf(pid, 'VmHWM');
}

export function forgetPeak(pid: number): void {
  const file = `/proc/${pid}/clear_refs`;
  if (existsSync(file)) writeFileSync(file, '5');
}

function sizeOf(pid: number, name: string): number {
  const kilobytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(read(`/proc/${pid}/status`))?.[1];
  return Number(kilobytes) * 1024;
}

function ticksOf(pid: number, collected: boolean): number {
  const stat = read(`/proc/${pid}/stat`);
  // After the command name in parentheses: the state, then fields 4 and up; 14 to 17 are times (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user = Number.NaN, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number);
  return user + system + (collected ? childUser + childSystem : 0);
}

function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number);
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
