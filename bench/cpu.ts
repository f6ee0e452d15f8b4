import { readFileSync } from 'node:fs';

/** Ticks of /proc in a second; Linux has had 100 on every machine for decades. */
const TICKS = 100;

/** CPU that a process and its children have taken so far, in milliseconds; undefined where the system does not say. */
export function cpuOf(pid: number): number | undefined {
  const own = ticksOf(pid, { collected: true });
  if (own === undefined) return undefined;
  const children = childrenOf(pid).map((child) => ticksOf(child, { collected: false }) ?? 0);
  return ((own + children.reduce((sum, ticks) => sum + ticks, 0)) * 1000) / TICKS;
}

function ticksOf(pid: number, { collected }: { collected: boolean }): number | undefined {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // Behind the command's name in parentheses: state, then fields 4 and on; 14 to 17 are the times.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number);
  return user + system + (collected ? childUser + childSystem : 0);
}

function childrenOf(pid: number): number[] {
  return (read(`/proc/${pid}/task/${pid}/children`) ?? '').trim().split(' ').filter(Boolean).map(Number);
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
