// What processes cost, as /proc says it; NaN where there is none.
import { readFileSync } from 'node:fs';

/** Ticks of /proc in a second; Linux has had 100 on every machine for decades. */
const TICKS = 100;

/** CPU that a process has taken so far, in milliseconds; `children`: with those that it has started. */
export function cpuOf(pid: number, { children = false } = {}): number {
  const own = ticksOf(pid, children);
  const theirs = children ? childrenOf(pid).map((child) => ticksOf(child, false)) : [];
  return (theirs.reduce((sum, ticks) => sum + ticks, own) * 1000) / TICKS;
}

/** Memory that a process holds, in bytes. */
export function memoryOf(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`))?.[1];
  return Number(kilobytes) * 1024;
}

function ticksOf(pid: number, collected: boolean): number {
  const stat = read(`/proc/${pid}/stat`);
  // Behind the command's name in parentheses: state, then fields 4 and on; 14 to 17 are the times.
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
