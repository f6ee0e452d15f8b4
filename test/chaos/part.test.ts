// A process of a campaign that exits although the campaign has not ended it.
import { expect, it } from 'vitest';
import { spawnTied } from '../../dev/spawn-tied.ts';
import { Ledger } from '../../tools/chaos/ledger.ts';
import { Part } from '../../tools/chaos/part.ts';
import { checkProcesses } from '../../tools/chaos/promises/processes.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';

it('Q1 a process that exits by itself is started again, and found', async () => {
  const part = new Part(
    'sleeper',
    () => spawnTied('sleep', ['600'], { stopPlan: [{ signal: 'SIGTERM', waitMs: 1_000 }], output: 'ignore' }),
    { mustRun: true },
  );
  afterFile(() => part.down());
  const broken = async () => {
    const ledger = new Ledger();
    await checkProcesses(ledger, { dir: 'no process names this folder', pids: [], exits: [part] });
    return ledger.violations.map(({ promise }) => promise);
  };
  await part.up();
  await part.bounce('SIGKILL', 0);
  expect(await broken()).toEqual([]);
  process.kill(part.pid!, 'SIGKILL');
  await eventually(() => expect(part.pids).toHaveLength(3));
  expect(await broken()).toEqual(['no process exits by itself']);
  await part.down();
  expect(part.exits).toEqual([{ code: null, signal: 'SIGKILL' }]);
});
