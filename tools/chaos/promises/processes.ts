import { readdir, readFile } from 'node:fs/promises';
import type { Ledger } from '../ledger.ts';

/** Nothing that was started is left: by what its command line and environment say, where the system shows them. */
export async function checkProcesses(ledger: Ledger, dir: string, pids: readonly number[]): Promise<void> {
  const left: string[] = [];
  for (const pid of await readdir('/proc').catch((): string[] => [])) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    const env = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (command.includes(dir) || env.includes(dir)) left.push(`${pid}: ${command.replaceAll('\0', ' ').slice(0, 120)}`);
  }
  ledger.check('no process is left', dir, left.length === 0, () => ({ started: pids.length, left }));
}
