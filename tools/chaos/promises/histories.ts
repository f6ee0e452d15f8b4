import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Client } from '@temporalio/client';
import { parseConfig } from '../../../config/config.ts';
import { fetchHistory, listExecutions } from '../../../worker/replay/history.ts';
import { readable } from '../../../worker/replay/payloads.ts';
import { type NamedHistory, replay } from '../../../worker/replay/replay.ts';
import { workflowBundle } from '../../../worker/sandbox/bundle.ts';
import { eventually } from '../../test-kit/eventually.ts';
import type { Evidence } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import { CANARY, TEMP_CANARY } from '../plan.ts';

const MOST = 10_000;
const LISTED_WITHIN_MS = 20_000;

/** Every history replays with the current code; no content is in a history or a log. */
export async function checkHistories(ledger: Ledger, { world, sessions }: Evidence, temporal: Client): Promise<void> {
  const executions = await eventually(
    async () => {
      const found = await listExecutions(temporal, { limit: MOST });
      const listed = new Set(found.map(({ workflowId }) => workflowId));
      const missing = sessions.filter(({ session_id }) => !listed.has(session_id));
      if (missing.length > 0) throw new Error(`not listed yet: ${missing.map((row) => row.session_id).join()}`);
      return found;
    },
    { timeout: LISTED_WITHIN_MS },
  );
  const histories: NamedHistory[] = [];
  for (const execution of executions) {
    const name = `${execution.workflowId}/${execution.runId}`;
    histories.push({ name, history: await fetchHistory(temporal, execution) });
  }
  for (const { name, history } of histories) {
    const found = [CANARY, TEMP_CANARY].filter((canary) => readable(history).includes(canary));
    ledger.check('no content is in a history', name, found.length === 0, () => `${found.join()} is in it`);
  }
  const { dir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  for (const { of, broke } of await replay(await workflowBundle(path.join(dir, 'cache')), histories)) {
    ledger.check('every history replays', of.name, broke === undefined, () => `broke at ${broke}`);
  }
  if (ledger.violations.length > 0) await keep(world.keep, histories);
  await checkLogs(ledger, world.keep);
}

async function keep(dir: string, histories: readonly NamedHistory[]): Promise<void> {
  await mkdir(path.join(dir, 'histories'), { recursive: true });
  for (const { name, history } of histories) {
    await writeFile(path.join(dir, 'histories', `${name.replace('/', '.')}.json`), JSON.stringify(history));
  }
}

async function checkLogs(ledger: Ledger, dir: string): Promise<void> {
  for (const name of (await readdir(dir)).filter((file) => file.endsWith('.log'))) {
    const lines = (await readFile(path.join(dir, name), 'utf8')).split('\n');
    const telling = lines.find((line) => line.includes(CANARY) || line.includes(TEMP_CANARY));
    ledger.check('no content is in a log', name, telling === undefined, () => telling?.slice(0, 300));
  }
}
