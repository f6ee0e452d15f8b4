import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { patient } from '../../test-kit/patient.ts';
import type { Ledger } from '../ledger.ts';
import type { Processes } from '../world.ts';

/** A watcher process ends shortly after the process that it watches. */
const ENDS_WITHIN_MS = patient(3_000);
const AGAIN_MS = 100;

/** No worker or host has exited by itself, and no process that was started is left. */
export async function checkProcesses(ledger: Ledger, { dir, pids, exits }: Processes): Promise<void> {
  for (const part of exits)
    ledger.check('no process exits by itself', part.name, part.exits.length === 0, () => part.exits);
  const deadline = Date.now() + ENDS_WITHIN_MS;
  let left = await processesOf(dir);
  while (left.length > 0 && Date.now() < deadline) {
    await delay(AGAIN_MS);
    left = await processesOf(dir);
  }
  ledger.check('no process is left', dir, left.length === 0, () => ({ started: pids.length, left }));
}

/** The processes, but for this one, whose command line or environment names a folder, where the system shows them. */
export async function processesOf(dir: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await readdir('/proc').catch((): string[] => [])) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    const env = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (command.includes(dir) || env.includes(dir))
      found.push(`${pid}: ${command.replaceAll('\0', ' ').slice(0, 120)}`);
  }
  return found;
}
