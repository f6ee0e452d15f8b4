import { Client, Connection } from '@temporalio/client';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freePort, freshDatabase } from '../../tools/test-kit/servers.ts';
import { carryOutErasures } from '../../worker/erasures.ts';

it('T9 a worker that stops while Temporal does not answer leaves the remaining erasures to other workers', async () => {
  const db = patientPool(await freshDatabase());
  const connection = Connection.lazy({ address: `127.0.0.1:${await freePort()}` });
  afterFile(async () => {
    await connection.close();
    await db.end();
  });
  for (const session of ['ses_1', 'ses_2', 'ses_3']) await db.query('SELECT queue_erasure($1, NULL)', [session]);
  const stopping = new AbortController();
  const failed: unknown[] = [];
  // The first failure is logged three seconds after the worker has begun.
  const write = (line: string) => {
    failed.push(JSON.parse(line));
    stopping.abort();
  };
  const log = pino({}, { write });
  await carryOutErasures({ db, client: new Client({ connection }), log, workspaces: scratchDir() }, stopping.signal);
  expect(failed).toMatchObject([{ session: expect.stringMatching(/^ses_[123]$/) as string }]);
  const { rows } = await db.query('SELECT workflow_id FROM erasures ORDER BY 1');
  expect(rows).toHaveLength(3);
});
